//! What the commands that publish a plan share: showing the difference, asking, publishing.

use std::fmt;
use std::io::{self, BufRead as _, IsTerminal as _};

use loom_shard_plan::{PlanDiff, PlanError, ShardPlan};
use loom_sharded_store::Published;
use serde_json::{Value, json};

use crate::args::Consent;
use crate::deployment::Deployment;
use crate::failure::Failure;
use crate::output::{Output, Tone, count, write_stderr};
use crate::plan;

/// Shows a difference and asks on a terminal; without one somebody has to have said yes before. Says no for a
/// dry run, after which the command has nothing more to do than to report.
pub(super) fn consented(
    consent: &Consent,
    output: Output,
    about: &dyn fmt::Display,
    question: &str,
) -> Result<bool, Failure> {
    if consent.dry_run {
        return Ok(false);
    }
    if consent.yes {
        return Ok(true);
    }
    if !can_ask(output) {
        return Err(Failure::refused(
            "this changes where executions live, and there is no terminal to ask on: nothing was changed",
        )
        .with_help("look at it with --dry-run, then run it with --yes"));
    }
    match answer(&format!("{about}\n{question} [y/N] "))?.as_str() {
        "y" | "Y" | "yes" => Ok(true),
        _ => Err(Failure::refused(
            "the answer was not yes: nothing was changed",
        )),
    }
}

/// Whether somebody sits there who could answer.
pub(super) fn can_ask(output: Output) -> bool {
    !output.json() && io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks, and returns the answer without white space around it.
pub(super) fn answer(question: &str) -> Result<String, Failure> {
    write_stderr(question);
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::failed("cannot read the answer").with_cause(error))?;
    Ok(answer.trim().to_owned())
}

/// Asks for consent to a plan and publishes it. Says whether it was published: not in a dry run.
pub(super) async fn publish(
    deployment: &Deployment,
    next: &ShardPlan,
    diff: &PlanDiff,
    consent: &Consent,
    output: Output,
) -> Result<bool, Failure> {
    if !consented(consent, output, diff, "Publish this plan?")? {
        return Ok(false);
    }
    let published = deployment.store.publish(next.clone()).await?;
    warn_unreached(&published);
    Ok(true)
}

/// Tells of shards that do not have the plan yet.
pub(super) fn warn_unreached(published: &Published) {
    for (shard, error) in &published.unreached {
        write_stderr(&format!(
            "warning: shard {shard} was not told yet ({error}); nothing more can be published before it is\n"
        ));
    }
}

/// What is said of a step from plan to plan, as a document and as text.
pub(super) fn report(
    output: Output,
    next: &ShardPlan,
    diff: &PlanDiff,
    consent: &Consent,
    published: bool,
) -> Result<(), Failure> {
    output.print(&document(next, diff, published), |output| {
        if !published {
            return format!("{diff}\nnothing was changed: this was a dry run\n");
        }
        // Without --yes the difference was shown with the question.
        let shown = if consent.yes {
            format!("{diff}\n")
        } else {
            String::new()
        };
        format!(
            "{shown}{} epoch {}: {} of {} buckets are migrating\n",
            output.paint(Tone::Good, "published"),
            next.epoch(),
            count(next.migrating().count() as u64),
            count(u64::from(next.bucket_count()))
        )
    })
}

/// The keys that every command has that publishes a plan.
pub(super) fn document(plan: &ShardPlan, diff: &PlanDiff, published: bool) -> Value {
    json!({
        "epoch": plan.epoch(),
        "buckets": plan.bucket_count(),
        "moved": diff.moved().len(),
        "moved_fraction": diff.moved_fraction(),
        "settled": diff.settled().len(),
        "reverted": diff.reverted().len(),
        "migrating": plan.migrating().count(),
        "joins": diff.joins().collect::<Vec<_>>(),
        "leaves": diff.leaves().collect::<Vec<_>>(),
        "published": published,
    })
}

/// What a plan refuses, with the way out on a deployment.
pub(super) fn refusal(error: PlanError) -> Failure {
    match error {
        PlanError::StillMigrating { .. } => Failure::refused(error.to_string()).with_help(
            "`loom drain --live` moves what is left and settles what is empty, `loom revert` calls it off; \
             `loom status` shows what is left",
        ),
        PlanError::ShrinkNotAllowed { .. } => {
            Failure::refused(error.to_string()).with_help("say --allow-shrink if that is meant")
        }
        PlanError::NotMigrating { .. } | PlanError::NoSuchBucket { .. } => {
            Failure::usage(error.to_string())
                .with_help("`loom plan show` has the buckets, `FROM -> TO` where they are migrating")
        }
        PlanError::NoSuchShard { .. } => {
            Failure::usage(error.to_string()).with_help("`loom shard ls` lists the members")
        }
        error => plan::refusal(error),
    }
}
