//! What changes from one plan to another.

mod json;
mod text;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::placement::PackedPlacement as Slot;
use crate::{BucketSet, PlanError, Refusal, Shard, ShardId, ShardPlan};

/// What changes from one plan to another: data for tools, and with `Display` a summary for a
/// review.
///
/// If one of the plans is a split of the other, buckets are those of the finer one.
///
/// ```
/// use loom_shard_plan::{RebalanceOptions, ShardPlan};
/// let plan = ShardPlan::new(4)?;
/// let grown = plan.rebalanced(5, RebalanceOptions::default())?;
/// let diff = plan.diff(&grown)?;
/// assert_eq!(diff.moved().len(), 819);
/// assert_eq!(format!("{:.1}", 100.0 * diff.moved_fraction()), "20.0");
/// assert!(diff.is_legal());
/// # Ok::<(), loom_shard_plan::PlanError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PlanDiff {
    epochs: (u64, u64),
    bucket_counts: (u32, u32),
    hash: crate::HashFunction,
    moved: BucketSet,
    settled: BucketSet,
    reverted: BucketSet,
    revertible: BucketSet,
    moves: Vec<ShardMove>,
    per_shard: Vec<ShardDiff>,
    refusals: Vec<Refusal>,
}

/// Buckets whose new executions go from one shard to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ShardMove {
    /// Where they went.
    pub from: ShardId,
    /// Where they go.
    pub to: ShardId,
    /// Which buckets.
    pub buckets: BucketSet,
}

/// What changes for one shard. Buckets are counted where their new executions go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ShardDiff {
    /// The shard.
    pub shard: ShardId,
    /// What becomes of it.
    pub change: ShardChange,
    /// Its weight in the old plan, if it is there.
    pub weight_before: Option<u32>,
    /// Its weight in the new plan, if it is there.
    pub weight_after: Option<u32>,
    /// Buckets in the old plan.
    pub before: u32,
    /// Buckets in the new plan.
    pub after: u32,
    /// Buckets that it has and did not have.
    pub gains: u32,
    /// Buckets that it had and has no more.
    pub loses: u32,
}

/// What becomes of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ShardChange {
    /// It is in both plans, in the same state but for its weight.
    Stays,
    /// It is a member, and was not in the old plan or was leaving.
    Joins,
    /// It is no member any more, and waits for its last buckets to settle elsewhere.
    Leaving,
    /// It is not in the new plan.
    Gone,
}

impl ShardPlan {
    /// What changes from this plan to `new`.
    ///
    /// # Errors
    ///
    /// [`PlanError::Incomparable`] for plans of different hash functions, or of bucket counts of
    /// which neither is a multiple of the other.
    pub fn diff(&self, new: &Self) -> Result<PlanDiff, PlanError> {
        let (old_buckets, new_buckets) = (self.bucket_count(), new.bucket_count());
        let related =
            old_buckets.is_multiple_of(new_buckets) || new_buckets.is_multiple_of(old_buckets);
        if self.hash != new.hash || !related {
            return Err(PlanError::Incomparable {
                old_hash: self.hash,
                old_buckets,
                new_hash: new.hash,
                new_buckets,
            });
        }
        let mut diff = PlanDiff {
            epochs: (self.epoch, new.epoch),
            bucket_counts: (old_buckets, new_buckets),
            hash: self.hash,
            moved: BucketSet::default(),
            settled: BucketSet::default(),
            reverted: BucketSet::default(),
            revertible: BucketSet::default(),
            moves: Vec::new(),
            per_shard: per_shard(&self.shards, &new.shards),
            refusals: match self.validate_transition(new) {
                Ok(()) => Vec::new(),
                Err(error) => error.refusals().to_vec(),
            },
        };
        let mut moves = BTreeMap::new();
        let old_slots = self.table.iter().copied().cycle();
        let new_slots = new.table.iter().copied().cycle();
        for (bucket, (old, new)) in (0..diff.buckets()).zip(old_slots.zip(new_slots)) {
            diff.count(bucket, old, new, &mut moves);
        }
        let moves = moves.into_iter();
        diff.moves = moves
            .map(|((from, to), buckets)| ShardMove { from, to, buckets })
            .collect();
        Ok(diff)
    }
}

impl PlanDiff {
    fn count(
        &mut self,
        bucket: u32,
        old: Slot,
        new: Slot,
        moves: &mut BTreeMap<(ShardId, ShardId), BucketSet>,
    ) {
        let (before, after) = (old.to(), new.to());
        for (shard, is_before) in [(before, true), (after, false)] {
            if let Ok(at) = self
                .per_shard
                .binary_search_by_key(&shard, |diff| diff.shard)
            {
                let diff = &mut self.per_shard[at];
                let moves = u32::from(before != after);
                if is_before {
                    diff.before += 1;
                    diff.loses += moves;
                } else {
                    diff.after += 1;
                    diff.gains += moves;
                }
            }
        }
        if old == new {
            return;
        }
        if before == after {
            if !old.is_settled() && new.is_settled() {
                self.settled.push(bucket);
            }
            return;
        }
        if new.from() == before {
            self.revertible.push(bucket);
        }
        if !old.is_settled() && new == Slot::migrating(old.to(), old.from()) {
            self.reverted.push(bucket);
        } else {
            self.moved.push(bucket);
        }
        moves.entry((before, after)).or_default().push(bucket);
    }

    /// Epochs of the old and the new plan.
    #[must_use]
    pub const fn epochs(&self) -> (u64, u64) {
        self.epochs
    }

    /// How many buckets were compared: those of the finer plan.
    #[must_use]
    pub fn buckets(&self) -> u32 {
        self.bucket_counts.0.max(self.bucket_counts.1)
    }

    /// The buckets whose new executions go to another shard, except for those that are reverted.
    #[must_use]
    pub const fn moved(&self) -> &BucketSet {
        &self.moved
    }

    /// The part of all buckets that is moved, 0 to 1.
    #[must_use]
    pub fn moved_fraction(&self) -> f64 {
        f64::from(self.moved.len()) / f64::from(self.buckets())
    }

    /// The buckets that were migrating and are settled on their destination.
    #[must_use]
    pub const fn settled(&self) -> &BucketSet {
        &self.settled
    }

    /// The buckets whose migration is turned around.
    #[must_use]
    pub const fn reverted(&self) -> &BucketSet {
        &self.reverted
    }

    /// The buckets that [`reverted_all`](ShardPlan::reverted_all) on the new plan sends back to the
    /// shard that they had in the old one: how to take this step back.
    ///
    /// Buckets that settle are not among them; only another rebalance moves those.
    #[must_use]
    pub const fn rollback(&self) -> &BucketSet {
        &self.revertible
    }

    /// Moved and reverted buckets by shard, ascending.
    #[must_use]
    pub fn moves(&self) -> &[ShardMove] {
        &self.moves
    }

    /// Every shard of either plan, ascending by id.
    #[must_use]
    pub fn per_shard(&self) -> &[ShardDiff] {
        &self.per_shard
    }

    /// The shards that join.
    pub fn joins(&self) -> impl Iterator<Item = ShardId> + '_ {
        self.shards_that(|change| change == ShardChange::Joins)
    }

    /// The shards that start to leave, or are gone.
    pub fn leaves(&self) -> impl Iterator<Item = ShardId> + '_ {
        self.shards_that(|change| matches!(change, ShardChange::Leaving | ShardChange::Gone))
    }

    fn shards_that(&self, wanted: fn(ShardChange) -> bool) -> impl Iterator<Item = ShardId> + '_ {
        self.per_shard
            .iter()
            .filter(move |diff| wanted(diff.change))
            .map(|diff| diff.shard)
    }

    /// Whether nothing but, perhaps, the epoch differs.
    #[must_use]
    pub fn is_no_change(&self) -> bool {
        let same = |diff: &ShardDiff| {
            diff.change == ShardChange::Stays && diff.weight_before == diff.weight_after
        };
        self.bucket_counts.0 == self.bucket_counts.1
            && self.moves.is_empty()
            && self.settled.is_empty()
            && self.per_shard.iter().all(same)
    }

    /// Whether the new plan may be published after the old one.
    #[must_use]
    pub fn is_legal(&self) -> bool {
        self.refusals.is_empty()
    }

    /// Why it may not; see [`validate_transition`](ShardPlan::validate_transition).
    #[must_use]
    pub fn refusals(&self) -> &[Refusal] {
        &self.refusals
    }
}

fn per_shard(old: &[Shard], new: &[Shard]) -> Vec<ShardDiff> {
    let ids = old.iter().chain(new).map(Shard::id);
    let ids: std::collections::BTreeSet<ShardId> = ids.collect();
    let diff = |shard| {
        let (before, after) = (
            crate::shard::find(old, shard),
            crate::shard::find(new, shard),
        );
        ShardDiff {
            shard,
            change: match (before.map(Shard::is_leaving), after.map(Shard::is_leaving)) {
                (_, None) => ShardChange::Gone,
                (None | Some(true), Some(false)) => ShardChange::Joins,
                (None | Some(false), Some(true)) => ShardChange::Leaving,
                (Some(_), Some(_)) => ShardChange::Stays,
            },
            weight_before: before.map(Shard::weight),
            weight_after: after.map(Shard::weight),
            before: 0,
            after: 0,
            gains: 0,
            loses: 0,
        }
    };
    ids.into_iter().map(diff).collect()
}
