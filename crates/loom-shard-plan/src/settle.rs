//! Ending a migration: on the destination, or by turning it around.

use crate::placement::PackedPlacement as Slot;
use crate::{BucketSet, PlanError, ShardPlan};

impl ShardPlan {
    /// The plan after one migrating bucket is drained: settled on its destination.
    ///
    /// Whether it *is* drained only the stores know; a plan cannot check it. A leaving shard goes
    /// with the last bucket that names it.
    ///
    /// # Errors
    ///
    /// [`PlanError::NoSuchBucket`], [`PlanError::NotMigrating`], [`PlanError::LastEpoch`].
    pub fn settled(&self, bucket: u32) -> Result<Self, PlanError> {
        self.settled_all([bucket])
    }

    /// [`settled`](Self::settled) for many buckets in one epoch. Order and repetition do not
    /// matter. With no bucket at all only the epoch advances.
    ///
    /// # Errors
    ///
    /// As [`settled`](Self::settled): all or nothing.
    pub fn settled_all(&self, buckets: impl IntoIterator<Item = u32>) -> Result<Self, PlanError> {
        self.with_migrating(buckets, |slot| Slot::settled(slot.to()))
    }

    /// Calls a migration off, at any point of it: `a -> b` becomes `b -> a`. What has started on
    /// `b` meanwhile is drained back; settle the bucket when that is done.
    ///
    /// A shard that was leaving and gets buckets back this way is still marked as leaving: the
    /// next rebalance says whether it is a member again.
    ///
    /// # Errors
    ///
    /// [`PlanError::NoSuchBucket`], [`PlanError::NotMigrating`], [`PlanError::LastEpoch`].
    pub fn reverted(&self, bucket: u32) -> Result<Self, PlanError> {
        self.reverted_all([bucket])
    }

    /// [`reverted`](Self::reverted) for many buckets in one epoch. Order and repetition do not
    /// matter: a bucket named twice is reverted once.
    ///
    /// # Errors
    ///
    /// As [`reverted`](Self::reverted): all or nothing.
    pub fn reverted_all(&self, buckets: impl IntoIterator<Item = u32>) -> Result<Self, PlanError> {
        self.with_migrating(buckets, |slot| Slot::migrating(slot.to(), slot.from()))
    }

    fn with_migrating(
        &self,
        buckets: impl IntoIterator<Item = u32>,
        change: impl Fn(Slot) -> Slot,
    ) -> Result<Self, PlanError> {
        let mut table = self.table.clone();
        let mut settled = Vec::new();
        for bucket in buckets {
            let at = bucket as usize;
            match (self.table.get(at), table.get_mut(at)) {
                (Some(old), Some(_)) if old.is_settled() => settled.push(bucket),
                (Some(old), Some(new)) => *new = change(*old),
                _ => {
                    return Err(PlanError::NoSuchBucket {
                        bucket,
                        buckets: self.bucket_count(),
                    });
                }
            }
        }
        if !settled.is_empty() {
            let buckets = settled.into_iter().collect::<BucketSet>();
            return Err(PlanError::NotMigrating { buckets });
        }
        self.followed_by(self.shards.to_vec(), table)
    }
}
