//! The command line of `loom plan`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use loom_shard_plan::ShardId;
use loom_spi::ExecutionId;

use super::buckets::Buckets;

#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Write a first plan
    New(New),
    /// Write the plan that follows: other shards or weights, with the fewest buckets moved
    Rebalance(Rebalance),
    /// Say what moves from plan A to plan B; exit code 3 where B may not follow A
    Diff(Diff),
    /// Show a plan: on a terminal a map of its buckets, else the plan as text
    Show(Show),
    /// Say where ids go
    Route(Route),
    /// Write the plan that follows once migrating buckets are drained
    #[command(
        override_usage = "loom plan settle [OPTIONS] <FILE> <BUCKETS>...\n       loom plan settle [OPTIONS] --all <FILE>"
    )]
    Settle(Step),
    /// Write the plan that calls the migration of buckets off
    #[command(
        override_usage = "loom plan revert [OPTIONS] <FILE> <BUCKETS>...\n       loom plan revert [OPTIONS] --all <FILE>"
    )]
    Revert(Step),
    /// Write the plan with more buckets, in which every id is where it was
    Split(Split),
    /// Check a plan, and warn of what is allowed and probably not wanted
    Check(Check),
}

#[derive(Debug, Args)]
pub(crate) struct New {
    /// How many shards; their ids count from 0
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) shards: u16,
    /// How many buckets [default: 4096]
    #[arg(long, value_name = "B", conflicts_with = "unplanned")]
    pub(crate) buckets: Option<u32>,
    /// Route exactly as `hash % N` does, to take over a deployment without a plan with nothing moved
    #[arg(long)]
    pub(crate) unplanned: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("change").required(true).multiple(true).args(["shards", "add", "remove", "weight", "pin"]))]
pub(crate) struct Rebalance {
    /// A plan, as text, JSON or bytes; `-` for stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// How many shards there shall be: new ids follow the highest, and the highest leave
    #[arg(long, value_name = "N", conflicts_with_all = ["add", "remove", "weight", "pin"], value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) shards: Option<u16>,
    /// Allow fewer shards than now
    #[arg(long, requires = "shards", conflicts_with_all = ["add", "remove", "weight", "pin"])]
    pub(crate) allow_shrink: bool,
    #[command(flatten)]
    pub(crate) members: Members,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// Changes of single members, and of single buckets.
#[derive(Debug, Args)]
pub(crate) struct Members {
    /// A shard that joins, with its weight [default weight: 1]
    #[arg(long, value_name = "ID[:WEIGHT]", value_delimiter = ',')]
    pub(crate) add: Vec<Joining>,
    /// A shard that leaves; it stays in the plan until its last bucket has settled elsewhere
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = shard_id)]
    pub(crate) remove: Vec<ShardId>,
    /// Another weight for a shard; 0 takes its buckets away and keeps it a member
    #[arg(long, value_name = "ID:W", value_delimiter = ',')]
    pub(crate) weight: Vec<Weighing>,
    /// Hold a bucket on a shard, or move it there, whatever its share
    #[arg(long, value_name = "BUCKET:ID", value_delimiter = ',')]
    pub(crate) pin: Vec<Pin>,
}

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The plan now; `-` for stdin
    #[arg(value_name = "A")]
    pub(crate) now: PathBuf,
    /// The plan that would follow
    #[arg(value_name = "B")]
    pub(crate) next: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// A plan, as text, JSON or bytes; `-` for stdin [default: that of the deployment]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The plan itself, in this format
    #[arg(long, value_enum, conflicts_with = "map")]
    pub(crate) format: Option<Format>,
    /// Whether to show the map of the buckets instead of the text
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) map: When,
    /// Also write the map as a picture; `-` is stdout, instead of anything else
    #[arg(long, value_name = "OUT")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Route {
    /// A plan, as text, JSON or bytes; `-` for stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Execution ids [default: those on stdin, one a line]
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<ExecutionId>,
}

/// `settle` and `revert`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["buckets", "all"]))]
pub(crate) struct Step {
    /// A plan, as text, JSON or bytes; `-` for stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Buckets and ranges of buckets, as `loom plan diff` prints them: 7 820-1023
    #[arg(value_name = "BUCKETS")]
    pub(crate) buckets: Vec<Buckets>,
    /// All that are migrating
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Split {
    /// A plan, as text, JSON or bytes; `-` for stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// By how much to multiply the number of buckets
    #[arg(long, value_name = "F", value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) factor: u32,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// A plan, as text, JSON or bytes; `-` for stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Refuse a file that is not written exactly as `loom plan` writes it, comments included
    #[arg(long)]
    pub(crate) canonical: bool,
}

/// Where a plan goes, and how it is written.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// The format of the plan [default: text; with --json and without --out: json]
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// Write to a file, in one step; it may be FILE [default: stdout]
    #[arg(long, value_name = "F")]
    pub(crate) out: Option<PathBuf>,
}

/// A format that plans are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Lines, for people and reviews
    Text,
    /// JSON, for tools
    Json,
    /// Bytes, for the wire
    Bin,
}

/// When to do what is meant for terminals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// Where stdout is a terminal
    #[default]
    Auto,
    Always,
    Never,
}

/// `ID[:WEIGHT]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Joining {
    pub(crate) shard: ShardId,
    pub(crate) weight: u32,
}

impl FromStr for Joining {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (id, weight) = text.split_once(':').unwrap_or((text, "1"));
        Ok(Self {
            shard: shard_id(id)?,
            weight: number(weight, "a weight", u32::MAX)?,
        })
    }
}

/// `ID:W`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weighing {
    pub(crate) shard: ShardId,
    pub(crate) weight: u32,
}

impl FromStr for Weighing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (id, weight) = text
            .split_once(':')
            .ok_or("expected a shard and its weight, as in 3:2")?;
        Ok(Self {
            shard: shard_id(id)?,
            weight: number(weight, "a weight", u32::MAX)?,
        })
    }
}

/// `BUCKET:ID`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pin {
    pub(crate) bucket: u32,
    pub(crate) shard: ShardId,
}

impl FromStr for Pin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (bucket, id) = text
            .split_once(':')
            .ok_or("expected a bucket and its shard, as in 1177:3")?;
        Ok(Self {
            bucket: number(bucket, "a bucket", u32::MAX)?,
            shard: shard_id(id)?,
        })
    }
}

fn shard_id(text: &str) -> Result<ShardId, String> {
    number(text, "a shard id", u32::from(u16::MAX))
        .map(|id| ShardId(u16::try_from(id).unwrap_or(u16::MAX)))
}

/// A number up to `most`, in digits alone: no sign.
pub(crate) fn number(text: &str, what: &str, most: u32) -> Result<u32, String> {
    Some(text)
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse().ok())
        .filter(|number| *number <= most)
        .ok_or_else(|| format!("expected {what} from 0 to {most}, found `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_joining_shard_weighs_1_unless_told_otherwise() {
        let joining = |text: &str| text.parse::<Joining>().map(|j| (j.shard.0, j.weight));
        assert_eq!(joining("5"), Ok((5, 1)));
        assert_eq!(joining("5:0"), Ok((5, 0)));
        assert_eq!(joining("65535:4294967295"), Ok((u16::MAX, u32::MAX)));
    }

    #[test]
    fn what_is_not_a_shard_a_weight_or_a_bucket_is_told_with_what_was_expected() {
        let problem = |result: Result<(), String>| result.unwrap_err();
        for (text, expected) in [
            ("", "expected a shard id from 0 to 65535, found ``"),
            (
                "65536",
                "expected a shard id from 0 to 65535, found `65536`",
            ),
            ("-1", "expected a shard id from 0 to 65535, found `-1`"),
            ("+1", "expected a shard id from 0 to 65535, found `+1`"),
            ("1:", "expected a weight from 0 to 4294967295, found ``"),
            (
                "1:2:3",
                "expected a weight from 0 to 4294967295, found `2:3`",
            ),
        ] {
            assert_eq!(problem(text.parse::<Joining>().map(drop)), expected);
        }
        let weight = problem("3".parse::<Weighing>().map(drop));
        assert_eq!(weight, "expected a shard and its weight, as in 3:2");
        let pin = problem("4294967296:1".parse::<Pin>().map(drop));
        assert_eq!(
            pin,
            "expected a bucket from 0 to 4294967295, found `4294967296`"
        );
    }
}
