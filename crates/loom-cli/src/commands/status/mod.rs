//! `loom status`.

mod forecast;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use futures_util::future::{self, try_join_all};
use loom_shard_plan::{Placement, ShardId, ShardPlan};
use loom_spi::{
    EventStore, EventStoreExt as _, ExecutionState, ExecutionSummary, List, PlanEpoch, StoreError,
    Timestamp,
};
use serde::Serialize;

use self::forecast::{Forecast, Left, Lifetimes};
use super::settle::at_least;
use crate::args::Status;
use crate::deployment::{Deployment, under_own_plan};
use crate::failure::Failure;
use crate::output::{Output, Table, Tone, count, counted, write_stdout};

/// Executions that are listed at a time.
const PAGE: usize = 1024;

#[derive(Serialize)]
struct Report {
    deployment: String,
    epoch: u64,
    buckets: u32,
    shards: usize,
    executions: u64,
    open: u64,
    closed: u64,
    events: u64,
    /// Buckets.
    migrating: usize,
    /// Those of them whose source is empty.
    drained: usize,
    /// Executions on the sources of migrating buckets.
    left_to_drain: u64,
    /// Whether there are more: of one bucket no more than a few hundred are counted.
    left_to_drain_at_least: bool,
    /// `null` when every bucket is settled or nothing is left.
    forecast: Option<Forecast>,
    per_shard: Vec<ShardReport>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct ShardReport {
    shard: u16,
    url: Option<String>,
    /// `member`, `leaving`, or `spare`: open, but not in the plan.
    role: &'static str,
    buckets: u32,
    #[serde(flatten)]
    tally: Tally,
}

#[derive(Clone, Copy, Default, Serialize)]
struct Tally {
    executions: u64,
    open: u64,
    events: u64,
}

pub(super) async fn run(
    args: &Status,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    let Some(seconds) = args.watch else {
        let report = look(deployment).await?;
        return output.print(&report, |output| report.text(output));
    };
    loop {
        let report = look(deployment).await?;
        if io::stdout().is_terminal() {
            // Clears the screen and goes to its corner.
            write_stdout(b"\x1b[2J\x1b[H")?;
        }
        write_stdout(report.text(output).as_bytes())?;
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(seconds)) => {}
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
        deployment.store.refresh().await?;
    }
}

async fn look(deployment: &Deployment) -> Result<Report, Failure> {
    let plan = deployment.plan()?;
    let now = Timestamp::now();
    let mut lifetimes = Lifetimes::default();
    let total = tally(&deployment.store, None, |execution| {
        lifetimes.note(&execution.head);
    })
    .await?;
    let shards = deployment.shards().await;
    let on_source = |execution: &ExecutionSummary, shard| matches!(plan.route_id(execution.id.as_str()), Placement::Migrating { from, .. } if from.get() == shard);
    let listed = try_join_all(shards.iter().map(|(&shard, store)| async move {
        let tally = under_own_plan(store, async |epoch| {
            let mut left = Left::default();
            let note = |execution: &ExecutionSummary| {
                if on_source(execution, shard) {
                    left.note(&execution.head, now);
                }
            };
            Ok((tally(&**store, epoch, note).await?, left))
        });
        Ok::<_, Failure>((shard, tally.await?))
    }));
    let mut left = Left::default();
    let mut tallies = BTreeMap::new();
    for (shard, (tally, on_sources)) in listed.await? {
        tallies.insert(shard, tally);
        left.add(&on_sources);
    }
    let drain = deployment.store.drain_report().await?;
    let per_shard = tallies.iter().map(|(&shard, &tally)| ShardReport {
        shard,
        url: deployment
            .config
            .shards
            .get(&shard)
            .map(ToString::to_string),
        role: role(&plan, shard),
        buckets: plan.buckets_of(ShardId(shard)).len(),
        tally,
    });
    Ok(Report {
        deployment: deployment.config.deployment.to_string(),
        epoch: plan.epoch(),
        buckets: plan.bucket_count(),
        shards: plan.shards().len(),
        executions: total.executions,
        open: total.open,
        closed: total.executions - total.open,
        events: total.events,
        migrating: drain.buckets.len(),
        drained: drain.drained().count(),
        left_to_drain_at_least: drain.buckets.iter().any(|bucket| bucket.more),
        forecast: left.forecast(&lifetimes),
        left_to_drain: drain.buckets.iter().map(|bucket| bucket.left as u64).sum(),
        per_shard: per_shard.collect(),
        warnings: plan.warnings().iter().map(ToString::to_string).collect(),
    })
}

/// Counts, and shows each execution to `look`.
async fn tally(
    store: &dyn EventStore,
    epoch: Option<PlanEpoch>,
    mut look: impl FnMut(&ExecutionSummary),
) -> Result<Tally, StoreError> {
    let listed = store.list_all(List::new(PAGE).with_epoch(epoch));
    let counted = listed.try_fold(Tally::default(), |tally, execution| {
        look(&execution);
        future::ready(Ok(Tally {
            executions: tally.executions + 1,
            open: tally.open + u64::from(execution.head.state == ExecutionState::Open),
            events: tally.events + execution.head.next_sequence,
        }))
    });
    counted.await
}

fn role(plan: &ShardPlan, shard: u16) -> &'static str {
    match plan.shard(ShardId(shard)) {
        None => "spare",
        Some(shard) if shard.is_leaving() => "leaving",
        Some(_) => "member",
    }
}

impl Report {
    fn text(&self, output: Output) -> String {
        let mut text = format!(
            "{}, plan epoch {}, {}\n{} ({} open, {} closed), {}\n\n",
            counted(self.shards as u64, "shard"),
            self.epoch,
            counted(u64::from(self.buckets), "bucket"),
            counted(self.executions, "execution"),
            count(self.open),
            count(self.closed),
            counted(self.events, "event"),
        );
        let mut table = Table::new(&[
            ">shard",
            "where",
            ">buckets",
            ">executions",
            ">open",
            ">events",
        ]);
        for shard in &self.per_shard {
            let mut place = shard.url.clone().unwrap_or_default();
            if shard.role != "member" {
                place = format!("{place} ({})", shard.role);
            }
            table.row([
                shard.shard.to_string(),
                place,
                count(u64::from(shard.buckets)),
                count(shard.tally.executions),
                count(shard.tally.open),
                count(shard.tally.events),
            ]);
        }
        text.push_str(&table.render(output));
        // Writing to a String cannot fail.
        let _ = match self.migrating {
            0 => writeln!(text, "\nevery bucket is settled"),
            migrating => writeln!(
                text,
                "\n{}: {} are empty at their source, {} left there in the others\n`loom drain` moves the closed ones, with --live all of them, and settles what is empty",
                output.paint(
                    Tone::Warn,
                    &format!("{} migrating", counted(migrating as u64, "bucket"))
                ),
                count(self.drained as u64),
                at_least(self.left_to_drain, self.left_to_drain_at_least),
            ),
        };
        if let Some(forecast) = &self.forecast {
            let _ = writeln!(text, "{}", forecast.text());
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "{}: {warning}", output.paint(Tone::Warn, "warning"));
        }
        text
    }
}
