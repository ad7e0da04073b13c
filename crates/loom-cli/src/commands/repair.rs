//! `loom repair`.

use std::fmt::Write as _;

use loom_sharded_store::{RepairError, Repaired, Treatment};
use loom_spi::ExecutionId;
use serde::Serialize;

use super::change::consented;
use crate::args::Repair;
use crate::deployment::Deployment;
use crate::failure::Failure;
use crate::output::{Output, Tone, count, counted, write_stderr};
use crate::progress::Progress;

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
    let found = repair.examine(at("looking")).await?;
    let summary = text(&found, false, output);
    if !consented(&args.consent, output, &summary, "Repair it?")? {
        progress.finish();
        return output.print(&document(&found, false), |_| {
            format!("{summary}nothing was changed: this was a dry run\n")
        });
    }
    if args.consent.yes {
        // Nobody writes to the shard before this has been said.
        write_stderr(&format!(
            "shard {} before the repair\n{summary}",
            args.shard
        ));
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
        .with_help("`loom audit` finds them; the copy on the destination is served")),
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
            "it is under {was}, the deployment under epoch {}",
            report.epoch
        )
    };
    let (becomes, removed, moved) = if done {
        ("are writable again", "were removed", "were moved")
    } else {
        ("become writable again", "are removed", "are moved")
    };
    let _ = writeln!(text, "  {}", counted(report.records, "record"));
    for (number, what) in [
        (report.kept, "stay as they are".to_owned()),
        (
            report.unsealed,
            format!("were being moved when the backup was made, and {becomes}"),
        ),
        (
            report.removed,
            format!("are stale copies of what another shard has, and {removed}"),
        ),
        (
            report.moved,
            format!(
                "belong elsewhere and are not there, and {moved} there; what was deleted since the backup is back"
            ),
        ),
        (
            report.differing,
            "differ from what another shard has: nobody touches them".to_owned(),
        ),
    ] {
        if number > 0 {
            let _ = writeln!(text, "  {:>8} {what}", count(number));
        }
    }
    for record in &report.treated {
        if let Treatment::Differs { on, reason } = &record.treatment {
            let _ = writeln!(text, "  `{}` also on shard {on}: {reason}", record.id);
        }
    }
    if report.gone > 0 {
        let named: Vec<String> = report
            .gone_named
            .iter()
            .take(5)
            .map(|id| format!("`{id}`"))
            .collect();
        let more = if report.gone > 5 { ", …" } else { "" };
        let _ = writeln!(
            text,
            "  {} that other executions branched off into not there: {}{more}",
            match report.gone {
                1 => "1 execution is".to_owned(),
                many => format!("{} executions are", count(many)),
            },
            named.join(", ")
        );
    }
    let _ = writeln!(
        text,
        "  what was appended since the backup in {} is gone",
        match report.buckets.len() {
            1 => format!("{:#}", report.buckets),
            many => format!("its {} buckets", count(u64::from(many))),
        }
    );
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
