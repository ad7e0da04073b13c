//! The plan beside the crates that route keys to nodes.

mod peers;
mod routing;

use std::hint::black_box;
use std::time::Duration;

use loom_shard_plan::{PlanError, RebalanceOptions, ShardPlan};

use crate::report::{Row, Target};
use crate::timing::{Ratio, pair};

const SUITE: &str = "plan";

/// Every comparison of the suite.
pub(crate) fn run() -> Vec<Row> {
    let mut rows = Vec::new();
    for shards in [16, 64] {
        rows.extend(routing::lookups(shards));
        rows.extend(routing::batches(shards));
    }
    for (from, to) in [(4, 5), (8, 9), (10, 11), (64, 65)] {
        rows.extend(routing::movement(from, to));
    }
    rows.extend(changes());
    rows
}

/// Deriving and reading plans, beside a fixed bound: one that grows from 64 equal shards, and one that has
/// grown to 64 one by one and has many runs.
fn changes() -> Vec<Row> {
    let Ok(plan) = ShardPlan::new(64) else {
        return Vec::new();
    };
    let Ok(growing) = plan.rebalanced(65, RebalanceOptions::default()) else {
        return Vec::new();
    };
    let mut rows = derived_and_read(&plan, &growing, "64 -> 65");
    if let Ok(grown) = grown_one_by_one(64) {
        rows.extend(derived_and_read(&grown, &grown, "1 -> 2 -> … -> 64"));
    }
    rows
}

fn grown_one_by_one(shards: u16) -> Result<ShardPlan, PlanError> {
    let mut plan = ShardPlan::new(1)?;
    for shards in 2..=shards {
        plan = plan.rebalanced(shards, RebalanceOptions::default())?;
        plan = plan.settled_all(plan.migrating_buckets().iter())?;
    }
    Ok(plan)
}

fn derived_and_read(plan: &ShardPlan, read: &ShardPlan, name: &str) -> Vec<Row> {
    let (bytes, text, json) = (read.to_bytes(), read.to_string(), read.to_json());
    vec![
        bounded(&format!("rebalanced to 65, plan of {name}"), || {
            black_box(plan)
                .rebalanced(65, RebalanceOptions::default())
                .is_ok()
        }),
        bounded(&format!("decode {name}, binary"), || {
            ShardPlan::from_bytes(black_box(&bytes)).is_ok()
        }),
        bounded(&format!("decode {name}, text"), || {
            black_box(&text).parse::<ShardPlan>().is_ok()
        }),
        bounded(&format!("decode {name}, JSON"), || {
            ShardPlan::from_json(black_box(&json)).is_ok()
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
