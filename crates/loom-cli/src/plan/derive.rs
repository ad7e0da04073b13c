//! The commands that write a plan.

use std::collections::BTreeSet;

use loom_shard_plan::{PlanDiff, PlanError, RebalanceOptions, ShardId, ShardPlan, Topology};

use super::args::{Members, New, Rebalance, Split, Step};
use super::buckets::within;
use super::emit::emit;
use super::input::read;
use super::refusal::refusal;
use super::summary::{Summary, percent};
use crate::failure::Failure;
use crate::output::{Output, count, counted};

pub(crate) fn new(args: &New, output: Output) -> Result<(), Failure> {
    let plan = match (args.unplanned, args.buckets) {
        (true, _) => ShardPlan::adopting(args.shards),
        (false, Some(buckets)) => ShardPlan::with_buckets(args.shards, buckets),
        (false, None) => ShardPlan::new(args.shards),
    }
    .map_err(|error| match error {
        // A plan that does not exist yet is not split.
        PlanError::MoreShardsThanBuckets { .. } => Failure::usage(error.to_string())
            .with_help("--buckets asks for more than 4096 of them, up to 65536"),
        error => refusal(error),
    })?;
    emit(&plan, &args.target, &Summary::of(&plan).headline(), output)
}

pub(crate) fn rebalance(args: &Rebalance, output: Output) -> Result<(), Failure> {
    let plan = read(&args.file)?;
    let next = match args.shards {
        Some(shards) => {
            let options = RebalanceOptions::default().allow_shrink(args.allow_shrink);
            plan.rebalanced(shards, options)
        }
        None => plan.rebalance(&topology(&plan, &args.members, refusal)?),
    }
    .map_err(refusal)?;
    let diff = plan.diff(&next).map_err(refusal)?;
    emit(&next, &args.target, &about(&diff), output)
}

/// The members of `plan`, changed as the options say. `refusal` says what to do about what is refused.
pub(crate) fn topology(
    plan: &ShardPlan,
    args: &Members,
    refusal: fn(PlanError) -> Failure,
) -> Result<Topology, Failure> {
    named_once(args)?;
    let mut topology = Topology::of(plan);
    for shard in &args.remove {
        topology = topology.leaving(*shard).map_err(refusal)?;
    }
    for joining in &args.add {
        topology = topology
            .joining(joining.shard, joining.weight)
            .map_err(refusal)?;
    }
    for weighing in &args.weight {
        topology = topology
            .weighing(weighing.shard, weighing.weight)
            .map_err(refusal)?;
    }
    for pin in &args.pin {
        topology = topology.pinning(pin.bucket, pin.shard);
    }
    Ok(topology)
}

/// Options have no order that one could see, so no two may speak of the same shard or bucket.
fn named_once(args: &Members) -> Result<(), Failure> {
    let joining = args.add.iter().map(|joining| joining.shard);
    let weighing = args.weight.iter().map(|weighing| weighing.shard);
    let shards = joining.chain(args.remove.iter().copied()).chain(weighing);
    if let Some(ShardId(shard)) = repeated(shards) {
        return Err(Failure::usage(format!(
            "shard {shard} is named twice by --add, --remove and --weight"
        ))
        .with_help(
            "say once what becomes of it; a weight for a shard that joins is --add ID:WEIGHT",
        ));
    }
    if let Some(bucket) = repeated(args.pin.iter().map(|pin| pin.bucket)) {
        return Err(Failure::usage(format!("bucket {bucket} is pinned twice"))
            .with_help("name the one shard that it shall be on"));
    }
    Ok(())
}

fn repeated<T: Ord + Copy>(items: impl Iterator<Item = T>) -> Option<T> {
    let mut seen = BTreeSet::new();
    items.into_iter().find(|item| !seen.insert(*item))
}

pub(crate) fn settle(args: &Step, output: Output) -> Result<(), Failure> {
    step(args, output, ShardPlan::settled_all)
}

pub(crate) fn revert(args: &Step, output: Output) -> Result<(), Failure> {
    step(args, output, ShardPlan::reverted_all)
}

fn step(
    args: &Step,
    output: Output,
    derive: impl FnOnce(&ShardPlan, Vec<u32>) -> Result<ShardPlan, PlanError>,
) -> Result<(), Failure> {
    let plan = read(&args.file)?;
    let buckets = if args.all {
        plan.migrating_buckets().iter().collect()
    } else {
        within(&plan, &args.buckets).map_err(refusal)?
    };
    if buckets.is_empty() {
        return Err(Failure::usage(format!(
            "no bucket of the plan is migrating: there is nothing to settle or to revert in epoch {}",
            plan.epoch()
        ))
        .with_help("`loom plan rebalance` starts a migration; only another one moves settled buckets"));
    }
    let next = derive(&plan, buckets).map_err(refusal)?;
    let diff = plan.diff(&next).map_err(refusal)?;
    emit(&next, &args.target, &about(&diff), output)
}

pub(crate) fn split(args: &Split, output: Output) -> Result<(), Failure> {
    let plan = read(&args.file)?;
    let next = plan.split(args.factor).map_err(refusal)?;
    let about = format!(
        "epoch {} -> {}: {} become {}, no id goes elsewhere",
        plan.epoch(),
        next.epoch(),
        counted(plan.bucket_count().into(), "bucket"),
        count(next.bucket_count().into())
    );
    emit(&next, &args.target, &about, output)
}

/// One line about a step.
fn about(diff: &PlanDiff) -> String {
    let (now, next) = diff.epochs();
    let mut parts = Vec::new();
    if !diff.moved().is_empty() {
        let moved = diff.moved().len();
        let share = percent(moved, diff.buckets());
        parts.push(format!(
            "{} of {} move ({share})",
            count(moved.into()),
            counted(diff.buckets().into(), "bucket")
        ));
    }
    for (buckets, verb) in [(diff.settled(), "settled"), (diff.reverted(), "reverted")] {
        if !buckets.is_empty() {
            parts.push(format!(
                "{} {verb}",
                counted(buckets.len().into(), "bucket")
            ));
        }
    }
    if parts.is_empty() {
        parts.push(if diff.is_no_change() {
            "nothing changes but the epoch".to_owned()
        } else {
            "no bucket moves".to_owned()
        });
    }
    format!("epoch {now} -> {next}: {}", parts.join(", "))
}
