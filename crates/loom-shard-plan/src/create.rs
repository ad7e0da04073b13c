//! First plans, and the two operations that keep every route: `adopting` and `split`.

use crate::modulus::Modulus;
use crate::placement::PackedPlacement as Slot;
use crate::rebalance::quota::{Claim, targets};
use crate::shard::shared;
use crate::{DEFAULT_BUCKETS, HashFunction, MAX_BUCKETS, PlanError, ShardId, ShardPlan, Topology};

/// Most shards that [`ShardPlan::adopting`] takes over.
pub const MAX_ADOPTED: u16 = 4096;

impl ShardPlan {
    /// The first plan (epoch 1) of `shards` shards with ids from 0, equal weights and
    /// [`DEFAULT_BUCKETS`] buckets. Every shard gets one block, and the blocks differ by at most
    /// one bucket.
    ///
    /// # Errors
    ///
    /// [`PlanError::NoActiveShard`] for 0 shards, [`PlanError::MoreShardsThanBuckets`] for more
    /// than 4096.
    pub fn new(shards: u16) -> Result<Self, PlanError> {
        Self::with_buckets(shards, DEFAULT_BUCKETS)
    }

    /// [`new`](Self::new) with a bucket count of 1 to [`MAX_BUCKETS`].
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and [`PlanError::BucketCount`].
    pub fn with_buckets(shards: u16, buckets: u32) -> Result<Self, PlanError> {
        Self::first(&Topology::equal(shards), buckets, HashFunction::default())
    }

    /// The first plan (epoch 1) of any topology: ids and weights as it says, its pinned buckets
    /// where they are pinned, and everything else in blocks, in the order of the ids.
    ///
    /// # Errors
    ///
    /// [`PlanError::BucketCount`], [`PlanError::NoActiveShard`],
    /// [`PlanError::MoreShardsThanBuckets`]; [`PlanError::NoSuchBucket`] and
    /// [`PlanError::NoSuchShard`] for pins that name what is not there.
    pub fn first(topology: &Topology, buckets: u32, hash: HashFunction) -> Result<Self, PlanError> {
        check_bucket_count(u64::from(buckets))?;
        topology.check(buckets)?;
        let claims: Vec<Claim> = topology
            .members()
            .iter()
            .zip(topology.pin_counts())
            .map(|(shard, pinned)| Claim {
                weight: u64::from(shard.weight()),
                held: 0,
                pinned,
            })
            .collect();
        let mut blocks = topology
            .members()
            .iter()
            .zip(targets(buckets, &claims))
            .zip(&claims)
            .flat_map(|((shard, target), claim)| {
                std::iter::repeat_n(shard.id(), (target - claim.pinned) as usize)
            });
        let table = (0..buckets)
            .filter_map(|bucket| topology.pin(bucket).or_else(|| blocks.next()))
            .map(Slot::settled)
            .collect();
        Ok(Self {
            epoch: 1,
            hash,
            modulus: Modulus::new(buckets),
            shards: shared(topology.members().to_vec()),
            table,
        })
    }

    /// The first plan (epoch 1) that routes exactly as `hash % shards` does, to shard ids from 0:
    /// what takes over a deployment that started without a plan, with nothing moved.
    ///
    /// The bucket count is the largest `shards · 2^k` that is at most 4096.
    ///
    /// ```
    /// use loom_shard_plan::{Placement, ShardId, ShardPlan, route_hash};
    /// let plan = ShardPlan::adopting(5)?;
    /// let hash = route_hash("order-42");
    /// assert_eq!(u64::from(plan.route(hash).destination().get()), hash % 5);
    /// # Ok::<(), loom_shard_plan::PlanError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PlanError::AdoptedShards`] for 0 shards or more than [`MAX_ADOPTED`].
    pub fn adopting(shards: u16) -> Result<Self, PlanError> {
        if shards == 0 || shards > MAX_ADOPTED {
            return Err(PlanError::AdoptedShards { shards });
        }
        let mut buckets = u32::from(shards);
        while buckets * 2 <= u32::from(MAX_ADOPTED) {
            buckets *= 2;
        }
        let cycle = (0..shards).map(|id| Slot::settled(ShardId(id))).cycle();
        Ok(Self {
            epoch: 1,
            hash: HashFunction::default(),
            modulus: Modulus::new(buckets),
            shards: shared(Topology::equal(shards).members().to_vec()),
            table: cycle.take(buckets as usize).collect(),
        })
    }

    /// `factor` times as many buckets, every id where it was: bucket `b` of the new plan is part
    /// of bucket `b % bucket_count` of this one. Allowed while buckets migrate.
    ///
    /// ```
    /// use loom_shard_plan::{ShardPlan, route_hash};
    /// let plan = ShardPlan::new(3)?;
    /// let split = plan.split(4)?;
    /// assert_eq!(split.bucket_count(), 4 * plan.bucket_count());
    /// assert_eq!(split.route_id("order-42"), plan.route_id("order-42"));
    /// # Ok::<(), loom_shard_plan::PlanError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PlanError::SplitFactor`] for a factor below 2, [`PlanError::BucketCount`] if the result
    /// would have more than [`MAX_BUCKETS`], [`PlanError::LastEpoch`].
    pub fn split(&self, factor: u32) -> Result<Self, PlanError> {
        if factor < 2 {
            return Err(PlanError::SplitFactor { factor });
        }
        let buckets = u64::from(self.bucket_count()) * u64::from(factor);
        Ok(Self {
            epoch: self.next_epoch()?,
            hash: self.hash,
            modulus: Modulus::new(check_bucket_count(buckets)?),
            shards: self.shards.clone(),
            table: self.table.repeat(factor as usize).into_boxed_slice(),
        })
    }
}

/// `buckets` as the number it is, if a plan may have that many.
fn check_bucket_count(buckets: u64) -> Result<u32, PlanError> {
    u32::try_from(buckets)
        .ok()
        .filter(|count| (1..=MAX_BUCKETS).contains(count))
        .ok_or(PlanError::BucketCount { buckets })
}
