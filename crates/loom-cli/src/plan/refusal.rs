//! What a plan refuses, as the end of a command.

use loom_shard_plan::PlanError;

use crate::failure::{Exit, Failure};

/// The exit code and the way out, in commands. The error itself says what is wrong.
pub(crate) fn refusal(error: PlanError) -> Failure {
    let (exit, help) = match &error {
        PlanError::StillMigrating { .. } => (
            Exit::Refused,
            Some(
                "`loom plan settle` for buckets that are drained (`loom status` counts what is \
                 left), `loom plan revert` for those that shall go back",
            ),
        ),
        PlanError::ShrinkNotAllowed { .. } => (
            Exit::Refused,
            Some("add --allow-shrink, or name the shards that leave with --remove"),
        ),
        PlanError::Incomparable { .. } => (
            Exit::Refused,
            Some("compare plans of one deployment; `loom plan split` gives a plan more buckets"),
        ),
        PlanError::MoreShardsThanBuckets { .. } => (
            Exit::Usage,
            Some("`loom plan split FILE --factor F` gives it more buckets"),
        ),
        PlanError::NoSuchBucket { .. } | PlanError::NotMigrating { .. } => (
            Exit::Usage,
            Some("`loom plan show FILE` has the buckets, `FROM -> TO` where they are migrating"),
        ),
        PlanError::UnequalWeights => (
            Exit::Usage,
            Some("name the shards that join, with their weights: --add ID:WEIGHT"),
        ),
        PlanError::NoSuchShard { .. } => {
            (Exit::Usage, Some("`loom plan show FILE` lists the members"))
        }
        PlanError::ShardExists { .. } => (
            Exit::Usage,
            Some("--weight ID:W changes the weight of a member"),
        ),
        _ => (Exit::Usage, None),
    };
    let failure = Failure::new(exit, error.to_string());
    match help {
        Some(help) => failure.with_help(help),
        None => failure,
    }
}
