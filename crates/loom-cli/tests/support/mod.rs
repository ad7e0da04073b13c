//! What the tests of the command share: a deployment in a folder of its own, and the binary to run on it.

#![allow(dead_code, reason = "every test file uses a part of it")]
#![allow(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "helpers of tests fail as tests do"
)]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use flate2::read::GzDecoder;
use serde_json::Value;
use tempfile::TempDir;

/// A folder, and the `loom` binary run in it.
pub struct Bench {
    folder: TempDir,
}

/// What a run printed, and its exit code.
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Bench {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// With a deployment of `shards` shards.
    pub fn with_shards(shards: u16) -> Self {
        let bench = Self::new();
        bench.ok(&["init", "--shards", &shards.to_string()]);
        bench
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Adds a line of the `[limits]` table to `loom.toml`.
    pub fn limit(&self, line: &str) {
        let mut text = self.read("loom.toml");
        if !text.contains("[limits]") {
            text.push_str("\n[limits]\n");
        }
        self.write("loom.toml", format!("{text}{line}\n"));
    }

    pub fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loom"));
        command
            .args(args)
            .current_dir(self.folder.path())
            .env_remove("LOOM_CONFIG")
            .env_remove("LOOM_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    pub fn run_with_stdin<S: AsRef<OsStr>>(&self, args: &[S], stdin: &[u8]) -> Ran {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            // It may end before it has read everything.
            scope.spawn(move || drop(pipe.write_all(stdin)));
            Ran::of(child.wait_with_output().unwrap())
        })
    }

    /// Runs it and expects success.
    pub fn ok<S: AsRef<OsStr>>(&self, args: &[S]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stdout
    }

    /// Runs it with `--json`, expects success, and returns the one document.
    pub fn json<S: AsRef<OsStr>>(&self, args: &[S]) -> Value {
        let mut args: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
        args.push("--json".as_ref());
        serde_json::from_str(&self.ok(&args)).unwrap()
    }

    /// Starts it, and kills it with SIGKILL as soon as a line on stderr satisfies `when`. Says whether it
    /// came to that.
    pub fn kill_when<S: AsRef<OsStr>>(&self, args: &[S], when: impl Fn(&str) -> bool) -> bool {
        let mut child = self.command(args).spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let reached = BufReader::new(stderr)
            .lines()
            .map_while(Result::ok)
            .any(|line| when(&line));
        child.kill().unwrap();
        child.wait().unwrap();
        reached
    }

    /// The executions and events that the deployment has, and that the audit found sound.
    pub fn audited(&self) -> (u64, u64) {
        let audit = self.json(&["audit"]);
        assert_eq!(audit["violations"], 0);
        let status = self.json(&["status"]);
        for key in ["executions", "events"] {
            assert_eq!(audit[key], status[key]);
        }
        (number(&audit["executions"]), number(&audit["events"]))
    }

    pub fn exported(&self) -> Logs {
        logs(self.ok(&["export"]).as_bytes())
    }

    /// The ids of the executions that are on a shard.
    pub fn ids_on(&self, shard: u16) -> Vec<String> {
        let listed = self.json(&["ls", "--shard", &shard.to_string(), "--limit", "1000000"]);
        let ids = listed["executions"].as_array().unwrap().iter();
        ids.map(|row| row["execution"].as_str().unwrap().to_owned())
            .collect()
    }
}

impl Ran {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Expects a failure with one clear message and nothing else.
    pub fn refused(&self, code: i32, says: &[&str]) {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        assert_eq!(self.stdout, "");
        assert_eq!(self.stderr.matches("error: ").count(), 1, "{}", self.stderr);
        for text in says {
            assert!(
                self.stderr.contains(text),
                "expected `{text}` in\n{}",
                self.stderr
            );
        }
    }
}

pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// The JSON values of each execution's lines, in order.
pub type Logs = BTreeMap<String, Vec<Value>>;

pub fn logs(lines: &[u8]) -> Logs {
    let mut logs = Logs::new();
    for line in lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let value: Value = serde_json::from_slice(line).unwrap();
        let id = value["execution"].as_str().unwrap().to_owned();
        logs.entry(id).or_default().push(value);
    }
    logs
}

pub fn count(logs: &Logs) -> (u64, u64) {
    let events: usize = logs.values().map(Vec::len).sum();
    (logs.len() as u64, events as u64)
}

/// Compares without printing thousands of values.
pub fn assert_same(found: &Logs, expected: &Logs) {
    assert_eq!(count(found), count(expected));
    for (id, events) in expected {
        assert_eq!(found.get(id), Some(events), "execution `{id}`");
    }
}

/// `executions` executions whose events are interleaved, most short and some long, all of them ended. The
/// same each time.
pub fn generated(executions: u64) -> String {
    let mut events: Vec<(u64, u64, u64, u64)> = Vec::new();
    for execution in 0..executions {
        // A multiplicative hash (Knuth) in place of a random number.
        let dice = execution.wrapping_mul(2_654_435_761) >> 7;
        let length = if dice % 10 == 0 {
            20 + dice % 30
        } else {
            1 + dice % 8
        };
        for sequence in 0..length {
            let at = execution * 40 + sequence * (1 + dice % 97);
            events.push((at, execution, sequence, length));
        }
    }
    events.sort_unstable();
    let mut text = String::new();
    for (at, execution, sequence, length) in events {
        let last = if sequence + 1 == length {
            ",\"last\":true"
        } else {
            ""
        };
        writeln!(
            text,
            "{{\"execution\":\"case-{execution}\",\"at\":{at},\"type\":\"step {sequence}\",\"amount\":{execution}.{sequence}0,\"tags\":[\"a b\",null]{last}}}"
        )
        .unwrap();
    }
    text
}

/// The real event logs, where the tests are told of them: `LOOM_DATA` names their folder.
pub fn real_log(name: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("LOOM_DATA") else {
        eprintln!("SKIPPED: LOOM_DATA does not name a folder with {name}");
        return None;
    };
    let path = Path::new(&folder).join(name);
    assert!(
        path.exists(),
        "LOOM_DATA is set, but there is no {}",
        path.display()
    );
    Some(path)
}

pub fn gunzip(path: &Path) -> Vec<u8> {
    let mut text = Vec::new();
    GzDecoder::new(fs::File::open(path).unwrap())
        .read_to_end(&mut text)
        .unwrap();
    text
}

/// Waits for a child and returns what it printed.
pub fn finish(child: Child) -> Ran {
    Ran::of(child.wait_with_output().unwrap())
}
