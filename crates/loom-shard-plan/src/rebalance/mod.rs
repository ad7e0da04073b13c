//! From one topology to another with the fewest moves.

mod bits;
mod moves;
pub(crate) mod quota;
mod runs;
mod topology;

pub use topology::Topology;

use crate::{PlanError, Shard, ShardId, ShardPlan};
use moves::Moves;
use quota::{Claim, targets};

/// What [`ShardPlan::rebalanced`] may do. The default grows only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RebalanceOptions {
    /// Whether there may be fewer shards than before.
    pub allow_shrink: bool,
}

impl RebalanceOptions {
    /// Allows a smaller number of shards, or forbids it again.
    #[must_use]
    pub const fn allow_shrink(mut self, allow: bool) -> Self {
        self.allow_shrink = allow;
        self
    }
}

impl ShardPlan {
    /// The plan for `shards` active shards, with the fewest buckets moved: each moved bucket is
    /// migrating, every other one is where it was.
    ///
    /// Growing takes back shards that are leaving, by id, and then adds ids after the highest;
    /// joining shards get the weight that all others have. Shrinking lets the highest ids leave.
    /// Members of weight 0 do not count and are left alone. For any other change see
    /// [`rebalance`](Self::rebalance), which this is a short form of.
    ///
    /// ```
    /// use loom_shard_plan::{RebalanceOptions, ShardPlan};
    /// let plan = ShardPlan::new(8)?;
    /// let grown = plan.rebalanced(9, RebalanceOptions::default())?;
    /// assert_eq!(grown.migrating().count(), 455); // 11.1 % of 4096; `hash % n` would move 89 %
    /// # Ok::<(), loom_shard_plan::PlanError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PlanError::StillMigrating`] with the buckets; [`PlanError::ShrinkNotAllowed`];
    /// [`PlanError::NoActiveShard`] for 0 shards; [`PlanError::MoreShardsThanBuckets`];
    /// [`PlanError::UnequalWeights`] if shards would join and the active ones differ in weight;
    /// [`PlanError::NoShardIdLeft`]; [`PlanError::LastEpoch`].
    pub fn rebalanced(&self, shards: u16, options: RebalanceOptions) -> Result<Self, PlanError> {
        let active: Vec<&Shard> = self.active().collect();
        let wanted = usize::from(shards);
        if wanted < active.len() && !options.allow_shrink {
            let from = count(active.len());
            return Err(PlanError::ShrinkNotAllowed { from, to: shards });
        }
        let mut topology = Topology::of(self);
        for shard in active.iter().skip(wanted) {
            topology = topology.leaving(shard.id())?;
        }
        if wanted > active.len() {
            let weight = active.first().map_or(1, |shard| shard.weight());
            if active.iter().any(|shard| shard.weight() != weight) {
                return Err(PlanError::UnequalWeights);
            }
            let returning = self
                .shards
                .iter()
                .filter(|shard| shard.is_leaving())
                .map(Shard::id);
            let highest = self.shards.last().map_or(0, |shard| shard.id().0);
            let fresh = (highest.saturating_add(1)..=u16::MAX)
                .chain(0..highest)
                .map(ShardId);
            let unused = fresh.filter(|id| self.shard(*id).is_none());
            let mut ids = returning.chain(unused);
            for _ in active.len()..wanted {
                topology = topology.joining(ids.next().ok_or(PlanError::NoShardIdLeft)?, weight)?;
            }
        }
        self.rebalance(&topology)
    }

    /// The plan for a topology: its shards, their weights, its pins.
    ///
    /// * Every shard gets its weighted share, within one bucket, by largest remainder; ties go to
    ///   the shards that hold more, then to the lower id. A shard whose part of the weights is no
    ///   smaller than before gives up no bucket for the sake of a fraction, as long as everyone
    ///   stays within one bucket: when a shard is drained, no other gives anything up.
    /// * The fewest buckets move that this allows. Shards that are not in the topology give up all
    ///   of theirs and are leaving until those have settled.
    /// * The same plan and topology give the same bytes on every machine.
    /// * If nothing has to move nothing does. The epoch advances all the same, as in every derived
    ///   plan; [`PlanDiff::is_no_change`](crate::PlanDiff::is_no_change) says that it was in vain.
    ///
    /// ```
    /// use loom_shard_plan::{HashFunction, ShardId, ShardPlan, Topology};
    /// let plan = ShardPlan::new(4)?;
    /// // Shard 1 goes; shard 7 comes and is twice as large as the others.
    /// let topology = Topology::of(&plan).leaving(ShardId(1))?.joining(ShardId(7), 2)?;
    /// let next = plan.rebalance(&topology)?;
    /// assert_eq!(next.buckets_of(ShardId(1)).len(), 0);
    /// assert_eq!(next.buckets_of(ShardId(7)).len(), 1639); // 2/5 of 4096
    /// # Ok::<(), loom_shard_plan::PlanError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PlanError::StillMigrating`] with the buckets; [`PlanError::NoActiveShard`];
    /// [`PlanError::MoreShardsThanBuckets`]; [`PlanError::NoSuchBucket`] and
    /// [`PlanError::NoSuchShard`] for pins that name what is not there; [`PlanError::LastEpoch`].
    pub fn rebalance(&self, topology: &Topology) -> Result<Self, PlanError> {
        if self.is_migrating() {
            return Err(PlanError::StillMigrating {
                buckets: self.migrating_buckets(),
            });
        }
        topology.check(self.bucket_count())?;

        let shards = topology.merged_with(&self.shards);
        let moves = Moves::new(&shards, &self.table, topology.pins());
        let (before, after) = (total_weight(&self.shards), total_weight(&shards));
        let claims: Vec<Claim> = shards
            .iter()
            .zip(moves.holdings())
            .map(|(shard, held)| {
                let old_weight = self.shard(shard.id()).map_or(0, Shard::weight);
                Claim {
                    weight: u64::from(shard.weight()),
                    held: held.total,
                    pinned: held.pinned,
                    undiminished: u128::from(shard.weight()) * before
                        >= u128::from(old_weight) * after,
                }
            })
            .collect();
        let table = moves.towards(&targets(self.bucket_count(), &claims));
        self.followed_by(shards, table)
    }
}

fn total_weight(shards: &[Shard]) -> u128 {
    shards.iter().map(|shard| u128::from(shard.weight())).sum()
}

/// Shards fit a `u32` by far.
fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
