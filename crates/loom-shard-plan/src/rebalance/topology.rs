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
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    weights: BTreeMap<ShardId, u32>,
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
            weights: members.map(|shard| (shard.id(), shard.weight())).collect(),
            pins: BTreeMap::new(),
        }
    }

    /// Members 0 to `shards − 1`, weight 1.
    #[must_use]
    pub fn equal(shards: u16) -> Self {
        Self {
            weights: (0..shards).map(|id| (ShardId(id), 1)).collect(),
            pins: BTreeMap::new(),
        }
    }

    /// A new member.
    ///
    /// # Errors
    ///
    /// [`PlanError::ShardExists`] if it is one.
    pub fn joining(mut self, shard: ShardId, weight: u32) -> Result<Self, PlanError> {
        match self.weights.insert(shard, weight) {
            None => Ok(self),
            Some(_) => Err(PlanError::ShardExists { shard }),
        }
    }

    /// A member less.
    ///
    /// # Errors
    ///
    /// [`PlanError::NoSuchShard`] if it is none.
    pub fn leaving(mut self, shard: ShardId) -> Result<Self, PlanError> {
        match self.weights.remove(&shard) {
            Some(_) => Ok(self),
            None => Err(PlanError::NoSuchShard { shard }),
        }
    }

    /// Another weight for a member.
    ///
    /// # Errors
    ///
    /// [`PlanError::NoSuchShard`] if it is none.
    pub fn weighing(mut self, shard: ShardId, weight: u32) -> Result<Self, PlanError> {
        match self.weights.get_mut(&shard) {
            Some(old) => {
                *old = weight;
                Ok(self)
            }
            None => Err(PlanError::NoSuchShard { shard }),
        }
    }

    /// Pins `bucket` to `shard`, instead of wherever it was pinned before.
    #[must_use]
    pub fn pinning(mut self, bucket: u32, shard: ShardId) -> Self {
        self.pins.insert(bucket, shard);
        self
    }

    /// Its members, ascending by id.
    pub fn members(&self) -> impl Iterator<Item = Shard> + '_ {
        self.weights
            .iter()
            .map(|(id, weight)| Shard::member(*id, *weight))
    }

    /// Its pins, ascending by bucket.
    pub fn pins(&self) -> impl Iterator<Item = (u32, ShardId)> + '_ {
        self.pins.iter().map(|(bucket, shard)| (*bucket, *shard))
    }

    pub(crate) fn pin(&self, bucket: u32) -> Option<ShardId> {
        self.pins.get(&bucket).copied()
    }

    pub(crate) fn pins_to(&self, shard: ShardId) -> u32 {
        super::count(self.pins.values().filter(|to| **to == shard).count())
    }

    /// Refuses a topology that no plan of `buckets` buckets can have.
    pub(crate) fn check(&self, buckets: u32) -> Result<(), PlanError> {
        let shards = super::count(self.weights.values().filter(|weight| **weight > 0).count());
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
            if !self.weights.contains_key(&shard) {
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
            .filter(|id| !self.weights.contains_key(id));
        let mut merged: Vec<Shard> = self.members().chain(gone.map(Shard::leaving)).collect();
        merged.sort_unstable_by_key(Shard::id);
        merged
    }
}
