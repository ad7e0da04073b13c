//! `loom repair`.

use std::fmt::Write as _;

use loom_sharded_store::{PlanChangeError, RepairError, Repaired, Treatment};
use loom_spi::{ExecutionId, StoreErrorKind};
use serde::Serialize;

use super::change::consented;
use super::ls::no_shard;
use crate::args::Repair;
use crate::deployment::Deployment;
use crate::failure::Failure;
use crate::output::{Output, Tone, count, counted, printable, write_stderr};
use crate::progress::Progress;

/// How many executions the text names; the document names more.
const NAMED: usize = 10;

#[derive(Serialize)]
struct Report<'a> {
    shard: u16,
    /// Of the plan that the shard was under.
    was: Option<u64>,
    /// Of the plan that it is under now, if it is a member.
    epoch: u64,
    records: u64,
    kept: u64,
    unsealed: u64,
    removed: u64,
    moved: u64,
    differing: u64,
    treated: Vec<Treated<'a>>,
    /// Executions that the lineage of other shards names, and that are not there.
    gone: u64,
    gone_executions: Vec<&'a str>,
    /// Buckets in which what was appended since the backup is gone.
    buckets: &'a loom_shard_plan::BucketSet,
    repaired: bool,
}

#[derive(Serialize)]
struct Treated<'a> {
    execution: &'a str,
    /// `unsealed`, `removed`, `moved` or `differs`.
    treatment: &'static str,
    /// The other shard, if there is one to it.
    shard: Option<u16>,
    reason: Option<&'a str>,
}

pub(super) async fn run(
    args: &Repair,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    let shards = deployment.shards().await;
    if !shards.contains_key(&args.shard) {
        return Err(no_shard(args.shard, shards.keys().copied()));
    }
    let mut agreed = false;
    loop {
        let epoch = deployment.store.epoch();
        match attempt(args, deployment, output, &mut agreed).await {
            Err(Stopped::Repair(error)) => {
                deployment.store.refresh().await?;
                // All that there is to know is in the shards: it goes on under the new plan.
                if !is_overtaken(&error) || deployment.store.epoch() == epoch {
                    return Err(error.into());
                }
            }
            Err(Stopped::Failed(failure)) => return Err(failure),
            Ok(()) => return Ok(()),
        }
    }
}

enum Stopped {
    Repair(RepairError),
    Failed(Failure),
}

impl From<RepairError> for Stopped {
    fn from(error: RepairError) -> Self {
        Self::Repair(error)
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Whether somebody else has published a plan meanwhile.
fn is_overtaken(error: &RepairError) -> bool {
    match error {
        RepairError::Plan(PlanChangeError::Lost { .. }) => true,
        RepairError::Plan(PlanChangeError::Store(error)) | RepairError::Store(error) => matches!(
            error.kind(),
            StoreErrorKind::StalePlan { .. }
                | StoreErrorKind::ShardBehind { .. }
                | StoreErrorKind::PublishConflict { .. }
        ),
        _ => false,
    }
}

async fn attempt(
    args: &Repair,
    deployment: &Deployment,
    output: Output,
    agreed: &mut bool,
) -> Result<(), Stopped> {
    let repair = deployment.store.repair(args.shard).await?;
    let progress = Progress::new(args.progress, "repair", None);
    let at = |what: &'static str| {
        let progress = &progress;
        move |report: &Repaired| {
            progress.at(
                report.records,
                format_args!("{what}, {}", counted(report.records, "record")),
            );
        }
    };
    if !*agreed {
        let found = repair.examine(at("looking")).await?;
        let summary = text(&found, false, output);
        if !consented(&args.consent, output, &summary, "Repair it?")? {
            progress.finish();
            output.print(&document(&found, false), |_| {
                format!("{summary}nothing was changed: this was a dry run\n")
            })?;
            return Ok(());
        }
        if args.consent.yes {
            // Nobody writes to the shard before this has been said.
            write_stderr(&format!(
                "shard {} before the repair\n{summary}",
                args.shard
            ));
        }
        *agreed = true;
    }
    let repaired = repair.run(at("repairing")).await?;
    progress.finish();
    output.print(&document(&repaired, true), |output| {
        text(&repaired, true, output)
    })?;
    match repaired.differing {
        0 => Ok(()),
        differing => Err(Failure::failed(format!(
            "{} on two shards with different logs, which somebody has to decide about",
            match differing {
                1 => "1 execution is".to_owned(),
                many => format!("{} executions are", count(many)),
            }
        ))
        .with_help("`loom audit` finds them and says which one is served, `loom resolve` decides")
        .into()),
    }
}

fn document(report: &Repaired, repaired: bool) -> Report<'_> {
    Report {
        shard: report.shard.get(),
        was: report.was_under.map(|plan| plan.epoch),
        epoch: report.epoch,
        records: report.records,
        kept: report.kept,
        unsealed: report.unsealed,
        removed: report.removed,
        moved: report.moved,
        differing: report.differing,
        treated: report
            .treated
            .iter()
            .map(|record| {
                let (treatment, shard, reason) = words(&record.treatment);
                Treated {
                    execution: record.id.as_str(),
                    treatment,
                    shard,
                    reason,
                }
            })
            .collect(),
        gone: report.gone,
        gone_executions: report.gone_named.iter().map(ExecutionId::as_str).collect(),
        buckets: &report.buckets,
        repaired,
    }
}

fn words(treatment: &Treatment) -> (&'static str, Option<u16>, Option<&str>) {
    match treatment {
        Treatment::Unsealed => ("unsealed", None, None),
        Treatment::Removed { counts } => ("removed", Some(counts.get()), None),
        Treatment::Moved { to } => ("moved", Some(to.get()), None),
        Treatment::Differs { on, reason } => ("differs", Some(on.get()), Some(reason)),
        _ => ("treated", None, None),
    }
}

fn text(report: &Repaired, done: bool, output: Output) -> String {
    // Writing to a String cannot fail.
    let mut text = String::new();
    let was = report.was_under.map_or_else(
        || "no plan".to_owned(),
        |plan| format!("the plan of epoch {}", plan.epoch),
    );
    let _ = if done {
        writeln!(
            text,
            "{} shard {}: it was under {was}, the deployment is under epoch {}",
            output.paint(Tone::Good, "repaired"),
            report.shard,
            report.epoch
        )
    } else {
        writeln!(
            text,
            "it is under {was}, the deployment under epoch {}; a repair does this:",
            report.epoch
        )
    };
    let _ = writeln!(text, "  {}", counted(report.records, "record"));
    for (number, what) in [
        (report.kept, "unchanged"),
        (
            report.unsealed,
            "unsealed: being moved when the backup was made",
        ),
        (
            report.removed,
            "removed: stale, another shard has what counts",
        ),
        (
            report.moved,
            "moved: belonging elsewhere, and not there; what was deleted since the backup is back",
        ),
        (
            report.differing,
            "undecided: different from what another shard has, and touched by nobody",
        ),
    ] {
        if number > 0 {
            let _ = writeln!(text, "  {:>8} {what}", count(number));
        }
    }
    let named = report.treated.iter().filter_map(|record| {
        let id = printable(record.id.as_str());
        match &record.treatment {
            Treatment::Moved { to } => Some(format!("  `{id}` moved: to shard {to}\n")),
            Treatment::Differs { on, reason } => Some(format!(
                "  `{id}` undecided: also on shard {on}, {reason}\n"
            )),
            _ => None,
        }
    });
    text.extend(named.take(NAMED));
    if report.gone > 0 {
        let named = report.gone_named.iter().take(NAMED);
        let named: Vec<String> = named
            .map(|id| format!("`{}`", printable(id.as_str())))
            .collect();
        let more = if named.len() as u64 == report.gone {
            ""
        } else {
            ", …"
        };
        let _ = writeln!(
            text,
            "  {:>8} missing, which others branched off into: {}{more}",
            count(report.gone),
            named.join(", ")
        );
    }
    match report.buckets.len() {
        // It is not in the plan, and empty now.
        0 => {}
        1 => {
            let _ = writeln!(
                text,
                "  what was appended since the backup in {:#} is gone",
                report.buckets
            );
        }
        many => {
            let _ = writeln!(
                text,
                "  what was appended since the backup in its {} buckets is gone",
                count(u64::from(many))
            );
        }
    }
    text
}

impl From<RepairError> for Failure {
    fn from(error: RepairError) -> Self {
        match error {
            RepairError::Plan(error) => error.into(),
            RepairError::Shards(error) => error.into(),
            RepairError::Store(error) => error.into(),
            error => Self::failed(error.to_string()).with_cause(error),
        }
    }
}
