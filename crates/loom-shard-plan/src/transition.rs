//! Which plan may follow which.

use std::collections::BTreeMap;

use crate::placement::PackedPlacement as Slot;
use crate::{BucketSet, Placement, Refusal, ShardPlan, TransitionError};

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
            Err(TransitionError::new(refusals))
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
