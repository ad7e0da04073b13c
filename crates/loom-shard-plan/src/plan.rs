//! The plan: what it holds and how it routes.

use crate::modulus::Modulus;
use crate::placement::PackedPlacement as Slot;
use crate::shard::{self, Shards};
use crate::{BucketSet, HashFunction, Placement, PlanError, Shard, ShardId};

/// Buckets of a plan that does not say otherwise.
pub const DEFAULT_BUCKETS: u32 = 4096;

/// Most buckets of a plan.
///
/// Enough for 1,000 shards within 1.5 % of fair; and small enough that the table (256 KiB) stays
/// in a core's cache, and that a few bytes of hostile input cannot ask for more memory than that.
pub const MAX_BUCKETS: u32 = 65_536;

/// The last epoch: 2^53 − 1, which JSON's numbers and SQL's signed 64 bits hold exactly.
pub const MAX_EPOCH: u64 = (1 << 53) - 1;

/// Which shard every bucket is on: an immutable value with an epoch.
///
/// Every operation that changes something gives a new plan with the next epoch, and leaves this
/// one as it is. Two plans are equal exactly if their bytes are, in any of the three formats.
///
/// ```
/// use loom_shard_plan::{Placement, RebalanceOptions, ShardPlan, route_hash};
///
/// let plan = ShardPlan::new(4)?;
/// let hash = route_hash("order-42");
/// assert!(matches!(plan.route(hash), Placement::Settled(_)));
///
/// let grown = plan.rebalanced(5, RebalanceOptions::default())?;
/// assert_eq!(grown.epoch(), plan.epoch() + 1);
/// assert_eq!(grown.migrating().count(), 819); // 20.0 % of 4096
/// # Ok::<(), loom_shard_plan::PlanError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ShardPlan {
    pub(crate) epoch: u64,
    pub(crate) hash: HashFunction,
    /// Divides by `table.len()`.
    pub(crate) modulus: Modulus,
    /// Ascending by id. Every shard that `table` names is here, and so is at least one active one.
    pub(crate) shards: Shards,
    pub(crate) table: Box<[Slot]>,
}

/// One migrating bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Migration {
    /// The bucket.
    pub bucket: u32,
    /// The side that is being drained.
    pub from: ShardId,
    /// The side that takes what is new.
    pub to: ShardId,
}

impl ShardPlan {
    /// Where executions of this hash live. Allocates nothing, cannot fail.
    #[inline]
    #[must_use]
    pub fn route(&self, hash: u64) -> Placement {
        self.table[self.bucket(hash) as usize].get()
    }

    /// The bucket of a hash: `hash % bucket_count`.
    #[inline]
    #[must_use]
    pub fn bucket(&self, hash: u64) -> u32 {
        self.modulus.reduce(hash)
    }

    /// [`route`](Self::route) of an id, hashed with this plan's hash function.
    #[inline]
    #[must_use]
    pub fn route_id(&self, id: impl AsRef<[u8]>) -> Placement {
        self.route(self.hash.hash(id))
    }

    /// [`bucket`](Self::bucket) of an id, hashed with this plan's hash function.
    #[inline]
    #[must_use]
    pub fn bucket_of_id(&self, id: impl AsRef<[u8]>) -> u32 {
        self.bucket(self.hash.hash(id))
    }

    /// Which plan of its history this is: the first has epoch 1, every derived one the next.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The function whose values [`route`](Self::route) takes.
    #[must_use]
    pub const fn hash(&self) -> HashFunction {
        self.hash
    }

    /// How many buckets there are: 1 to [`MAX_BUCKETS`].
    #[must_use]
    pub const fn bucket_count(&self) -> u32 {
        self.modulus.divisor()
    }

    /// Its shards, ascending by id: members, and those that are leaving.
    #[must_use]
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// What the plan says about shard `id`, if it has it.
    #[must_use]
    pub fn shard(&self, id: ShardId) -> Option<&Shard> {
        shard::find(&self.shards, id)
    }

    /// Where `bucket` is; `None` if there is no such bucket.
    #[must_use]
    pub fn placement(&self, bucket: u32) -> Option<Placement> {
        self.table.get(bucket as usize).map(|slot| slot.get())
    }

    /// The placements of all buckets, from bucket 0.
    #[must_use]
    pub fn placements(&self) -> impl ExactSizeIterator<Item = Placement> + '_ {
        self.table.iter().map(|slot| slot.get())
    }

    /// The migrating buckets, ascending.
    pub fn migrating(&self) -> impl Iterator<Item = Migration> + '_ {
        (0..)
            .zip(&self.table)
            .filter(|(_, slot)| !slot.is_settled())
            .map(|(bucket, slot)| Migration {
                bucket,
                from: slot.from(),
                to: slot.to(),
            })
    }

    /// The migrating buckets as a set.
    #[must_use]
    pub fn migrating_buckets(&self) -> BucketSet {
        self.select(|slot| !slot.is_settled())
    }

    /// Whether any bucket is migrating. Looks at every bucket.
    #[must_use]
    pub fn is_migrating(&self) -> bool {
        // Without a way out in the middle the compiler makes vector code of it.
        self.table
            .iter()
            .fold(false, |found, slot| found | !slot.is_settled())
    }

    /// The buckets that `shard` takes new executions of: settled there, or migrating to it.
    #[must_use]
    pub fn buckets_of(&self, shard: ShardId) -> BucketSet {
        self.select(|slot| slot.to() == shard)
    }

    pub(crate) fn select(&self, wanted: impl Fn(Slot) -> bool) -> BucketSet {
        let mut set = BucketSet::default();
        for (bucket, slot) in (0..).zip(&self.table) {
            if wanted(*slot) {
                set.push(bucket);
            }
        }
        set
    }

    pub(crate) fn active(&self) -> impl Iterator<Item = &Shard> {
        self.shards.iter().filter(|shard| shard.is_active())
    }

    pub(crate) const fn next_epoch(&self) -> Result<u64, PlanError> {
        if self.epoch >= MAX_EPOCH {
            Err(PlanError::LastEpoch)
        } else {
            Ok(self.epoch + 1)
        }
    }

    /// The same history one epoch on, with another table. Drops leaving shards that it no longer
    /// names.
    pub(crate) fn followed_by(
        &self,
        mut shards: Vec<Shard>,
        table: Box<[Slot]>,
    ) -> Result<Self, PlanError> {
        if shards.iter().any(Shard::is_leaving) {
            let named = Named::new(&table);
            shards.retain(|shard| !shard.is_leaving() || named.has(shard.id()));
        }
        Ok(Self {
            epoch: self.next_epoch()?,
            hash: self.hash,
            modulus: self.modulus,
            shards: shard::shared(shards),
            table,
        })
    }
}

/// As the text format, which is what a failed assertion should show.
impl std::fmt::Debug for ShardPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ShardPlan({self})")
    }
}

/// The shards that a table names.
pub(crate) struct Named([u64; 1024]);

impl Named {
    pub(crate) fn new(slots: &[Slot]) -> Self {
        let mut named = Self([0; 1024]);
        let mut previous = None;
        for slot in slots {
            if previous != Some(slot) {
                named.add(slot.from());
                named.add(slot.to());
                previous = Some(slot);
            }
        }
        named
    }

    fn add(&mut self, shard: ShardId) {
        self.0[usize::from(shard.0 >> 6)] |= 1 << (shard.0 & 63);
    }

    pub(crate) fn has(&self, shard: ShardId) -> bool {
        self.0[usize::from(shard.0 >> 6)] & 1 << (shard.0 & 63) != 0
    }
}
