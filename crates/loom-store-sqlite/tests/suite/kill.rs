//! A process that appends is killed at random moments: everything that it reported as acknowledged is there, and
//! nothing half.
//!
//! `LOOM_KILL_ROUNDS` says how often; `LOOM_KILL_SEED` repeats a run.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use loom_spi::{Append, Delete, EventStore, EventStoreExt as _, ExecutionId, Head, List, NewEvent};
use loom_store_sqlite::{Options, SqliteStore};

/// Tells the process that the test starts which file to append to.
const CHILD: &str = "LOOM_TEST_APPENDER";
const ROUND: &str = "LOOM_TEST_APPENDER_ROUND";
const ROUNDS: usize = 20;
const WRITERS: usize = 8;
const PREFIX: &str = "acknowledged";

#[test]
fn a_killed_process_loses_nothing_that_was_acknowledged() {
    if let Some(path) = std::env::var_os(CHILD) {
        return append_until_killed(Path::new(&path), &std::env::var(ROUND).unwrap());
    }
    let number = |name, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let rounds = number("LOOM_KILL_ROUNDS", ROUNDS);
    let mut random = number("LOOM_KILL_SEED", std::process::id() as usize);
    println!("LOOM_KILL_SEED={random}");

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shard.db");
    runtime()
        .block_on(SqliteStore::create(&path, Options::new()))
        .unwrap();

    let mut acknowledged = Acknowledged::new();
    for round in 0..rounds {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let reports = run_and_kill(&path, round, 1 + (random >> 33) % 300);
        assert!(!reports.is_empty(), "round {round} saw no acknowledgement");
        acknowledged.extend(reports);
        runtime().block_on(verify(&path, &acknowledged));
    }
}

/// By id, the length that was acknowledged last; 0 when it was deleted.
type Acknowledged = BTreeMap<String, u64>;

/// Starts the appender and kills it once it has reported `after` acknowledgements. What it reported until its
/// end counts too.
fn run_and_kill(path: &Path, round: usize, after: usize) -> Acknowledged {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "kill::a_killed_process_loses_nothing_that_was_acknowledged",
            "--nocapture",
        ])
        .env(CHILD, path)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut reports = Acknowledged::new();
    let mut seen = 0;
    for line in &mut lines {
        // The last line may have been cut off in the middle: it has no full stop then.
        let Some(report) = line
            .as_deref()
            .unwrap()
            .strip_prefix(PREFIX)
            .and_then(|line| line.strip_suffix('.'))
        else {
            continue;
        };
        let (id, next) = report.trim().split_once(' ').unwrap();
        reports.insert(id.to_owned(), next.parse().unwrap());
        seen += 1;
        if seen == after {
            child.kill().unwrap();
        }
    }
    let status = child.wait().unwrap();
    assert!(!status.success(), "it ended by itself");
    reports
}

async fn verify(path: &Path, acknowledged: &Acknowledged) {
    let store = SqliteStore::open(path, Options::new()).await.unwrap();
    for (name, next) in acknowledged {
        let id = ExecutionId::new(name).unwrap();
        let head = store.head(Head::new(id.clone())).await.unwrap();
        let found = head.map_or(0, |head| head.next_sequence);
        // One more append, or the deletion of a finished log, may have been made without being reported.
        let deleted = *next == 0 || (*next == LAST && name.ends_with(DELETED) && found == 0);
        if deleted {
            assert_eq!(found, 0, "`{name}` came back");
        } else {
            assert!(
                found >= *next,
                "`{name}` has {found} events, {next} were acknowledged"
            );
        }
    }
    let all: Vec<_> = store.list_all(List::new(1000)).try_collect().await.unwrap();
    for execution in all {
        let events: Vec<_> = store
            .read_all(&execution.id, 0)
            .try_collect()
            .await
            .unwrap();
        assert_eq!(events.len() as u64, execution.head.next_sequence);
        let mut rest = &events[..];
        while let Some(first) = rest.first() {
            // Each append says in its events how many they are.
            let size: usize = std::str::from_utf8(&first.payload)
                .unwrap()
                .trim()
                .parse()
                .unwrap();
            assert!(rest.len() >= size, "half an append in `{}`", execution.id);
            assert!(
                rest[..size]
                    .iter()
                    .all(|event| event.payload == first.payload)
            );
            rest = &rest[size..];
        }
    }
    store.close().await.unwrap();
}

/// How long a log of the appender gets.
const LAST: u64 = 12;
/// Logs with such a name are deleted once they are finished.
const DELETED: char = '3';

fn append_until_killed(path: &Path, round: &str) {
    runtime().block_on(async {
        let store = Arc::new(SqliteStore::open(path, Options::new()).await.unwrap());
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (store, name) = (Arc::clone(&store), format!("{round}-{writer}"));
                tokio::spawn(async move {
                    for n in 0.. {
                        append_one_log(&store, &format!("{name}-{n}")).await;
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
    });
}

/// Appends 3, 1, 2, 3, 1 and 2 events, and deletes some such logs.
async fn append_one_log(store: &SqliteStore, name: &str) {
    let id = ExecutionId::new(name).unwrap();
    let mut next = 0;
    for size in [3, 1, 2, 3, 1, 2] {
        let event = NewEvent::new("step", format!("{size:>256}"));
        let append = Append::new(id.clone(), next, vec![event; size]);
        next = store.append(append).await.unwrap().next_sequence;
        report(name, next);
    }
    assert_eq!(next, LAST);
    if name.ends_with(DELETED) {
        store.delete(Delete::new(id)).await.unwrap();
        report(name, 0);
    }
}

/// One write, so that a line is cut off only by the end of the process.
fn report(name: &str, next: u64) {
    let line = format!("\n{PREFIX} {name} {next}.\n");
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap()
}
