//! Which plan may follow which.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use crate::placement::PackedPlacement as Slot;
use crate::{BucketSet, HashFunction, Placement, ShardPlan};

impl ShardPlan {
    /// Whether `next` may be published after this plan: no execution may end up where neither its
    /// old nor its new placement looks.
    ///
    /// * The epoch is the next one and the hash function the same.
    /// * The bucket count is the same. Or it is a multiple: then the step is a
    ///   [`split`](Self::split), and changes nothing else.
    /// * Bucket by bucket:
    ///
    /// | now | next may be |
    /// | --- | --- |
    /// | settled on `a` | the same; migrating `a -> x` for any `x` |
    /// | migrating `a -> b` | the same; settled on `b`; migrating `b -> a` |
    ///
    /// Shards may join, leave and change their weights freely: as long as every bucket takes one of
    /// these steps, a shard that holds data of a bucket is named by it.
    ///
    /// This looks at the plans alone. Whether a bucket that settles *is* drained only the stores
    /// know, and whoever publishes the plan has to ask them.
    ///
    /// # Errors
    ///
    /// [`TransitionError`] with everything that is wrong.
    pub fn validate_transition(&self, next: &Self) -> Result<(), TransitionError> {
        let mut refusals = Vec::new();
        if self.epoch.checked_add(1) != Some(next.epoch) {
            refusals.push(Refusal::Epoch {
                now: self.epoch,
                next: next.epoch,
            });
        }
        if self.hash != next.hash {
            refusals.push(Refusal::Hash {
                now: self.hash,
                next: next.hash,
            });
        }
        let (now_buckets, next_buckets) = (self.bucket_count(), next.bucket_count());
        if now_buckets == next_buckets {
            refusals.extend(stranded(&self.table, &next.table));
        } else if !next_buckets.is_multiple_of(now_buckets) {
            refusals.push(Refusal::BucketCount {
                now: now_buckets,
                next: next_buckets,
            });
        } else if let Some(refusal) = self.changed_by_split(next) {
            refusals.push(refusal);
        }
        if refusals.is_empty() {
            Ok(())
        } else {
            Err(TransitionError { refusals })
        }
    }

    /// A split moves nothing, starts nothing, ends nothing.
    fn changed_by_split(&self, next: &Self) -> Option<Refusal> {
        let mut changed = BucketSet::default();
        for ((bucket, slot), old) in (0..).zip(&next.table).zip(self.table.iter().cycle()) {
            if slot != old {
                changed.push(bucket);
            }
        }
        let shards_changed = self.shards != next.shards;
        if changed.is_empty() && !shards_changed {
            return None;
        }
        Some(Refusal::SplitChangesMore {
            buckets: changed,
            shards_changed,
        })
    }
}

/// The illegal steps of two tables of equal length, alike ones together.
fn stranded(now: &[Slot], next: &[Slot]) -> impl Iterator<Item = Refusal> {
    let mut steps: BTreeMap<(Placement, Placement), BucketSet> = BTreeMap::new();
    for (bucket, (now, next)) in (0..).zip(now.iter().zip(next)) {
        if !may_follow(*now, *next) {
            steps
                .entry((now.get(), next.get()))
                .or_default()
                .push(bucket);
        }
    }
    steps
        .into_iter()
        .map(|((now, next), buckets)| Refusal::Stranded { buckets, now, next })
}

fn may_follow(now: Slot, next: Slot) -> bool {
    now == next
        || if now.is_settled() {
            next.from() == now.to()
        } else {
            next == Slot::settled(now.to()) || next == Slot::migrating(now.to(), now.from())
        }
}

/// Why a plan may not follow another.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct TransitionError {
    refusals: Vec<Refusal>,
}

impl TransitionError {
    /// Everything that is wrong; at least one thing.
    #[must_use]
    pub fn refusals(&self) -> &[Refusal] {
        &self.refusals
    }
}

impl fmt::Display for TransitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a legal successor")?;
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
                    write!(f, "{and} the placement of buckets {buckets}")?;
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
    write!(f, "buckets {buckets}: `{now}` becomes `{next}`, ")?;
    match (now, next) {
        (Placement::Settled(on), _) => {
            let to = next.destination();
            write!(
                f,
                "which leaves behind what is on shard {on}; expected `{on}` or "
            )?;
            if to == on {
                write!(f, "`{on} -> …`: start from the shard that holds the data")
            } else {
                write!(f, "`{on} -> {to}`: migrate first, settle when drained")
            }
        }
        (Placement::Migrating { from, to }, Placement::Settled(on)) if on == from => write!(
            f,
            "which leaves behind what has started on shard {to}; expected `{now}`, `{to}` or \
             `{to} -> {from}`: revert first, settle when drained"
        ),
        (Placement::Migrating { from, to }, _) => write!(
            f,
            "which leaves behind what is on shards {from} and {to}; expected `{now}`, `{to}` or \
             `{to} -> {from}`: let this migration end first"
        ),
    }
}
