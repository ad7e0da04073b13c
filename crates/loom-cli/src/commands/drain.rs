//! `loom drain` and `loom settle`.

use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt as _, TryStreamExt as _};
use loom_sharded_store::{MigrateError, Migrated, Settled};
use loom_spi::{EventStore as _, ExecutionId, Head, ListCursor, StoreErrorKind};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::args::Drain;
use crate::deployment::Deployment;
use crate::failure::Failure;
use crate::output::{Output, Tone, count, counted, write_stderr};
use crate::progress::Progress;

/// Executions that are looked at together.
const PAGE: usize = 256;
/// Moves under way at a time.
const AT_ONCE: usize = 64;
/// How often it is looked whether open executions have closed.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

#[derive(Default, Serialize)]
struct Report {
    epoch: u64,
    /// Executions.
    moved: u64,
    /// Executions that are still on the source of a migrating bucket.
    remaining: u64,
    /// Of those the ones that are closed and could not be moved, and why.
    stuck: Vec<Stuck>,
    /// Buckets.
    settled: usize,
    /// Buckets.
    migrating: usize,
}

#[derive(Serialize)]
struct Stuck {
    execution: String,
    reason: String,
}

/// What became of one execution.
enum Step {
    Moved,
    /// It is not on the source any more.
    Gone,
    Open,
    Stuck(Stuck),
}

pub(super) async fn run(
    args: &Drain,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    let buckets = deployment.plan()?.migrating().count() as u64;
    let progress = Progress::new(args.progress, "drain", Some(buckets));
    let pace = args.rate.map(pace);
    let mut report = Report::default();
    loop {
        pass(deployment, pace.as_ref(), &progress, &mut report).await?;
        let settled = deployment.store.settle_drained().await?;
        warn_unreached(&settled);
        report.settled += settled.buckets.len();
        report.migrating = settled.left.buckets.len();
        report.epoch = settled.epoch.map_or(0, |epoch| epoch.epoch);
        if report.migrating == 0 || !args.until_settled {
            break;
        }
        progress.at(
            (report.settled as u64).min(buckets),
            format_args!(
                "{} moved, waiting for {} on {} to close",
                count(report.moved),
                counted(report.remaining, "execution"),
                counted(report.migrating as u64, "bucket")
            ),
        );
        tokio::time::sleep(AGAIN_AFTER).await;
    }
    progress.finish();
    output.print(&report, |output| report.text(output))
}

/// Looks once at everything that the sources of migrating buckets hold, and moves what may move.
async fn pass(
    deployment: &Deployment,
    pace: Option<&Mutex<Interval>>,
    progress: &Progress,
    report: &mut Report,
) -> Result<(), Failure> {
    report.remaining = 0;
    report.stuck.clear();
    let buckets: Vec<u32> = deployment
        .plan()?
        .migrating()
        .map(|migration| migration.bucket)
        .collect();
    let mut steps = left(deployment, buckets)
        .map_ok(|(place, id)| async move { Ok((place, step(deployment, pace, id).await?)) })
        .try_buffer_unordered(AT_ONCE)
        .boxed();
    let mut looked_at: u64 = 0;
    while let Some((place, step)) = steps.try_next().await? {
        match step {
            Step::Moved => report.moved += 1,
            Step::Gone => {}
            Step::Open => report.remaining += 1,
            Step::Stuck(stuck) => {
                report.remaining += 1;
                report.stuck.push(stuck);
            }
        }
        looked_at += 1;
        if looked_at.is_multiple_of(PAGE as u64) {
            progress.at(
                place,
                format_args!(
                    "{} moved, {:.0}/s, {} cannot move yet",
                    count(report.moved),
                    progress.rate(report.moved),
                    count(report.remaining)
                ),
            );
        }
    }
    Ok(())
}

/// What the sources of these buckets hold, bucket by bucket, each with the place of its bucket.
fn left(
    deployment: &Deployment,
    buckets: Vec<u32>,
) -> impl Stream<Item = Result<(u64, ExecutionId), Failure>> + '_ {
    stream::iter((0..).zip(buckets)).flat_map(move |(place, bucket)| {
        let pages = stream::try_unfold(
            Some(None),
            move |cursor: Option<Option<ListCursor>>| async move {
                let Some(cursor) = cursor else {
                    return Ok(None);
                };
                let (ids, next) = deployment.store.left_to_drain(bucket, cursor, PAGE).await?;
                let ids = stream::iter(ids.into_iter().map(move |id| Ok((place, id))));
                Ok::<_, Failure>(Some((ids, next.map(Some))))
            },
        );
        pages.try_flatten()
    })
}

/// Moves an execution if it is closed. One that is open may be written by another process at any moment, and
/// drains when it closes.
async fn step(
    deployment: &Deployment,
    pace: Option<&Mutex<Interval>>,
    id: ExecutionId,
) -> Result<Step, Failure> {
    match deployment.store.head(Head::new(id.clone())).await? {
        None => return Ok(Step::Gone),
        Some(head) if !head.is_closed() => return Ok(Step::Open),
        Some(_) => {}
    }
    if let Some(pace) = pace {
        pace.lock().await.tick().await;
    }
    match deployment.store.migrate_execution(&id).await {
        Ok(Migrated::Moved { .. }) => Ok(Step::Moved),
        Ok(_) => Ok(Step::Gone),
        Err(MigrateError::Store(error)) => match error.kind() {
            StoreErrorKind::NotFound => Ok(Step::Gone),
            _ => Err(error.into()),
        },
        Err(error) => Ok(Step::Stuck(Stuck {
            execution: id.to_string(),
            reason: error.to_string(),
        })),
    }
}

fn pace(rate: u32) -> Mutex<Interval> {
    let mut interval = interval(Duration::from_secs(1) / rate.max(1));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    Mutex::new(interval)
}

pub(super) async fn settle(deployment: &Deployment, output: Output) -> Result<(), Failure> {
    let settled = deployment.store.settle_drained().await?;
    warn_unreached(&settled);
    let left = &settled.left.buckets;
    let report = Report {
        epoch: settled.epoch.map_or(0, |epoch| epoch.epoch),
        remaining: left.iter().map(|bucket| bucket.left as u64).sum(),
        settled: settled.buckets.len(),
        migrating: left.len(),
        ..Report::default()
    };
    output.print(&report, |output| {
        let mut text = report.text(output);
        if let Some(first) = left.first() {
            text.push_str(&format!("{first}\n"));
        }
        text
    })
}

fn warn_unreached(settled: &Settled) {
    let unreached = settled
        .published
        .iter()
        .flat_map(|published| &published.unreached);
    for (shard, error) in unreached {
        write_stderr(&format!(
            "warning: shard {shard} was not told yet ({error}); nothing more can be published before it is\n"
        ));
    }
}

impl Report {
    fn text(&self, output: Output) -> String {
        let mut text = format!(
            "{}: {} settled, {} moved; plan epoch {}\n",
            output.paint(Tone::Good, "done"),
            counted(self.settled as u64, "bucket"),
            counted(self.moved, "execution"),
            self.epoch
        );
        if self.migrating > 0 {
            text.push_str(&format!(
                "{} on {} still migrating: open executions go on there and drain when they close\n",
                counted(self.remaining, "execution"),
                counted(self.migrating as u64, "bucket"),
            ));
        }
        for Stuck { reason, .. } in &self.stuck {
            text.push_str(&format!(
                "{}: {reason}\n",
                output.paint(Tone::Warn, "stuck")
            ));
        }
        text
    }
}
