//! The commands.

mod audit;
mod drain;
mod export;
mod graph;
mod import;
mod init;
mod log;
mod ls;
mod man;
mod rebalance;
mod rm;
mod status;

use crate::args::{Cli, Command};
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
        Command::Graph(command) => graph::check(command)?,
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
        Command::Settle => drain::settle(deployment, output).await,
        Command::Ls(ls) => ls::run(ls, deployment, output).await,
        Command::Log(log) => log::run(log, deployment, output).await,
        Command::Rm(rm) => rm::run(rm, deployment, output).await,
        Command::Plan(command) => plan::run(command, Some(&*deployment.plan()?), output),
        Command::Graph(command) => graph::run(command, &cli.global, deployment, output).await,
        Command::Audit => audit::run(deployment, output).await,
        // They need no deployment, and were done above.
        Command::Init(_) | Command::Completions(_) | Command::Man(_) => Ok(()),
    }
}
