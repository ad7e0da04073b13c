//! The plan beside the crates that route keys to nodes.

mod peers;
mod routing;

use std::hint::black_box;
use std::time::Duration;

use loom_shard_plan::{RebalanceOptions, ShardPlan};

use crate::report::{Row, Target};
use crate::timing::{Ratio, pair};

const SUITE: &str = "plan";

/// Every comparison of the suite.
pub(crate) fn run() -> Vec<Row> {
    let mut rows = Vec::new();
    for shards in [16, 64] {
        rows.extend(routing::lookups(shards));
    }
    for (from, to) in [(4, 5), (8, 9), (10, 11), (64, 65)] {
        rows.extend(routing::movement(from, to));
    }
    rows.extend(changes());
    rows
}

/// Deriving, writing and reading a plan, beside a fixed bound.
fn changes() -> Vec<Row> {
    let Ok(plan) = ShardPlan::new(64) else {
        return Vec::new();
    };
    let Ok(grown) = plan.rebalanced(65, RebalanceOptions::default()) else {
        return Vec::new();
    };
    let bytes = grown.to_bytes();
    let text = grown.to_string();
    let json = serde_json::to_string(&grown).unwrap_or_default();
    vec![
        bounded("rebalanced 64 -> 65, 4096 buckets", || {
            black_box(&plan)
                .rebalanced(65, RebalanceOptions::default())
                .is_ok()
        }),
        bounded("decode the binary form of that plan", || {
            ShardPlan::from_bytes(black_box(&bytes)).is_ok()
        }),
        bounded("decode its text form", || {
            black_box(&text).parse::<ShardPlan>().is_ok()
        }),
        bounded("decode its JSON form", || {
            serde_json::from_str::<ShardPlan>(black_box(&json)).is_ok()
        }),
    ]
}

/// A row for something that should take no more than 20 µs. The bound is a time and so means what it
/// says on a machine like the one it was set on; the ratio is to it.
fn bounded(what: &str, mut run: impl FnMut() -> bool) -> Row {
    const RUNS: u32 = 200;
    const BOUND: Duration = Duration::from_micros(20);
    let timed = pair(|| (0..RUNS).filter(|_| run()).count(), || ());
    let each = timed.ours / RUNS;
    let ratio = each.as_secs_f64() / BOUND.as_secs_f64();
    let note = format!("{:.1} µs", each.as_secs_f64() * 1e6);
    Row::new(
        SUITE,
        what,
        "20 µs",
        Ratio::exact(ratio),
        Some(Target::AtMost(1.0)),
        note,
    )
}
