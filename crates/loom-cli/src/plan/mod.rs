//! `loom plan …`: plans as files, and the deployment's plan as one.
//!
//! Nothing here changes a deployment: plans are read, derived, compared and written.

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

use loom_shard_plan::ShardPlan;

pub(crate) use self::args::PlanCommand;
pub(crate) use self::input::read;
pub(crate) use self::refusal::refusal;
use crate::failure::Failure;
use crate::output::Output;

/// Runs one of the commands. `present` reads the plan of the deployment, and is called only where
/// no file is given.
pub(crate) async fn run(
    command: PlanCommand,
    output: Output,
    present: impl AsyncFnOnce() -> Result<ShardPlan, Failure>,
) -> Result<(), Failure> {
    match command {
        PlanCommand::New(new) => derive::new(&new, output),
        PlanCommand::Rebalance(rebalance) => derive::rebalance(&rebalance, output),
        PlanCommand::Settle(step) => derive::settle(&step, output),
        PlanCommand::Revert(step) => derive::revert(&step, output),
        PlanCommand::Split(split) => derive::split(&split, output),
        PlanCommand::Diff(diff) => diff::run(&diff, output),
        PlanCommand::Show(show) => {
            let plan = match &show.file {
                Some(file) => read(file)?,
                None => present().await?,
            };
            show::run(&show, &plan, output)
        }
        PlanCommand::Route(route) => route::run(&route, output),
        PlanCommand::Check(check) => check::run(&check, output),
    }
}
