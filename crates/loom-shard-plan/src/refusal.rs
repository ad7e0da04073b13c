//! Why a plan may not follow another, in words.

use std::fmt;

use thiserror::Error;

use crate::{BucketSet, HashFunction, Placement};

/// Why a plan may not follow another.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct TransitionError {
    refusals: Vec<Refusal>,
}

impl TransitionError {
    pub(crate) const fn new(refusals: Vec<Refusal>) -> Self {
        Self { refusals }
    }

    /// Everything that is wrong; at least one thing.
    #[must_use]
    pub fn refusals(&self) -> &[Refusal] {
        &self.refusals
    }
}

impl fmt::Display for TransitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a legal successor")?;
        if let [only] = &*self.refusals {
            return write!(f, ": {only}");
        }
        for refusal in &self.refusals {
            write!(f, "\n- {refusal}")?;
        }
        Ok(())
    }
}

/// One thing that a plan may not change in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Not the next epoch.
    Epoch {
        /// Epoch of the plan that is followed.
        now: u64,
        /// Epoch of the plan that would follow.
        next: u64,
    },
    /// Another hash function: every id would be looked for in another bucket.
    Hash {
        /// Hash function of the plan that is followed.
        now: HashFunction,
        /// Hash function of the plan that would follow.
        next: HashFunction,
    },
    /// A bucket count that is no multiple: ids would be looked for in other buckets.
    BucketCount {
        /// Bucket count of the plan that is followed.
        now: u32,
        /// Bucket count of the plan that would follow.
        next: u32,
    },
    /// A split that does something else as well.
    SplitChangesMore {
        /// The buckets, of the plan that would follow, that are not where they were.
        buckets: BucketSet,
        /// Whether shards or their weights differ.
        shards_changed: bool,
    },
    /// Executions of these buckets could not be found any more.
    Stranded {
        /// The buckets.
        buckets: BucketSet,
        /// Where they are.
        now: Placement,
        /// Where they would be.
        next: Placement,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Epoch { now, next } if now == next => write!(
                f,
                "epoch {next} follows epoch {now}; expected {}: this is the present plan or a \
                 rival of it",
                now.saturating_add(1)
            ),
            Self::Epoch { now, next } if next < now => write!(
                f,
                "epoch {next} follows epoch {now}; expected {}: an older plan cannot come back; \
                 derive a new one from the present plan",
                now.saturating_add(1)
            ),
            Self::Epoch { now, next } => write!(
                f,
                "epoch {next} follows epoch {now}; expected {}: publish the plans in between first",
                now.saturating_add(1)
            ),
            Self::Hash { now, next } => {
                write!(
                    f,
                    "the hash function becomes {next}; expected {now}, for ever"
                )
            }
            Self::BucketCount { now, next } => write!(
                f,
                "the bucket count goes from {now} to {next}; expected {now}, or a multiple of it \
                 (`split`)"
            ),
            Self::SplitChangesMore {
                buckets,
                shards_changed,
            } => {
                f.write_str("the split also changes")?;
                if *shards_changed {
                    f.write_str(" shards")?;
                }
                if !buckets.is_empty() {
                    let and = if *shards_changed { " and" } else { "" };
                    write!(f, "{and} the placement of {buckets:#}")?;
                }
                f.write_str("; expected nothing else: split in one epoch, change in the next")
            }
            Self::Stranded { buckets, now, next } => stranded_text(f, buckets, *now, *next),
        }
    }
}

/// What would be lost, what was expected, what to do.
fn stranded_text(
    f: &mut fmt::Formatter<'_>,
    buckets: &BucketSet,
    now: Placement,
    next: Placement,
) -> fmt::Result {
    write!(f, "{buckets:#}: `{now}` becomes `{next}`, ")?;
    let sides = [now.source(), Some(now.destination())]
        .into_iter()
        .flatten();
    let mut lost = sides.filter(|shard| !next.names(*shard));
    match (lost.next(), lost.next()) {
        (Some(one), Some(other)) => write!(f, "which loses what is on shards {one} and {other}")?,
        (Some(one), None) => write!(f, "which loses what is on shard {one}")?,
        _ => write!(f, "but everything is on shard {}", now.destination())?,
    }
    let to = next.destination();
    match now {
        Placement::Settled(on) if on == to => {
            write!(f, "; expected `{on}`, or `{on} -> …` to move it")
        }
        Placement::Settled(on) => {
            write!(
                f,
                "; expected `{on}` or `{on} -> {to}`: migrate first, settle when drained"
            )
        }
        Placement::Migrating { from, to } => {
            write!(f, "; expected `{now}`, `{to}` or `{to} -> {from}`: ")?;
            f.write_str(if next == Placement::Settled(from) {
                "revert first, settle when drained"
            } else {
                "end this migration first"
            })
        }
    }
}
