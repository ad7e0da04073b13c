//! `loom worker …`: what other commands start.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum WorkerCommand {
    /// Run the one execution that LOOM_EXECUTION names, under the fence LOOM_FENCE, and end
    Run(WorkerRun),
}

#[derive(Debug, Args)]
pub(crate) struct WorkerRun {
    /// Where commands run: the folder of the graph file
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: PathBuf,
}
