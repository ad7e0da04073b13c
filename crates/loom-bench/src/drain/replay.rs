//! A log as time goes by: four shards, a fifth at half time, and what is left on the sources from then on.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use futures_util::TryStreamExt as _;
use loom_shard_plan::{RebalanceOptions, ShardPlan};
use loom_sharded_store::{DrainOptions, ShardedStore};
use loom_spi::{Append, Event, EventStore, EventStoreExt as _, ExecutionId, List};

use super::SUITE;
use crate::logs::{Log, Logged};
use crate::report::{Row, Target};
use crate::stores::{self, Store, memory};
use crate::timing::Ratio;
use crate::{Failure, Outcome};

/// How often the sources are looked at after half time.
const LOOKS: i64 = 20;
const DAY: i64 = 86_400_000;

pub(super) async fn rows(log: &Log) -> Result<Outcome, Failure> {
    let lazily = replay(log, false).await?;
    let moving = replay(log, true).await?;
    let count = log.events.len();
    let compared = |what: &str, ratio: f64| {
        let target = Some(Target::Exactly(1.0));
        let what = format!("replay of {}: {what}", log.name);
        let note = format!("{count} events");
        Row::new(SUITE, what, "the log", Ratio::exact(ratio), target, note)
    };
    let input = logs(log);
    let share = |equal: bool| if equal { 1.0 } else { 0.0 };
    let rows = vec![
        compared("export, lazily", share(lazily.export == input)),
        compared(
            "export, closed executions moved",
            share(moving.export == input),
        ),
        Row::new(
            SUITE,
            format!("replay of {}: what each shard holds in the end", log.name),
            "lazily",
            Ratio::exact(share(lazily.shards == moving.shards)),
            Some(Target::Exactly(1.0)),
            format!("{} executions on 5 shards, all settled", input.len()),
        ),
    ];
    let text = table(log, &lazily, &moving);
    Ok(Outcome { rows, text })
}

/// Left on the sources, at one moment.
#[derive(Clone, Copy)]
struct Left {
    day: i64,
    all: usize,
    open: usize,
    migrating: usize,
}

struct Replayed {
    left: Vec<Left>,
    export: BTreeMap<ExecutionId, Vec<Event>>,
    /// By shard, its executions and how long they are.
    shards: Vec<BTreeMap<ExecutionId, u64>>,
}

async fn replay(log: &Log, moving: bool) -> Result<Replayed, Failure> {
    let shards: Vec<Store> = (0..5).map(|_| memory()).collect();
    let store = stores::sharded(shards.clone(), ShardPlan::new(4)?).await?;
    let first = log.events.first().map_or(0, Logged::at);
    let last = log.events.last().map_or(0, Logged::at);
    let half = first + (last - first) / 2;
    let step = ((last - half) / LOOKS).max(1);
    let mut next_look = half;
    let mut lengths: BTreeMap<&ExecutionId, u64> = BTreeMap::new();
    let mut left = Vec::new();
    for logged in &log.events {
        while logged.at() >= next_look {
            if next_look == half {
                let plan = store.plan().ok_or("no plan")?;
                store
                    .publish(plan.rebalanced(5, RebalanceOptions::default())?)
                    .await?;
            }
            if moving && next_look > half {
                store.drain(&DrainOptions::new(), |_| {}).await?;
            }
            left.push(look(&store, (next_look - first) / DAY).await?);
            next_look += step;
        }
        let length = lengths.entry(&logged.execution).or_default();
        let events = vec![logged.event.clone()];
        store
            .append(Append::new(logged.execution.clone(), *length, events))
            .await?;
        *length += 1;
    }
    store
        .drain(&DrainOptions::new().with_live(true), |_| {})
        .await?;
    left.push(look(&store, (last - first) / DAY).await?);
    let mut held = Vec::new();
    for shard in &shards {
        let epoch = store.epoch();
        let list = List::new(1_000).with_epoch(epoch);
        let executions: Vec<_> = shard.list_all(list).try_collect().await?;
        let executions = executions.into_iter();
        held.push(
            executions
                .map(|execution| (execution.id, execution.head.next_sequence))
                .collect(),
        );
    }
    Ok(Replayed {
        left,
        export: export(&store).await?,
        shards: held,
    })
}

async fn look(store: &ShardedStore, day: i64) -> Result<Left, Failure> {
    let report = store.drain_report().await?;
    let mut left = Left {
        day,
        all: 0,
        open: 0,
        migrating: report.buckets.len(),
    };
    for bucket in report.undrained() {
        let mut cursor = None;
        loop {
            let (ids, next) = store.left_to_drain(bucket.bucket, cursor, 1_000).await?;
            for id in ids {
                left.all += 1;
                let head = store.head(loom_spi::Head::new(id)).await?;
                left.open += usize::from(head.is_some_and(|head| !head.is_closed()));
            }
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
    }
    Ok(left)
}

async fn export(store: &ShardedStore) -> Result<BTreeMap<ExecutionId, Vec<Event>>, Failure> {
    let executions: Vec<_> = store.list_all(List::new(1_000)).try_collect().await?;
    let mut export = BTreeMap::new();
    for execution in executions {
        let events = store.read_all(&execution.id, 0).try_collect().await?;
        export.insert(execution.id, events);
    }
    Ok(export)
}

/// The log by execution.
fn logs(log: &Log) -> BTreeMap<ExecutionId, Vec<Event>> {
    let mut logs: BTreeMap<ExecutionId, Vec<Event>> = BTreeMap::new();
    for logged in &log.events {
        let events = logs.entry(logged.execution.clone()).or_default();
        let sequence = events.len() as u64;
        events.push(Event::from_new(sequence, logged.event.clone()));
    }
    logs
}

fn table(log: &Log, lazily: &Replayed, moving: &Replayed) -> String {
    let mut text = format!(
        "Left on the sources, {} growing from 4 to 5 shards at half time. Lazily, executions stay where they are until \
         a last drain moves them all.\n\n\
         | day | lazily: executions | of which open | closed ones moved: executions | of which open | migrating buckets |\n\
         | --- | --- | --- | --- | --- | --- |\n",
        log.name
    );
    for (lazily, moving) in lazily.left.iter().zip(&moving.left) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            lazily.day, lazily.all, lazily.open, moving.all, moving.open, moving.migrating
        );
    }
    text.push('\n');
    text
}
