//! What a rebalance aims at: members, their weights, pinned buckets.

use std::collections::BTreeMap;

use crate::{PlanError, Shard, ShardId, ShardPlan};

/// The shards that a plan should have, and what share each should hold.
///
/// Start from a plan's present one with [`of`](Self::of), or from nothing with
/// [`new`](Self::new), then change it step by step.
///
/// **Weights** are relative: 1 and 1 means the same as 7 and 7. A member of weight 0 gives up its
/// buckets and stays a member; a shard that is not a member gives up its buckets and leaves.
///
/// **Pins** hold a bucket on a shard, or move it there, whatever the shard's share; its other
/// buckets make up for it as far as they can. A member of weight 0 holds exactly its pinned
/// buckets, which is how a shard is set aside for them. Pins are not part of a plan: give them
/// with every rebalance that should heed them.
///
/// ```
/// use loom_shard_plan::{ShardId, ShardPlan, Topology};
/// let plan = ShardPlan::new(2)?;
/// // A shard of its own for one bucket, because of one noisy tenant.
/// let bucket = plan.bucket_of_id("tenant-7");
/// let topology = Topology::of(&plan).joining(ShardId(2), 0)?.pinning(bucket, ShardId(2));
/// let next = plan.rebalance(&topology)?;
/// assert_eq!(next.route_id("tenant-7").destination(), ShardId(2));
/// assert_eq!(next.buckets_of(ShardId(2)).len(), 1);
/// # Ok::<(), loom_shard_plan::PlanError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// Ascending by id; none is leaving.
    members: Vec<Shard>,
    pins: BTreeMap<u32, ShardId>,
}

impl Topology {
    /// No members, no pins.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The members of `plan` with their weights. Shards that are leaving are none; no pins.
    #[must_use]
    pub fn of(plan: &ShardPlan) -> Self {
        let members = plan.shards().iter().filter(|shard| !shard.is_leaving());
        Self {
            members: members.copied().collect(),
            pins: BTreeMap::new(),
        }
    }

    /// Members 0 to `shards − 1`, weight 1.
    #[must_use]
    pub fn equal(shards: u16) -> Self {
        let members = (0..shards).map(|id| Shard::member(ShardId(id), 1));
        Self {
            members: members.collect(),
            pins: BTreeMap::new(),
        }
    }

    /// A new member.
    ///
    /// # Errors
    ///
    /// [`PlanError::ShardExists`] if it is one.
    pub fn joining(mut self, shard: ShardId, weight: u32) -> Result<Self, PlanError> {
        match self.find(shard) {
            Ok(_) => Err(PlanError::ShardExists { shard }),
            Err(at) => {
                self.members.insert(at, Shard::member(shard, weight));
                Ok(self)
            }
        }
    }

    /// A member less.
    ///
    /// # Errors
    ///
    /// [`PlanError::NoSuchShard`] if it is none.
    pub fn leaving(mut self, shard: ShardId) -> Result<Self, PlanError> {
        let at = self
            .find(shard)
            .map_err(|_| PlanError::NoSuchShard { shard })?;
        self.members.remove(at);
        Ok(self)
    }

    /// Another weight for a member.
    ///
    /// # Errors
    ///
    /// [`PlanError::NoSuchShard`] if it is none.
    pub fn weighing(mut self, shard: ShardId, weight: u32) -> Result<Self, PlanError> {
        let at = self
            .find(shard)
            .map_err(|_| PlanError::NoSuchShard { shard })?;
        self.members[at] = Shard::member(shard, weight);
        Ok(self)
    }

    /// Pins `bucket` to `shard`, instead of wherever it was pinned before.
    #[must_use]
    pub fn pinning(mut self, bucket: u32, shard: ShardId) -> Self {
        self.pins.insert(bucket, shard);
        self
    }

    /// Its members, ascending by id.
    #[must_use]
    pub fn members(&self) -> &[Shard] {
        &self.members
    }

    /// Its pins, ascending by bucket.
    pub fn pins(&self) -> impl Iterator<Item = (u32, ShardId)> + '_ {
        self.pins.iter().map(|(bucket, shard)| (*bucket, *shard))
    }

    pub(crate) fn pin(&self, bucket: u32) -> Option<ShardId> {
        self.pins.get(&bucket).copied()
    }

    /// How many buckets are pinned to each member. Pins to others do not count.
    pub(crate) fn pin_counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.members.len()];
        for shard in self.pins.values() {
            if let Ok(at) = self.find(*shard) {
                counts[at] += 1;
            }
        }
        counts
    }

    fn find(&self, shard: ShardId) -> Result<usize, usize> {
        self.members.binary_search_by_key(&shard, Shard::id)
    }

    /// Refuses a topology that no plan of `buckets` buckets can have.
    pub(crate) fn check(&self, buckets: u32) -> Result<(), PlanError> {
        let shards = super::count(
            self.members
                .iter()
                .filter(|shard| shard.is_active())
                .count(),
        );
        if shards == 0 {
            return Err(PlanError::NoActiveShard);
        }
        if shards > buckets {
            return Err(PlanError::MoreShardsThanBuckets { shards, buckets });
        }
        for (bucket, shard) in self.pins() {
            if bucket >= buckets {
                return Err(PlanError::NoSuchBucket { bucket, buckets });
            }
            if self.find(shard).is_err() {
                return Err(PlanError::NoSuchShard { shard });
            }
        }
        Ok(())
    }

    /// Its members, and as leaving those of `shards` that are none.
    pub(crate) fn merged_with(&self, shards: &[Shard]) -> Vec<Shard> {
        let gone = shards
            .iter()
            .map(Shard::id)
            .filter(|id| self.find(*id).is_err());
        let mut merged = self.members.clone();
        merged.extend(gone.map(Shard::leaving));
        merged.sort_unstable_by_key(Shard::id);
        merged
    }
}
