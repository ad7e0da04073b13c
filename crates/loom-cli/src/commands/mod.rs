//! The commands.

mod audit;
mod backup;
mod change;
mod conformance;
mod drain;
mod export;
mod graph;
mod import;
mod init;
mod joining;
mod log;
mod ls;
mod man;
mod moves;
mod publish;
mod rebalance;
mod repair;
mod resolve;
mod restore;
mod retain;
mod rm;
mod settle;
mod shard;
mod status;
mod worker;

use crate::args::{Cli, Command, ShardCommand};
use crate::config::Config;
use crate::deployment::Deployment;
use crate::failure::Failure;
use crate::output::{Output, write_stderr};
use crate::plan;

/// Does what the command line asks for.
pub(crate) async fn run(cli: Cli) -> Result<(), Failure> {
    let output = Output::new(cli.global.json);
    match &cli.command {
        Command::Init(init) => return init::run(init, &cli.global, output).await,
        Command::Completions(completions) => return man::completions(completions, output),
        Command::Man(man) => return man::run(man, output),
        Command::Plan(command) if !plan::needs_deployment(command) => {
            return plan::run(command, None, output);
        }
        Command::Conformance(conformance) => return conformance::run(conformance, output).await,
        Command::Restore(restore) => return restore::run(restore, &cli.global, output).await,
        // They are for deployments that cannot be opened.
        Command::Shard(ShardCommand::Ls) => {
            let config = Config::load(&cli.global.config_path())?;
            return shard::ls(&config, output).await;
        }
        Command::Shard(ShardCommand::Abandon(abandon)) => {
            let config = Config::load(&cli.global.config_path())?;
            return shard::abandon(abandon, &config, output).await;
        }
        Command::Graph(command) => graph::check(command, output.json())?,
        Command::Import(import) => import::check(import)?,
        Command::Export(export) => export::check(export, output)?,
        _ => {}
    }
    let deployment = Deployment::open(&cli.global.config_path()).await?;
    let result = with_deployment(&cli, &deployment, output).await;
    if let Err(failure) = deployment.close().await {
        // What was asked for is answered already, and what was stored is safe in the write-ahead log.
        write_stderr(&format!("warning: {failure}\n"));
    }
    result
}

async fn with_deployment(
    cli: &Cli,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    match &cli.command {
        Command::Import(import) => import::run(import, deployment, output).await,
        Command::Export(export) => export::run(export, deployment, output).await,
        Command::Rebalance(rebalance) => rebalance::run(rebalance, deployment, output).await,
        Command::Status(status) => status::run(status, deployment, output).await,
        Command::Drain(drain) => drain::run(drain, deployment, output).await,
        Command::Settle(settle) => settle::settle(settle, deployment, output).await,
        Command::Revert(revert) => settle::revert(revert, deployment, output).await,
        Command::Publish(publish) => publish::run(publish, deployment, output).await,
        Command::Move(ids) => moves::run(ids, deployment, output).await,
        Command::Shard(ShardCommand::Add(add)) => shard::add(add, deployment, output).await,
        Command::Repair(repair) => repair::run(repair, deployment, output).await,
        Command::Resolve(resolve) => resolve::run(resolve, deployment, output).await,
        Command::Backup(backup) => backup::run(backup, deployment, output).await,
        Command::Ls(ls) => ls::run(ls, deployment, output).await,
        Command::Log(log) => log::run(log, deployment, output).await,
        Command::Rm(rm) => rm::run(rm, deployment, output).await,
        Command::Retain(retain) => retain::run(retain, deployment, output).await,
        Command::Plan(command) => plan::run(command, Some(&*deployment.plan()?), output),
        Command::Graph(command) => graph::run(command, &cli.global, deployment, output).await,
        Command::Worker(command) => worker::run(command, deployment).await,
        Command::Audit => audit::run(deployment, output).await,
        // They need no open deployment, and were done above.
        Command::Init(_)
        | Command::Conformance(_)
        | Command::Restore(_)
        | Command::Completions(_)
        | Command::Man(_)
        | Command::Shard(_) => Ok(()),
    }
}
