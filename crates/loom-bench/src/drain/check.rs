//! What it costs to know whether a bucket is drained.

use std::time::{Duration, Instant};

use loom_shard_plan::{ShardId, ShardPlan, Topology};
use loom_sharded_store::ShardedStore;
use loom_spi::{Append, ExecutionId, NewEvent};

use super::SUITE;
use crate::Failure;
use crate::report::{Row, Target};
use crate::stores;
use crate::timing::{Ratio, median};

const EXECUTIONS: usize = 1_000_000;
/// Executions are tiny, and appends are grouped.
const AT_ONCE: usize = 2_048;
/// Odd, so that the median is one of them.
const ROUNDS: usize = 5;
const OF_A_BUCKET: Duration = Duration::from_millis(1);
const OF_ALL: Duration = Duration::from_secs(1);

pub(super) async fn rows() -> Result<Vec<Row>, Failure> {
    let folder = stores::folder()?;
    let source = stores::sqlite(folder.path(), "source.db").await?;
    let destination = stores::sqlite(folder.path(), "destination.db").await?;
    let plan = ShardPlan::new(1)?;
    let executions = (0..EXECUTIONS).map(|_| {
        let begun = NewEvent::new("begun", "");
        Append::new(ExecutionId::generate(), 0, vec![begun])
    });
    stores::append_all(&source, executions, AT_ONCE).await?;
    let store = stores::sharded([source, destination], plan.clone()).await?;
    // A fifth of the buckets leaves.
    let topology = Topology::of(&plan)
        .weighing(ShardId(0), 4)?
        .joining(ShardId(1), 1)?;
    store.publish(plan.rebalance(&topology)?).await?;
    let buckets: Vec<u32> = store
        .plan()
        .ok_or("no plan")?
        .migrating()
        .map(|migration| migration.bucket)
        .collect();
    let (mut each, mut all) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        each.extend(one_by_one(&store, &buckets).await?);
        let begun = Instant::now();
        let report = store.drain_report().await?;
        all.push(begun.elapsed());
        if report.undrained().count() == 0 {
            return Err("nothing was left to drain".into());
        }
    }
    let count = buckets.len();
    Ok(vec![
        bounded(
            "`is_bucket_drained`, SQLite shard of 1,000,000 executions".to_owned(),
            "1 ms",
            OF_A_BUCKET,
            &each,
        ),
        bounded(
            format!("`drain_report`, {count} buckets of the same"),
            "1 s",
            OF_ALL,
            &all,
        ),
    ])
}

async fn one_by_one(store: &ShardedStore, buckets: &[u32]) -> Result<Vec<Duration>, Failure> {
    let mut times = Vec::new();
    for bucket in buckets {
        let begun = Instant::now();
        let drain = store.is_bucket_drained(*bucket).await?;
        times.push(begun.elapsed());
        if drain.source.is_none() {
            return Err(format!("bucket {bucket} does not migrate").into());
        }
    }
    Ok(times)
}

fn bounded(what: String, against: &str, bound: Duration, times: &[Duration]) -> Row {
    let seconds = || times.iter().map(Duration::as_secs_f64);
    let note = format!("{:.3} ms", median(seconds()) * 1e3);
    let ratio = Ratio::of(seconds().map(|time| time / bound.as_secs_f64()));
    Row::new(SUITE, what, against, ratio, Some(Target::AtMost(1.0)), note)
}
