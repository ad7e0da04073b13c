//! Processes that are killed at random moments, and what they reported before.
//!
//! `LOOM_KILL_ROUNDS` says how often; `LOOM_KILL_SEED` repeats a run.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Tells a process that a test starts where its files are: it is the one to be killed then.
const CHILD: &str = "LOOM_TEST_KILLED";
const ROUND: &str = "LOOM_TEST_KILLED_ROUND";
const PREFIX: &str = "acknowledged";

/// Where the files are and which round it is, in the process that is to be killed.
pub(crate) fn child() -> Option<(PathBuf, String)> {
    let path = std::env::var_os(CHILD)?;
    Some((path.into(), std::env::var(ROUND).unwrap()))
}

/// In each round starts `test` again as another process, and kills it after a random number of reports. What it
/// reported until its end is handed to `verify`.
#[expect(
    clippy::print_stdout,
    reason = "shown with a test that fails, so that it can be repeated"
)]
pub(crate) fn rounds(test: &str, path: &Path, rounds: usize, mut verify: impl FnMut(Vec<String>)) {
    let number = |name, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let rounds = number("LOOM_KILL_ROUNDS", rounds);
    let mut random = number("LOOM_KILL_SEED", std::process::id() as usize);
    println!("LOOM_KILL_SEED={random}");
    for round in 0..rounds {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let reports = run_and_kill(test, path, round, 1 + (random >> 33) % 300);
        assert!(!reports.is_empty(), "round {round} saw no acknowledgement");
        verify(reports);
    }
}

fn run_and_kill(test: &str, path: &Path, round: usize, after: usize) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, path)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut reports = Vec::new();
    for line in &mut lines {
        // The last line may have been cut off in the middle: it has no full stop then.
        let line = line.unwrap();
        let report = line
            .strip_prefix(PREFIX)
            .and_then(|line| line.strip_suffix('.'));
        let Some(report) = report else {
            continue;
        };
        reports.push(report.trim().to_owned());
        if reports.len() == after {
            child.kill().unwrap();
        }
    }
    let status = child.wait().unwrap();
    assert!(!status.success(), "it ended by itself");
    reports
}

/// Says what was acknowledged. One write, so that a line is cut off only by the end of the process.
pub(crate) fn report(what: &str) {
    let line = format!("\n{PREFIX} {what}.\n");
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap()
}
