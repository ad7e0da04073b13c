//! `loom plan` as its users run it: files in, files out, exit codes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    unreachable_pub,
    reason = "helpers of tests fail as tests do"
)]

mod bad_input;
mod check;
mod derive;
mod diff;
mod guide;
mod own_snapshots;
mod route;
mod show;
#[path = "../support/mod.rs"]
mod support;

use loom_shard_plan::ShardPlan;
use support::{Bench, Ran};

/// A folder with `a.plan` of 4 shards, and `b.plan` that grows it to 5.
fn grown() -> Bench {
    let bench = Bench::new();
    bench.ok(&["plan", "new", "--shards", "4", "--out", "a.plan"]);
    bench.ok(&words("plan rebalance a.plan --shards 5 --out b.plan"));
    bench
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn plan(text: &str) -> ShardPlan {
    text.parse().unwrap()
}

impl Ran {
    /// What scripts and people see of it.
    fn shown(&self) -> String {
        format!(
            "exit code {}\n-- stdout\n{}-- stderr\n{}",
            self.code.unwrap(),
            self.stdout,
            self.stderr
        )
    }
}
