//! `loom publish`.

use loom_shard_plan::{PlanDiff, ShardPlan};

use super::change::{document, publish, refusal, report, warn_unreached};
use super::joining::refuse_used;
use crate::args::Publish;
use crate::deployment::Deployment;
use crate::failure::Failure;
use crate::output::Output;
use crate::plan::read;

pub(super) async fn run(
    args: &Publish,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    let next = read(&args.file)?;
    deployment.store.refresh().await?;
    let plan = deployment.plan()?;
    let diff = plan
        .diff(&next)
        .map_err(|error| refusal(error).context(args.file.display()))?;
    if next == *plan {
        // A call whose answer was lost perhaps, which may not have reached every shard.
        let published = deployment.store.publish(next.clone()).await?;
        warn_unreached(&published);
        return output.print(&document(&next, &diff, false), |_| {
            format!(
                "nothing to do: the plan of epoch {} is the present one\n",
                next.epoch()
            )
        });
    }
    check(args, &plan, &next, &diff)?;
    refuse_used(deployment, diff.joins()).await?;
    let published = publish(deployment, &next, &diff, &args.consent, output).await?;
    report(output, &next, &diff, &args.consent, published)
}

/// Refuses what may not follow before anybody is asked about it.
fn check(
    args: &Publish,
    plan: &ShardPlan,
    next: &ShardPlan,
    diff: &PlanDiff,
) -> Result<(), Failure> {
    let (file, now) = (args.file.display(), plan.epoch());
    if next.epoch() <= now {
        return Err(Failure::refused(format!(
            "`{file}` is a plan of epoch {}, and the shards are under epoch {now}: an old plan would look for executions where they no longer are",
            next.epoch()
        ))
        .with_help(
            "the shards keep the plan, so that none has to be restored: `loom plan show` prints it; derive the next one from \
             that; `loom revert` turns a migration round; a shard that was restored from a backup is brought back by `loom repair ID`",
        ));
    }
    if !diff.is_legal() {
        let reasons: Vec<String> = diff.refusals().iter().map(ToString::to_string).collect();
        return Err(Failure::refused(format!(
            "`{file}` must not follow the plan of epoch {now}: {}",
            reasons.join("; ")
        ))
        .with_help(
            "derive it from the present plan: `loom plan show > now.plan`, then `loom plan rebalance`, `settle`, `revert` or `split`",
        ));
    }
    Ok(())
}
