//! A folder with a store, the processes that work on it, and what they left.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use loom_spi::{
    AcquireFence, BranchRegistry as _, Children, EventStoreExt as _, ExecutionId, Fencing as _,
};
use loom_store_sqlite::{Options, SqliteStore};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub(crate) struct World {
    folder: TempDir,
    runtime: tokio::runtime::Runtime,
    pub(crate) store: Arc<SqliteStore>,
}

/// What the log of an execution records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// The keys of its effects.
    pub(crate) effects: Vec<String>,
    pub(crate) events: usize,
    pub(crate) closed: bool,
}

impl World {
    pub(crate) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.db");
        let options = Options::new().with_busy_timeout(Duration::from_millis(200));
        let store = runtime.block_on(SqliteStore::create(file, options));
        Self {
            folder,
            runtime,
            store: Arc::new(store.unwrap()),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a process that others cannot follow soon: `graph`, `spread`, `meet` or `flow`.
    pub(crate) fn start(&self, what: &str, id: &str) -> Node {
        self.start_with(what, id, Duration::from_secs(60))
    }

    /// Starts a process whose leases lapse soon, so that whoever follows it need not wait for long.
    pub(crate) fn start_mortal(&self, what: &str, id: &str) -> Node {
        self.start_with(what, id, Duration::from_millis(150))
    }

    fn start_with(&self, what: &str, id: &str, lease: Duration) -> Node {
        let mut child = Command::new(env!("CARGO_BIN_EXE_loom-durable-node"))
            .env("LOOM_DURABLE_LEASE_MS", lease.as_millis().to_string())
            .arg(what)
            .arg(self.path())
            .arg(id)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Node {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// How often each effect happened, by execution and key.
    pub(crate) fn effects(&self) -> BTreeMap<(String, String), usize> {
        let mut counts = BTreeMap::new();
        let text = fs::read_to_string(self.path().join("effects")).unwrap_or_default();
        for line in text.lines() {
            let mut words = line.split(' ');
            let (id, key) = (words.next().unwrap(), words.next().unwrap());
            *counts.entry((id.to_owned(), key.to_owned())).or_insert(0) += 1;
        }
        counts
    }

    /// Which processes had effects of an execution.
    pub(crate) fn processes(&self, id: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path().join("effects")).unwrap_or_default();
        let mut processes: Vec<_> = text
            .lines()
            .filter(|line| line.split(' ').next() == Some(id))
            .filter_map(|line| line.split(' ').nth(3).map(str::to_owned))
            .collect();
        processes.dedup();
        processes
    }

    /// Whether nobody keeps the store locked.
    fn can_write(&self) -> bool {
        let scratch = AcquireFence::new(ExecutionId::new("scratch").unwrap());
        let acquired = self.runtime.block_on(self.store.acquire_fence(scratch));
        acquired.is_ok()
    }

    /// The branches of an execution.
    pub(crate) fn children(&self, parent: &str) -> Vec<String> {
        let parent = Children::new(ExecutionId::new(parent).unwrap());
        let children = self.runtime.block_on(self.store.children(parent)).unwrap();
        let children = children.into_iter();
        children.map(|branch| branch.child.to_string()).collect()
    }

    /// What the log of an execution records; nothing if there is none.
    pub(crate) fn recorded(&self, id: &str) -> Recorded {
        let id = ExecutionId::new(id).unwrap();
        self.runtime.block_on(async {
            if !self.store.exists(&id).await.unwrap() {
                return Recorded {
                    effects: Vec::new(),
                    events: 0,
                    closed: false,
                };
            }
            let events: Vec<_> = self.store.read_all(&id, 0).try_collect().await.unwrap();
            let effects = events.iter().filter(|event| &*event.kind == "loom.effect");
            let keys = effects.map(|event| {
                let payload: serde_json::Value = serde_json::from_slice(&event.payload).unwrap();
                payload["key"].as_str().unwrap().to_owned()
            });
            Recorded {
                effects: keys.collect(),
                events: events.len(),
                closed: events.last().is_some_and(|event| event.terminal),
            }
        })
    }
}

/// A process. It ends with this, at the latest.
pub(crate) struct Node {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Node {
    /// The next line that it says; `None` when it has ended.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.stdout.read_line(&mut line).unwrap();
        // The last line of a process that was killed may be half of one.
        (read > 0 && line.ends_with('\n')).then(|| line.trim_end().to_owned())
    }

    /// Reads until it says `wanted`, and no further.
    pub(crate) fn wait_for(&mut self, wanted: &str) {
        loop {
            let line = self.line().expect("it ended before it said so");
            if line == wanted {
                return;
            }
        }
    }

    /// What it said at its end: `ended …` or `error …`.
    pub(crate) fn end(&mut self) -> String {
        let mut end = String::new();
        while let Some(line) = self.line() {
            if is_end(&line) {
                end = line;
            }
        }
        self.child.wait().unwrap();
        end
    }

    pub(crate) fn say(&mut self, line: &str) {
        // It may have ended.
        let _ = writeln!(self.stdin.as_mut().unwrap(), "{line}");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Pauses it, and not while it has the store locked: others would find that out of reach.
    pub(crate) fn pause(&self, world: &World) {
        loop {
            self.signal(Signal::STOP);
            let stat = format!("/proc/{}/stat", self.child.id());
            while !fs::read_to_string(&stat).unwrap().contains(") T ") {
                thread::yield_now();
            }
            if world.can_write() {
                return;
            }
            self.signal(Signal::CONT);
        }
    }

    /// Kills it with SIGKILL, and returns when it is gone.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Whether it is the last word of a process that was not killed.
pub(crate) fn is_end(line: &str) -> bool {
    line.starts_with("ended") || line.starts_with("error")
}

impl Drop for Node {
    fn drop(&mut self) {
        // An error means that it has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
