//! The commands that change where executions live.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use loom_sharded_store::Share;
use loom_spi::ExecutionId;

use crate::plan::{Buckets, Members};
use crate::progress::ProgressMode;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("change").required(true).multiple(true).args(["shards", "add", "remove", "weight", "pin"]))]
pub(crate) struct Rebalance {
    /// How many shards there shall be: new ids follow the highest, and the highest leave
    #[arg(long, value_name = "N", conflicts_with_all = ["add", "remove", "weight", "pin"], value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) shards: Option<u16>,
    #[command(flatten)]
    pub(crate) members: Members,
    /// Where a joining shard is, once for each: sqlite:PATH or postgres://USER@HOST/DATABASE?schema=SCHEMA [default: a file beside the others]
    #[arg(long, value_name = "U")]
    pub(crate) add_url: Vec<String>,
    /// Allow fewer shards than now
    #[arg(long, requires = "shards", conflicts_with_all = ["add", "remove", "weight", "pin"])]
    pub(crate) allow_shrink: bool,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

/// Whether a change is made.
#[derive(Debug, Args)]
pub(crate) struct Consent {
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    /// Show what would change and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Drain {
    /// Move open executions too, while they are used
    #[arg(long)]
    pub(crate) live: bool,
    /// At most so many moves a second
    #[arg(long, value_name = "R")]
    pub(crate) rate: Option<NonZeroU32>,
    /// Work in at most this share of the time, 0.001 to 1, and rest in between [default: 1]
    #[arg(long, value_name = "S")]
    pub(crate) share: Option<Share>,
    /// Go on until every bucket is settled; without --live, wait for open executions to close
    #[arg(long)]
    pub(crate) until_settled: bool,
    /// How to show progress on stderr
    #[arg(long, value_enum, default_value_t)]
    pub(crate) progress: ProgressMode,
}

#[derive(Debug, Args)]
pub(crate) struct Settle {
    /// Buckets and ranges of buckets, all of which have to be drained: 3,8-20 [default: all that are drained]
    #[arg(value_name = "BUCKETS")]
    pub(crate) buckets: Vec<Buckets>,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["buckets", "all"]))]
pub(crate) struct Revert {
    /// Buckets and ranges of buckets: 3,8-20
    #[arg(value_name = "BUCKETS")]
    pub(crate) buckets: Vec<Buckets>,
    /// All that are migrating
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

#[derive(Debug, Args)]
pub(crate) struct Publish {
    /// The plan that follows the present one, as text, JSON or bytes; `-` for stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) consent: Consent,
}

#[derive(Debug, Args)]
pub(crate) struct Move {
    /// The executions
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<ExecutionId>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ShardCommand {
    /// List the shards: where they are, who they say they are, which plan they are under
    Ls,
    /// Create a shard, for a later plan to use; nothing is routed to it before
    Add(AddShard),
    /// Give up a shard that is gone for good, with all that only it held
    Abandon(Abandon),
}

#[derive(Debug, Args)]
pub(crate) struct AddShard {
    /// Where it is: sqlite:PATH, relative to the deployment file, or postgres://USER@HOST/DATABASE?schema=SCHEMA
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Its id [default: the one after the highest]
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct Abandon {
    /// The shard
    #[arg(value_name = "ID")]
    pub(crate) shard: u16,
    /// Do not ask for the deployment's name: what only this shard held is lost
    #[arg(long)]
    pub(crate) yes_lose_data: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Repair {
    /// The shard
    #[arg(value_name = "ID")]
    pub(crate) shard: u16,
    #[command(flatten)]
    pub(crate) consent: Consent,
    /// How to show progress on stderr
    #[arg(long, value_enum, default_value_t)]
    pub(crate) progress: ProgressMode,
}

#[derive(Debug, Args)]
pub(crate) struct Resolve {
    /// The execution
    #[arg(value_name = "ID")]
    pub(crate) id: ExecutionId,
    /// The shard whose log stays
    #[arg(long, value_name = "SHARD")]
    pub(crate) keep: u16,
    /// What the other log is called from now on; its events stay as they are
    #[arg(long, value_name = "NEW_ID")]
    pub(crate) other_as: ExecutionId,
    #[command(flatten)]
    pub(crate) consent: Consent,
}
