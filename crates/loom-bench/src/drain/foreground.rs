//! What others notice of a drain.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use loom_shard_plan::{RebalanceOptions, ShardPlan};
use loom_sharded_store::{DrainOptions, ShardedStore};
use loom_spi::{Append, EventStore as _, ExecutionId, NewEvent};

use super::SUITE;
use crate::Failure;
use crate::report::{Row, Target};
use crate::stores::{self, AT_ONCE, Store};
use crate::timing::{Ratio, median};

const WRITERS: usize = 8;
/// Moves begun in a second.
const RATES: [u32; 2] = [100, 400];
const FOR: Duration = Duration::from_secs(3);
/// Odd, so that the median is one of them.
const ROUNDS: usize = 5;
/// What the p99 of appends may rise by at the lower rate.
const SHARE: f64 = 1.5;

pub(super) async fn rows() -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for rate in RATES {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            rounds.push(round(rate).await?);
        }
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        rows.push(Row::new(
            SUITE,
            format!("p99 of an append during a drain of {rate} executions a second"),
            "without a drain",
            Ratio::of(
                rounds
                    .iter()
                    .map(|(with, without)| with.as_secs_f64() / without.as_secs_f64()),
            ),
            (rate == RATES[0]).then_some(Target::AtMost(SHARE)),
            format!(
                "{:.2} against {:.2} ms, {WRITERS} writers, 2 SQLite shards on one disk, FULL",
                median(rounds.iter().map(|(with, _)| millis(*with))),
                median(rounds.iter().map(|(_, without)| millis(*without))),
            ),
        ));
    }
    Ok(rows)
}

/// The p99 with and without a drain.
async fn round(rate: u32) -> Result<(Duration, Duration), Failure> {
    let folder = stores::folder()?;
    let shards = [
        stores::sqlite(folder.path(), "0.db").await?,
        stores::sqlite(folder.path(), "1.db").await?,
    ];
    let plan = ShardPlan::new(1)?;
    let store = stores::sharded(shards, plan.clone()).await?;
    // Half of the buckets migrate, so that there is enough to move for the whole time.
    let seconds = usize::try_from(FOR.as_secs())?;
    let logs = stores::closed_logs(3 * seconds * usize::try_from(rate)?, 20);
    let as_store: Store = Arc::new(store.clone());
    stores::append_all(&as_store, logs, AT_ONCE).await?;
    store
        .publish(plan.rebalanced(2, RebalanceOptions::default())?)
        .await?;

    let without = p99(&store).await?;
    let drain = {
        let store = store.clone();
        let options = DrainOptions::new()
            .with_rate(NonZeroU32::new(rate))
            .with_settle(false);
        tokio::spawn(async move { store.drain(&options, |_| {}).await.map(drop) })
    };
    let with = p99(&store).await?;
    if drain.is_finished() {
        return Err("the drain was over too early".into());
    }
    drain.abort();
    Ok((with, without))
}

/// Of the time that an append takes, of writers who append one event after the other.
async fn p99(store: &ShardedStore) -> Result<Duration, Failure> {
    let over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| tokio::spawn(write(store.clone(), Arc::clone(&over))))
        .collect();
    tokio::time::sleep(FOR).await;
    over.store(true, Ordering::Relaxed);
    let mut times = Vec::new();
    for written in try_join_all(writers).await? {
        times.extend(written?);
    }
    times.sort_unstable();
    let place = times.len() * 99 / 100;
    Ok(*times.get(place).ok_or("nothing was appended")?)
}

async fn write(store: ShardedStore, over: Arc<AtomicBool>) -> Result<Vec<Duration>, Failure> {
    let id = ExecutionId::generate();
    let mut times = Vec::new();
    let mut next = 0;
    while !over.load(Ordering::Relaxed) {
        let event = NewEvent::new("step.completed", vec![7; 256]);
        let begun = Instant::now();
        let appended = store
            .append(Append::new(id.clone(), next, vec![event]))
            .await?;
        times.push(begun.elapsed());
        next = appended.next_sequence;
    }
    Ok(times)
}
