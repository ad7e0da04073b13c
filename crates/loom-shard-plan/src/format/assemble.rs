//! Puts a plan together from untrusted pieces, in the order in which the formats have them.

use super::InvalidPlan;
use crate::modulus::Modulus;
use crate::placement::PackedPlacement as Slot;
use crate::plan::Named;
use crate::segments::MAX_CYCLE;
use crate::{HashFunction, MAX_BUCKETS, MAX_EPOCH, Placement, Shard, ShardId, ShardPlan};

/// Every check that makes a plan valid, each as early as it can be made.
///
/// Never holds more than the table (4 bytes a bucket, 256 KiB at most) and the shards (8 bytes
/// each, 512 KiB at most), whatever the input claims.
#[derive(Debug)]
pub(super) struct Assembler {
    epoch: u64,
    hash: HashFunction,
    buckets: u32,
    shards: Vec<Shard>,
    /// As long as it will be, from the first segment on.
    table: Box<[Slot]>,
    /// How many buckets of it have their placement.
    filled: usize,
    pattern: Vec<Slot>,
}

impl Assembler {
    pub(super) fn new(epoch: u64, hash: HashFunction, buckets: u64) -> Result<Self, InvalidPlan> {
        Ok(Self {
            epoch: check_epoch(epoch)?,
            hash,
            buckets: check_bucket_count(buckets)?,
            shards: Vec::new(),
            table: Box::default(),
            filled: 0,
            pattern: Vec::new(),
        })
    }

    pub(super) fn shard(
        &mut self,
        shard: ShardId,
        weight: u32,
        leaving: bool,
    ) -> Result<(), InvalidPlan> {
        if let Some(previous) = self.shards.last().map(Shard::id).filter(|id| *id >= shard) {
            return Err(InvalidPlan::ShardOrder { shard, previous });
        }
        if leaving && weight > 0 {
            return Err(InvalidPlan::LeavingWeight(shard));
        }
        self.shards.push(if leaving {
            Shard::leaving(shard)
        } else {
            Shard::member(shard, weight)
        });
        Ok(())
    }

    /// The shard that was given last.
    pub(super) fn last_shard(&self) -> Option<Shard> {
        self.shards.last().copied()
    }

    /// All shards have been given.
    pub(super) fn end_of_shards(&mut self) -> Result<(), InvalidPlan> {
        let active = self.shards.iter().filter(|shard| shard.is_active()).count();
        let shards = u32::try_from(active).unwrap_or(u32::MAX);
        if shards == 0 {
            return Err(InvalidPlan::NoActiveShard);
        }
        if shards > self.buckets {
            return Err(InvalidPlan::MoreShardsThanBuckets {
                shards,
                buckets: self.buckets,
            });
        }
        Ok(())
    }

    /// The first bucket without a placement, if there is one.
    pub(super) fn next_bucket(&self) -> Option<u32> {
        u32::try_from(self.filled)
            .ok()
            .filter(|next| *next < self.buckets)
    }

    /// What a valid line, object or segment of a single run comes to, at once: true if it was one.
    /// Otherwise nothing has changed, and the long way says what is wrong.
    #[inline]
    pub(super) fn run(&mut self, first: u32, last: u32, from: ShardId, to: ShardId) -> bool {
        let is_next = first as usize == self.filled && first <= last && last < self.buckets;
        if !is_next
            || self.table.is_empty()
            || self.known(to).is_err()
            || (from != to && self.known(from).is_err())
        {
            return false;
        }
        let (first, end) = (first as usize, last as usize + 1);
        fill(&mut self.table, first, end, Slot::migrating(from, to));
        self.filled = end;
        true
    }

    /// One more placement of the pattern that the next [`segment`](Self::segment) repeats.
    pub(super) fn placement(&mut self, placement: Placement) -> Result<Slot, InvalidPlan> {
        let slot = match placement {
            Placement::Settled(shard) => Slot::settled(self.known(shard)?),
            Placement::Migrating { from, to } if from == to => {
                return Err(InvalidPlan::SameSides(from));
            }
            Placement::Migrating { from, to } => {
                Slot::migrating(self.known(from)?, self.known(to)?)
            }
        };
        // One more than the longest is enough for `segment` to refuse it.
        if self.pattern.len() <= MAX_CYCLE {
            self.pattern.push(slot);
        }
        Ok(slot)
    }

    #[inline]
    fn known(&self, shard: ShardId) -> Result<ShardId, InvalidPlan> {
        match crate::shard::find(&self.shards, shard) {
            Some(_) => Ok(shard),
            None => Err(InvalidPlan::UnknownShard(shard)),
        }
    }

    /// The pattern is for these buckets, both included.
    pub(super) fn segment(&mut self, first: u32, last: u32) -> Result<(), InvalidPlan> {
        let expected = u32::try_from(self.filled).unwrap_or(u32::MAX);
        if first != expected {
            return Err(InvalidPlan::NotContiguous {
                expected,
                found: first,
            });
        }
        if last < first {
            return Err(InvalidPlan::Backwards { first, last });
        }
        if last >= self.buckets {
            return Err(InvalidPlan::BeyondLast {
                last: u64::from(last),
                buckets: self.buckets,
            });
        }
        let buckets = last - first + 1;
        let placements = self.pattern.len();
        if placements > MAX_CYCLE || placements > buckets as usize {
            return Err(InvalidPlan::CycleLength {
                placements,
                buckets,
            });
        }
        if placements == 0 {
            return Err(InvalidPlan::CycleLength {
                placements,
                buckets,
            });
        }
        if self.table.is_empty() {
            let any = Slot::settled(ShardId(0));
            self.table = vec![any; self.buckets as usize].into_boxed_slice();
        }
        let (first, end) = (first as usize, last as usize + 1);
        if let [slot] = *self.pattern {
            fill(&mut self.table, first, end, slot);
        } else {
            let range = self.table.get_mut(first..end).unwrap_or_default();
            for (to, slot) in range.iter_mut().zip(self.pattern.iter().cycle()) {
                *to = *slot;
            }
        }
        self.filled = end;
        self.pattern.clear();
        Ok(())
    }

    /// The placements that have been given.
    pub(super) fn table(&self) -> &[Slot] {
        self.table.get(..self.filled).unwrap_or_default()
    }

    pub(super) fn finish(self) -> Result<ShardPlan, InvalidPlan> {
        if let Some(next) = self.next_bucket() {
            return Err(InvalidPlan::Incomplete {
                next,
                buckets: self.buckets,
            });
        }
        if self.shards.iter().any(Shard::is_leaving) {
            let named = Named::new(&self.table);
            let mut leaving = self
                .shards
                .iter()
                .filter(|shard| shard.is_leaving())
                .map(Shard::id);
            if let Some(unnamed) = leaving.find(|id| !named.has(*id)) {
                return Err(InvalidPlan::LeavingUnnamed(unnamed));
            }
        }
        Ok(ShardPlan {
            epoch: self.epoch,
            hash: self.hash,
            modulus: Modulus::new(self.buckets),
            shards: crate::shard::shared(self.shards),
            table: self.table,
        })
    }
}

/// Fills `first..end`, and perhaps some of what comes behind and has no placement yet: short runs are of
/// every length, and a loop that ends where they do is slower than to write a few too many.
fn fill(table: &mut [Slot], first: usize, end: usize, slot: Slot) {
    const SHORT: usize = 8;
    match table.get_mut(first..first + SHORT) {
        Some(range) if end - first <= SHORT => range.fill(slot),
        _ => table.get_mut(first..end).unwrap_or_default().fill(slot),
    }
}

pub(super) fn check_epoch(epoch: u64) -> Result<u64, InvalidPlan> {
    if (1..=MAX_EPOCH).contains(&epoch) {
        Ok(epoch)
    } else {
        Err(InvalidPlan::Epoch(epoch))
    }
}

pub(super) fn check_bucket_count(buckets: u64) -> Result<u32, InvalidPlan> {
    u32::try_from(buckets)
        .ok()
        .filter(|count| (1..=MAX_BUCKETS).contains(count))
        .ok_or(InvalidPlan::BucketCount(buckets))
}
