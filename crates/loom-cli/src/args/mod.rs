//! The command line.

mod backup;
mod deployment;
mod graph;
mod worker;

use std::env;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use loom_spi::ExecutionId;

pub(crate) use self::backup::{Backup, Restore, Retain};
pub(crate) use self::deployment::{
    Abandon, AddShard, Consent, Drain, Move, Publish, Rebalance, Repair, Resolve, Revert, Settle,
    ShardCommand,
};
pub(crate) use self::graph::{GraphCancel, GraphCommand, GraphRun, GraphShow, Runtime};
pub(crate) use self::worker::{WorkerCommand, WorkerRun};
use crate::config::FILE_NAME;
use crate::plan::PlanCommand;
use crate::progress::ProgressMode;

/// Durable executions over event stores that grow while everything runs.
///
/// Exit codes: 0 done, 1 failed, 2 wrong usage or bad input, 3 refused because it would not be safe,
/// 4 a store could not be reached.
#[derive(Debug, Parser)]
#[command(name = "loom", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
pub(crate) struct Global {
    /// The deployment file [env: LOOM_CONFIG] [default: loom.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print one JSON document on stdout instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl Global {
    /// Where the deployment file is.
    pub(crate) fn config_path(&self) -> PathBuf {
        self.config
            .clone()
            .or_else(|| {
                let named = env::var_os("LOOM_CONFIG").filter(|value| !value.is_empty());
                named.map(PathBuf::from)
            })
            .unwrap_or_else(|| FILE_NAME.into())
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a deployment: its shards, its first plan, and last its loom.toml
    Init(Init),
    /// Store events from JSON lines; running it again goes on or changes nothing
    Import(Import),
    /// Write all events as JSON lines, execution by execution
    Export(Export),
    /// Change the number of shards, or their weights, while everything runs
    Rebalance(Rebalance),
    /// Show shards, executions, and what is left to move
    Status(Status),
    /// Move executions of migrating buckets, and settle the buckets that are empty
    Drain(Drain),
    /// Settle migrating buckets whose source is empty
    Settle(Settle),
    /// Call migrations off: buckets go back to where they came from
    Revert(Revert),
    /// Make a plan in a file the plan of the deployment
    Publish(Publish),
    /// Move executions of migrating buckets now
    Move(Move),
    /// List, add and give up shards
    #[command(subcommand)]
    Shard(ShardCommand),
    /// Bring a shard that was restored from a backup back into the deployment
    Repair(Repair),
    /// Decide which of two logs of an execution stays; the other one becomes an execution of its own
    Resolve(Resolve),
    Backup(Backup),
    Restore(Restore),
    /// List executions
    Ls(Ls),
    /// Show the log of an execution
    Log(Log),
    /// Remove the log of an execution
    Rm(Rm),
    Retain(Retain),
    /// Show, write, compare and check shard plans
    #[command(subcommand)]
    Plan(PlanCommand),
    /// Run graphs of commands
    #[command(subcommand)]
    Graph(GraphCommand),
    /// Processes that other commands start
    #[command(subcommand, hide = true)]
    Worker(WorkerCommand),
    /// Check that every execution is whole and on a shard where the plan permits it
    Audit,
    /// Check that a store does what Loom relies on, in scratch stores beside it that are removed afterwards
    Conformance(Conformance),
    /// Print a completion script
    Completions(Completions),
    /// Print the manual page, or write those of all commands
    Man(Man),
}

#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// Which store: sqlite:PATH for a file in the same folder, postgres://… for schemas in the same database
    #[arg(long, value_name = "URL")]
    pub(crate) url: String,
    /// Only cases whose group or name contains this
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// How progress is shown
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub(crate) progress: ProgressMode,
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// How many shards
    #[arg(long, value_name = "N", required_unless_present = "url", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) shards: Option<u16>,
    /// The folder for loom.toml and the shards' files [default: that of --config]
    #[arg(long, value_name = "D")]
    pub(crate) dir: Option<PathBuf>,
    /// Where a shard is, once for each: sqlite:PATH, relative to the deployment file, or
    /// postgres://USER@HOST/DATABASE?schema=SCHEMA
    #[arg(long, value_name = "U")]
    pub(crate) url: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// JSON lines, plain or gzip; `-` for stdin. Keys: execution, at (ms), type, last; anything else
    /// is payload
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// How to show progress on stderr
    #[arg(long, value_enum, default_value_t)]
    pub(crate) progress: ProgressMode,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Write to a file in one step, with gzip if its name ends in .gz [default: stdout]
    #[arg(long, value_name = "F")]
    pub(crate) out: Option<PathBuf>,
    /// How to show progress on stderr
    #[arg(long, value_enum, default_value_t)]
    pub(crate) progress: ProgressMode,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Show it again and again, every so many seconds
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", conflicts_with = "json", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) watch: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Only executions that can still change, or only those that cannot
    #[arg(long, value_enum)]
    pub(crate) state: Option<State>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: u64,
    /// Only those on this shard
    #[arg(long, value_name = "S")]
    pub(crate) shard: Option<u16>,
    /// Go on after this execution
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<ExecutionId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum State {
    Open,
    Closed,
}

#[derive(Debug, Args)]
pub(crate) struct Log {
    /// The execution
    #[arg(value_name = "ID")]
    pub(crate) id: ExecutionId,
    /// The first sequence to show
    #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
    pub(crate) from: u64,
    /// At most so many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// The log that this shard has, whether it is the one that counts or not
    #[arg(long, value_name = "S")]
    pub(crate) shard: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// The execution
    #[arg(value_name = "ID")]
    pub(crate) id: ExecutionId,
    /// Also if it is open, so that something may be writing it
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// For which shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Write the pages of all commands into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_number_of_shards_or_a_url_for_each_is_needed() {
        assert!(Cli::try_parse_from(["loom", "init"]).is_err());
        assert!(Cli::try_parse_from(["loom", "init", "--shards", "0"]).is_err());
        assert!(Cli::try_parse_from(["loom", "init", "--url", "sqlite:a"]).is_ok());
        assert!(Cli::try_parse_from(["loom", "init", "--shards", "4"]).is_ok());
    }
}
