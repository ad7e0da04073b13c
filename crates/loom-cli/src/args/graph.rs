//! `loom graph …`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use loom_spi::ExecutionId;

#[derive(Debug, Subcommand)]
pub(crate) enum GraphCommand {
    /// Run a graph: one execution per node. Run again with the same id, it goes on where it stopped
    Run(GraphRun),
    /// Show the branches of a past run, and what became of them
    Show(GraphShow),
    /// End a run that no process works on any more, and everything that descends from it, so that it is never resumed
    Cancel(GraphCancel),
}

#[derive(Debug, Args)]
pub(crate) struct GraphCancel {
    /// The id of the run
    #[arg(value_name = "ID")]
    pub(crate) id: ExecutionId,
    /// Why, for its logs
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "cancelled by `loom graph cancel`"
    )]
    pub(crate) reason: String,
}

#[derive(Debug, Args)]
pub(crate) struct GraphShow {
    /// The id of the run
    #[arg(value_name = "ID")]
    pub(crate) id: ExecutionId,
    /// Draw it for Graphviz instead, into OUT or to stdout
    #[arg(long, value_name = "OUT", num_args = 0..=1, default_missing_value = "-", conflicts_with = "svg")]
    pub(crate) dot: Option<PathBuf>,
    /// Draw it as a picture instead, into OUT or to stdout
    #[arg(long, value_name = "OUT", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct GraphRun {
    /// The graph as TOML. Its commands run in its folder
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The id of the run [default: that of the file, or a new one]
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<ExecutionId>,
    /// At most so many nodes at a time [default: that of the file, or of loom.toml, or 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// Where the nodes run
    #[arg(long, value_enum, default_value_t)]
    pub(crate) runtime: Runtime,
    /// Do not wait for another process that runs it: that one is stopped where it stands
    #[arg(long)]
    pub(crate) take_over: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Runtime {
    /// In this process
    #[default]
    Local,
    /// Each in a process of its own
    Process,
}
