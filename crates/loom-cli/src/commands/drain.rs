//! `loom drain`.

use std::time::Duration;

use loom_sharded_store::{DrainOptions, Drained, Settled};
use serde::Serialize;

use super::change::warn_unreached;
use super::settle::remaining;
use crate::args::Drain;
use crate::deployment::Deployment;
use crate::failure::Failure;
use crate::output::{Output, Tone, count, counted};
use crate::progress::Progress;

/// How often it is looked whether open executions have closed.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

#[derive(Default, Serialize)]
struct Report {
    epoch: u64,
    /// Executions.
    moved: u64,
    /// Executions that are still on the source of a migrating bucket.
    remaining: u64,
    /// The first of those that could not be moved, and why.
    stuck: Vec<Stuck>,
    /// Buckets.
    settled: usize,
    /// Buckets.
    migrating: usize,
    /// Whether executions that are open were left to close by themselves.
    #[serde(skip)]
    waits: bool,
}

#[derive(Serialize)]
struct Stuck {
    execution: Option<String>,
    reason: String,
}

pub(super) async fn run(
    args: &Drain,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    let buckets = deployment.plan()?.migrating().count() as u64;
    let progress = Progress::new(args.progress, "drain", Some(buckets));
    let options = DrainOptions::new()
        .with_live(args.live)
        .with_rate(args.rate)
        .with_share(args.share);
    let mut report = Report {
        waits: !args.live,
        ..Report::default()
    };
    loop {
        let settled = report.settled as u64;
        let before = report.moved;
        let drained = deployment.store.drain(&options, |drained| {
            let moved = before + drained.moved;
            progress.at(
                settled + drained.buckets_seen,
                format_args!(
                    "{} moved, {:.0}/s, {} cannot move yet",
                    count(moved),
                    progress.rate(moved),
                    count(drained.live + drained.stuck)
                ),
            );
        });
        let drained = drained.await?;
        report.add(&drained);
        let blocked = drained.stuck > 0 && drained.moved == 0 && drained.live == 0;
        if report.migrating == 0 || !args.until_settled || blocked {
            break;
        }
        progress.at(
            (report.settled as u64).min(buckets),
            format_args!(
                "{} moved, waiting for {} on {}",
                count(report.moved),
                counted(report.remaining, "execution"),
                counted(report.migrating as u64, "bucket")
            ),
        );
        tokio::time::sleep(AGAIN_AFTER).await;
    }
    progress.finish();
    output.print(&report, |output| report.text(output))?;
    if args.until_settled && report.migrating > 0 {
        return Err(Failure::failed(format!(
            "{} cannot be moved, and {} cannot settle before",
            counted(report.remaining, "execution"),
            counted(report.migrating as u64, "bucket")
        ))
        .with_help("the reasons are above; `loom audit` finds what is on two shards"));
    }
    Ok(())
}

impl Report {
    /// Takes one pass over everything into account.
    fn add(&mut self, drained: &Drained) {
        self.moved += drained.moved;
        self.remaining = drained.live + drained.stuck;
        self.stuck = drained
            .reasons
            .iter()
            .map(|(id, reason)| Stuck {
                execution: id.as_ref().map(ToString::to_string),
                reason: reason.clone(),
            })
            .collect();
        let Some(settled) = &drained.settled else {
            return;
        };
        settled.published.iter().for_each(warn_unreached);
        self.settle(settled);
    }

    fn settle(&mut self, settled: &Settled) {
        self.settled += settled.buckets.len();
        self.migrating = settled.left.buckets.len();
        self.epoch = settled.epoch.map_or(0, |epoch| epoch.epoch);
        // What was not looked at, since a shard did not answer, is left as well.
        self.remaining = self.remaining.max(remaining(settled));
        if self.migrating == 0 {
            self.remaining = 0;
        }
    }

    fn text(&self, output: Output) -> String {
        let mut text = format!(
            "{}: {} settled, {} moved; plan epoch {}\n",
            output.paint(Tone::Good, "done"),
            counted(self.settled as u64, "bucket"),
            counted(self.moved, "execution"),
            self.epoch
        );
        if self.migrating > 0 {
            let goes_on = if self.waits {
                ": open executions go on there and drain when they close; --live moves them now"
            } else {
                ""
            };
            text.push_str(&format!(
                "{} on {} still migrating{goes_on}\n",
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
