//! `loom settle` and `loom revert`.

use loom_sharded_store::{DrainReport, Settled};
use serde::Serialize;

use super::change::{document, publish, refusal, report, warn_unreached};
use crate::args::{Revert, Settle};
use crate::deployment::Deployment;
use crate::failure::Failure;
use crate::output::{Output, Tone, counted};
use crate::plan::within;

#[derive(Serialize)]
struct Report {
    epoch: u64,
    /// Buckets.
    settled: usize,
    /// Buckets.
    migrating: usize,
    /// Executions that are still on the source of a migrating bucket.
    remaining: u64,
    /// Whether there are more: of one bucket no more than a few hundred are counted.
    remaining_at_least: bool,
}

pub(super) async fn settle(
    args: &Settle,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    if args.buckets.is_empty() {
        return settle_drained(deployment, output).await;
    }
    deployment.store.refresh().await?;
    let plan = deployment.plan()?;
    let buckets = within(&plan, &args.buckets).map_err(refusal)?;
    let migrating = plan.migrating_buckets();
    let settling = buckets.iter().filter(|bucket| migrating.contains(**bucket));
    let settled = settling.count();
    let published = deployment.store.settle(buckets).await?;
    warn_unreached(&published);
    let left = deployment.store.drain_report().await?;
    let report = Report {
        epoch: published.epoch.epoch,
        settled,
        migrating: deployment.plan()?.migrating().count(),
        remaining: total(&left),
        remaining_at_least: left.buckets.iter().any(|bucket| bucket.more),
    };
    output.print(&report, |output| report.text(output, None))
}

async fn settle_drained(deployment: &Deployment, output: Output) -> Result<(), Failure> {
    let settled = deployment.store.settle_drained().await?;
    settled.published.iter().for_each(warn_unreached);
    let report = Report {
        epoch: settled.epoch.map_or(0, |epoch| epoch.epoch),
        settled: settled.buckets.len(),
        migrating: settled.left.buckets.len(),
        remaining: remaining(&settled),
        remaining_at_least: settled.left.buckets.iter().any(|bucket| bucket.more),
    };
    output.print(&report, |output| report.text(output, Some(&settled)))
}

/// How many executions are left on the sources after buckets were settled.
pub(super) fn remaining(settled: &Settled) -> u64 {
    total(&settled.left)
}

fn total(left: &DrainReport) -> u64 {
    left.buckets.iter().map(|bucket| bucket.left as u64).sum()
}

/// A count of executions that may be a bound.
pub(super) fn at_least(executions: u64, more: bool) -> String {
    let counted = counted(executions, "execution");
    if more {
        format!("at least {counted}")
    } else {
        counted
    }
}

impl Report {
    fn text(&self, output: Output, settled: Option<&Settled>) -> String {
        let mut text = format!(
            "{}: {} settled; plan epoch {}\n",
            output.paint(Tone::Good, "done"),
            counted(self.settled as u64, "bucket"),
            self.epoch
        );
        if self.migrating > 0 {
            text.push_str(&format!(
                "{} on {} still migrating: `loom drain` moves what is closed, `loom drain --live` everything\n",
                at_least(self.remaining, self.remaining_at_least),
                counted(self.migrating as u64, "bucket"),
            ));
        }
        if let Some(first) = settled.and_then(|settled| settled.left.buckets.first()) {
            text.push_str(&format!("{first}\n"));
        }
        text
    }
}

/// The plan that is shown is the one that is published, so that an answer that was lost turns nothing round
/// twice.
pub(super) async fn revert(
    args: &Revert,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    deployment.store.refresh().await?;
    let plan = deployment.plan()?;
    let buckets = if args.all {
        plan.migrating_buckets().iter().collect()
    } else {
        within(&plan, &args.buckets).map_err(refusal)?
    };
    if buckets.is_empty() {
        let diff = plan.diff(&plan).map_err(refusal)?;
        return output.print(&document(&plan, &diff, false), |_| {
            format!(
                "nothing to do: no bucket is migrating in the plan of epoch {}\n",
                plan.epoch()
            )
        });
    }
    let next = plan.reverted_all(buckets).map_err(refusal)?;
    let diff = plan.diff(&next).map_err(refusal)?;
    let published = publish(deployment, &next, &diff, &args.consent, output).await?;
    report(output, &next, &diff, &args.consent, published)
}
