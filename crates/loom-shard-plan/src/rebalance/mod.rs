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
    /// * Every shard gets its weighted share, rounded down or up: within one bucket, and exactly 0
    ///   for weight 0. A member with more pinned buckets than its share gets exactly those, and the
    ///   others share the rest.
    /// * The fewest buckets move that this allows, whichever shares are rounded up: no other
    ///   assignment that is fair in this sense, and heeds the pins, moves fewer. Shards that are
    ///   not in the topology give up all of theirs and are leaving until those have settled.
    /// * So a share is rounded up for the shards that would otherwise have to give a bucket up.
    ///   Where that leaves a choice, the largest remainder decides, then the lower id.
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
    /// assert_eq!(next.buckets_of(ShardId(7)).len(), 1638); // 2/5 of 4096, rounded for fewer moves
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
        let claims: Vec<Claim> = shards
            .iter()
            .zip(moves.holdings())
            .map(|(shard, held)| Claim {
                weight: u64::from(shard.weight()),
                held: held.total,
                pinned: held.pinned,
            })
            .collect();
        let table = moves.towards(&targets(self.bucket_count(), &claims));
        self.followed_by(shards, table)
    }
}

/// Shards fit a `u32` by far.
fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
