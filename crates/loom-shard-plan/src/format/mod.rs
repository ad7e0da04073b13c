//! The three formats. What is common to them: errors with a place, and one assembler that checks.

mod assemble;
mod binary;
mod eight;
mod json;
mod lines;
mod numbers;
mod text;

use std::fmt;

use thiserror::Error;

use crate::segments::MAX_CYCLE;
use crate::{MAX_BUCKETS, MAX_EPOCH, ShardId};
use assemble::Assembler;

/// Version of all three formats.
pub(crate) const VERSION: u8 = 1;
/// First word of the text format, and `format` of the JSON one.
pub(crate) const NAME: &str = "loom-shard-plan";

/// Why an input is not a plan: the format, the place, the problem.
///
/// ```
/// use loom_shard_plan::{Location, ShardPlan};
/// let error = "loom-shard-plan v1\nepoch zero".parse::<ShardPlan>().unwrap_err();
/// assert_eq!(error.location(), &Location::Line { line: 2, column: 7 });
/// assert_eq!(error.to_string(), "plan text, line 2, column 7: expected a number, found `zero`");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{format}, {location}: {problem}")]
pub struct DecodeError {
    format: PlanFormat,
    location: Location,
    #[source]
    problem: DecodeProblem,
}

impl DecodeError {
    const fn new(format: PlanFormat, location: Location, problem: DecodeProblem) -> Self {
        Self {
            format,
            location,
            problem,
        }
    }

    /// Which format was read.
    #[must_use]
    pub const fn format(&self) -> PlanFormat {
        self.format
    }

    /// Where the problem is.
    #[must_use]
    pub const fn location(&self) -> &Location {
        &self.location
    }

    /// What the problem is, and what was expected.
    #[must_use]
    pub const fn problem(&self) -> &DecodeProblem {
        &self.problem
    }
}

/// One of the formats of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PlanFormat {
    /// Lines, for people.
    Text,
    /// JSON, for tools.
    Json,
    /// Bytes, for the wire.
    Binary,
}

impl fmt::Display for PlanFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "plan text",
            Self::Json => "plan JSON",
            Self::Binary => "plan bytes",
        })
    }
}

/// Where in an input.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Location {
    /// Line and column. Text counts characters, JSON bytes.
    Line {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// A part of a JSON document, and where it starts.
    Item {
        /// For instance `epoch`, or `placements[3].first`.
        path: String,
        /// From 1.
        line: usize,
        /// From 1, in bytes.
        column: usize,
    },
    /// Bytes from the start.
    Offset(usize),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { line, column } => write!(f, "line {line}, column {column}"),
            Self::Item { path, line, column } => {
                write!(f, "{path}, line {line}, column {column}")
            }
            Self::Offset(offset) => write!(f, "byte {offset}"),
        }
    }
}

/// What is wrong with an input.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeProblem {
    /// It does not have the format's form; says what was expected and what was found.
    #[error("{0}")]
    Syntax(String),
    /// A version that this release does not read.
    #[error("format version {0} is not known; expected {VERSION}: use a newer release")]
    Version(u64),
    /// Longer than any plan.
    #[error("{length} bytes are more than a plan can have; expected at most {limit}")]
    TooLong {
        /// Bytes of the input.
        length: usize,
        /// Most bytes of a plan.
        limit: usize,
    },
    /// Bytes after the end of the plan.
    #[error("the plan ends here, but {0} more bytes follow")]
    TrailingBytes(usize),
    /// Bytes that mean a plan but are not the plan's bytes, which the binary format does not allow.
    #[error("these are not the plan's canonical bytes: the first difference is here")]
    NotCanonical,
    /// Well-formed, but no plan.
    #[error(transparent)]
    Invalid(#[from] InvalidPlan),
}

/// What keeps well-formed input from being a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidPlan {
    /// Epochs start at 1 and end at [`MAX_EPOCH`].
    #[error("epoch {0} is none; expected 1 to {MAX_EPOCH}")]
    Epoch(u64),
    /// See [`MAX_BUCKETS`].
    #[error("a plan cannot have {0} buckets; expected 1 to {MAX_BUCKETS}")]
    BucketCount(u64),
    /// Shards are listed once each, ascending by id.
    #[error("shard {shard} is listed after shard {previous}; expected ascending ids, each once")]
    ShardOrder {
        /// The shard.
        shard: ShardId,
        /// The one before it.
        previous: ShardId,
    },
    /// A leaving shard has weight 0.
    #[error("shard {0} is leaving and has a weight; expected weight 0")]
    LeavingWeight(ShardId),
    /// A leaving shard is listed for the buckets that name it.
    #[error("shard {0} is leaving and no bucket names it; leave it out")]
    LeavingUnnamed(ShardId),
    /// Somebody has to take the buckets.
    #[error("no shard has a weight above 0; expected at least one")]
    NoActiveShard,
    /// Every shard needs a bucket.
    #[error(
        "{shards} shards of weight above 0 share {buckets} buckets; expected no more shards than buckets"
    )]
    MoreShardsThanBuckets {
        /// Shards of weight above 0.
        shards: u32,
        /// Buckets of the plan.
        buckets: u32,
    },
    /// A placement names a shard that is not listed.
    #[error("shard {0} is not one of the plan's shards; list it, or name another")]
    UnknownShard(ShardId),
    /// A bucket cannot migrate to where it is.
    #[error("a bucket cannot migrate from shard {0} to itself; write it as settled")]
    SameSides(ShardId),
    /// Ranges follow each other without gap or overlap.
    #[error(
        "the range starts with bucket {found}; expected {expected}, where the one before ended"
    )]
    NotContiguous {
        /// The next bucket without a placement.
        expected: u32,
        /// Where the range starts.
        found: u32,
    },
    /// A range ends before it starts.
    #[error("the range {first}-{last} runs backwards")]
    Backwards {
        /// Its first bucket.
        first: u32,
        /// Its last bucket.
        last: u32,
    },
    /// A range goes beyond the last bucket.
    #[error("bucket {last} is beyond the plan's last, {}", buckets - 1)]
    BeyondLast {
        /// Where the range ends.
        last: u64,
        /// Buckets of the plan.
        buckets: u32,
    },
    /// Not every bucket has a placement.
    #[error("the placements end before bucket {next}; expected them to go on to {}", buckets - 1)]
    Incomplete {
        /// The first bucket without a placement.
        next: u32,
        /// Buckets of the plan.
        buckets: u32,
    },
    /// A cycle has a number of placements, and its range no fewer buckets.
    #[error(
        "a cycle of {placements} placements for {buckets} buckets; expected 1 to {MAX_CYCLE}, and \
         no more than buckets"
    )]
    CycleLength {
        /// Placements of the cycle.
        placements: usize,
        /// Buckets of the range.
        buckets: u32,
    },
}

impl InvalidPlan {
    /// The shard whose entry in the list of shards is at fault.
    const fn listed_shard(&self) -> Option<ShardId> {
        match self {
            Self::LeavingUnnamed(shard) => Some(*shard),
            _ => None,
        }
    }
}
