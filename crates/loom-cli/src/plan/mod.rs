//! `loom plan …`: plans as files, and the deployment's plan as one.
//!
//! Nothing here changes a deployment: plans are read, derived, compared and written. The commands that do share
//! how buckets and members are named, how a plan is read, and how one is refused.

mod args;
mod buckets;
mod check;
mod derive;
mod diff;
mod emit;
mod input;
mod map;
mod refusal;
mod route;
mod show;
mod summary;
mod svg;

use std::borrow::Cow;

use loom_shard_plan::ShardPlan;

pub(crate) use self::args::{Members, PlanCommand};
pub(crate) use self::buckets::{Buckets, within};
pub(crate) use self::derive::topology;
pub(crate) use self::emit::replace;
pub(crate) use self::input::read;
pub(crate) use self::refusal::refusal;
use crate::failure::Failure;
use crate::output::Output;

/// Whether a command is about the plan of the deployment: whether no file is given.
pub(crate) fn needs_deployment(command: &PlanCommand) -> bool {
    matches!(command, PlanCommand::Show(show) if show.file.is_none())
}

/// Runs one of the commands. `present` is the plan of the deployment, for one that needs it.
pub(crate) fn run(
    command: &PlanCommand,
    present: Option<&ShardPlan>,
    output: Output,
) -> Result<(), Failure> {
    match command {
        PlanCommand::New(new) => derive::new(new, output),
        PlanCommand::Rebalance(rebalance) => derive::rebalance(rebalance, output),
        PlanCommand::Settle(step) => derive::settle(step, output),
        PlanCommand::Revert(step) => derive::revert(step, output),
        PlanCommand::Split(split) => derive::split(split, output),
        PlanCommand::Diff(diff) => diff::run(diff, output),
        PlanCommand::Show(show) => {
            let plan = match (&show.file, present) {
                (Some(file), _) => Cow::Owned(read(file)?),
                (None, Some(present)) => Cow::Borrowed(present),
                (None, None) => return Err(Failure::usage("no plan is given; name a file")),
            };
            show::run(show, &plan, output)
        }
        PlanCommand::Route(route) => route::run(route, output),
        PlanCommand::Check(check) => check::run(check, output),
    }
}
