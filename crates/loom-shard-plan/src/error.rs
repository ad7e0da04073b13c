//! Why an operation on a plan is refused.

use thiserror::Error;

use crate::{BucketSet, HashFunction, MAX_ADOPTED, MAX_BUCKETS, MAX_EPOCH, ShardId};

/// An operation that a plan refuses. Nothing was changed: plans are immutable.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// No shard would take buckets.
    #[error("the plan would have no shard of weight above 0; keep or add at least one")]
    NoActiveShard,

    /// Some shard could never get a bucket.
    #[error(
        "{shards} shards cannot share {buckets} buckets: every shard needs at least one; use \
         fewer shards, or a plan of more buckets (`split`)"
    )]
    MoreShardsThanBuckets {
        /// Shards of weight above 0.
        shards: u32,
        /// Buckets of the plan.
        buckets: u32,
    },

    /// A bucket count outside 1 to [`MAX_BUCKETS`].
    #[error("a plan has 1 to {MAX_BUCKETS} buckets, not {buckets}")]
    BucketCount {
        /// What was asked for.
        buckets: u64,
    },

    /// [`adopting`](crate::ShardPlan::adopting) takes over 1 to [`MAX_ADOPTED`] shards.
    #[error("`hash % {shards}` cannot be adopted: a shard count from 1 to {MAX_ADOPTED} can")]
    AdoptedShards {
        /// What was asked for.
        shards: u16,
    },

    /// A split by 0 or 1 is none.
    #[error("a split multiplies the bucket count by 2 or more, not by {factor}")]
    SplitFactor {
        /// What was asked for.
        factor: u32,
    },

    /// A bucket that the plan does not have.
    #[error("there is no bucket {bucket}: the plan has buckets 0 to {}", buckets - 1)]
    NoSuchBucket {
        /// What was asked for.
        bucket: u32,
        /// Buckets of the plan.
        buckets: u32,
    },

    /// Only a migrating bucket can settle or be reverted.
    #[error(
        "not migrating: {buckets:#}; only a migrating bucket can settle or be reverted, so leave \
         out those that are settled"
    )]
    NotMigrating {
        /// Those that were asked for and are settled already.
        buckets: BucketSet,
    },

    /// A rebalance would leave executions of a migrating bucket on three shards.
    #[error(
        "still migrating: {buckets:#}, {} in all; settle them once they are drained, or revert and \
         settle them, then rebalance",
        buckets.len()
    )]
    StillMigrating {
        /// The migrating buckets.
        buckets: BucketSet,
    },

    /// Fewer shards than now, and nobody said that this is meant.
    #[error(
        "going from {from} shards to {to} takes capacity away and moves every bucket of the \
         shards that leave; allow the shrink if that is meant"
    )]
    ShrinkNotAllowed {
        /// Active shards now.
        from: u32,
        /// What was asked for.
        to: u16,
    },

    /// A count alone does not say what share a joining shard should have.
    #[error(
        "the shards have different weights, so a count alone does not say what the joining ones \
         weigh; give a topology that names them with their weights"
    )]
    UnequalWeights,

    /// A shard id that the plan, or the topology, does not have.
    #[error("shard {shard} is no member; name a member, or let it join first")]
    NoSuchShard {
        /// The id.
        shard: ShardId,
    },

    /// A shard that joins must not be a member already.
    #[error("shard {shard} is a member already; change its weight instead, or take another id")]
    ShardExists {
        /// The id.
        shard: ShardId,
    },

    /// All 65,536 shard ids are taken.
    #[error("there is no shard id left")]
    NoShardIdLeft,

    /// Plans of different hash functions, or with unrelated bucket counts, share no bucket.
    #[error(
        "the plans cannot be compared bucket by bucket: {old_buckets} buckets of {old_hash} \
         against {new_buckets} of {new_hash}; expected the same hash, and bucket counts of which \
         one is a multiple of the other"
    )]
    Incomparable {
        /// Hash function of the older plan.
        old_hash: HashFunction,
        /// Bucket count of the older plan.
        old_buckets: u32,
        /// Hash function of the newer plan.
        new_hash: HashFunction,
        /// Bucket count of the newer plan.
        new_buckets: u32,
    },

    /// The epoch is [`MAX_EPOCH`] and has no successor.
    #[error("epoch {MAX_EPOCH} is the last; no plan can follow it")]
    LastEpoch,
}
