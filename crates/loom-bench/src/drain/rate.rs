//! How fast closed executions move, beside the appends that the same data takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use loom_shard_plan::{ShardId, ShardPlan, Topology};
use loom_sharded_store::DrainOptions;

use super::SUITE;
use crate::Failure;
use crate::report::{Row, Target};
use crate::stores::{self, AT_ONCE, Store};
use crate::timing::{Ratio, median};

const EXECUTIONS: usize = 3_000;
const EVENTS: usize = 20;
/// Odd, so that the median is one of them.
const ROUNDS: usize = 5;

pub(super) async fn rows() -> Result<Vec<Row>, Failure> {
    let mut rounds = Vec::new();
    for round in 0..=ROUNDS {
        let times = round_trip().await?;
        if round > 0 {
            rounds.push(times);
        }
    }
    let rate = |time: Duration| (EXECUTIONS * EVENTS) as f64 / time.as_secs_f64();
    let note = format!(
        "{:.0} against {:.0} events/s, {EXECUTIONS} executions of {EVENTS} events of 256 B, {AT_ONCE} at once, FULL",
        median(rounds.iter().map(|(moved, _)| rate(*moved))),
        median(rounds.iter().map(|(_, appended)| rate(*appended))),
    );
    Ok(vec![Row::new(
        SUITE,
        "rate of draining closed executions, SQLite",
        "appending the same logs, each in one append",
        Ratio::of(
            rounds
                .iter()
                .map(|(moved, appended)| rate(*moved) / rate(*appended)),
        ),
        Some(Target::AtLeast(0.3)),
        note,
    )])
}

/// How long it takes to move all logs to an empty shard, and how long to have appended them to another.
async fn round_trip() -> Result<(Duration, Duration), Failure> {
    let folder = stores::folder()?;
    let source = stores::sqlite(folder.path(), "source.db").await?;
    let destination = stores::sqlite(folder.path(), "destination.db").await?;
    let plan = ShardPlan::new(1)?;
    let store = stores::sharded([source, destination], plan.clone()).await?;
    let logs = stores::closed_logs(EXECUTIONS, EVENTS);
    let as_store: Store = Arc::new(store.clone());
    let begun = Instant::now();
    stores::append_all(&as_store, logs, AT_ONCE).await?;
    let appended = begun.elapsed();

    let all_away = Topology::new().joining(ShardId(1), 1)?;
    store.publish(plan.rebalance(&all_away)?).await?;
    let begun = Instant::now();
    let options = DrainOptions::new().with_settle(false);
    let drained = store.drain(&options, |_| {}).await?;
    let moved = begun.elapsed();
    if drained.moved != EXECUTIONS as u64 {
        return Err(format!("{} of {EXECUTIONS} were moved: {drained:?}", drained.moved).into());
    }
    Ok((moved, appended))
}
