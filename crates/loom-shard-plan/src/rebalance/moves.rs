//! Which buckets move, and where to.

use crate::placement::Slot;
use crate::{Shard, ShardId};

/// What a shard has, once pinned buckets are where they belong.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Holding {
    pub(super) total: u32,
    pub(super) pinned: u32,
}

/// A settled table on its way to new targets. Shards are numbered by their place in the list.
pub(super) struct Moves<'a> {
    shards: &'a [Shard],
    old: &'a [Slot],
    /// Where each bucket is to be.
    owner: Vec<u16>,
    pinned: Vec<bool>,
    holdings: Vec<Holding>,
}

impl<'a> Moves<'a> {
    pub(super) fn new(shards: &'a [Shard], old: &'a [Slot]) -> Self {
        let mut place = vec![
            0_u16;
            shards
                .last()
                .map_or(0, |shard| usize::from(shard.id().0) + 1)
        ];
        for (at, shard) in (0..).zip(shards) {
            place[usize::from(shard.id().0)] = at;
        }
        let owner: Vec<u16> = old
            .iter()
            .map(|slot| place[usize::from(slot.to().0)])
            .collect();
        let mut holdings = vec![Holding::default(); shards.len()];
        for at in &owner {
            holdings[usize::from(*at)].total += 1;
        }
        Self {
            shards,
            old,
            owner,
            pinned: Vec::new(),
            holdings,
        }
    }

    pub(super) fn holdings(&self) -> &[Holding] {
        &self.holdings
    }

    /// Puts a bucket where it is pinned; it will not move again.
    pub(super) fn pin(&mut self, bucket: u32, shard: ShardId) {
        let bucket = bucket as usize;
        let Ok(to) = self.shards.binary_search_by_key(&shard, Shard::id) else {
            return;
        };
        if self.pinned.is_empty() {
            self.pinned = vec![false; self.old.len()];
        }
        self.pinned[bucket] = true;
        self.holdings[usize::from(self.owner[bucket])].total -= 1;
        self.holdings[to].total += 1;
        self.holdings[to].pinned += 1;
        self.owner[bucket] = u16::try_from(to).unwrap_or(u16::MAX);
    }

    /// The table in which every shard has its target: what is above it moves to what is below it,
    /// and nothing else.
    ///
    /// Shards give their highest buckets, and receivers take them in order, so that what moves
    /// from one shard to another is few ranges.
    pub(super) fn towards(mut self, targets: &[u32]) -> Box<[Slot]> {
        let totals = self.holdings.iter().map(|holding| holding.total);
        let mut give: Vec<u32> = totals
            .clone()
            .zip(targets)
            .map(|(total, target)| total.saturating_sub(*target))
            .collect();
        let mut moving = Vec::new();
        for bucket in (0..self.owner.len()).rev() {
            let left = &mut give[usize::from(self.owner[bucket])];
            if *left > 0 && !self.pinned.get(bucket).is_some_and(|pinned| *pinned) {
                *left -= 1;
                moving.push(bucket);
            }
        }
        let receivers = (0_u16..)
            .zip(totals.zip(targets))
            .flat_map(|(at, (total, target))| {
                std::iter::repeat_n(at, target.saturating_sub(total) as usize)
            });
        for (bucket, to) in moving.into_iter().rev().zip(receivers) {
            self.owner[bucket] = to;
        }
        let owners = self
            .owner
            .iter()
            .map(|at| self.shards[usize::from(*at)].id());
        self.old
            .iter()
            .zip(owners)
            .map(|(slot, to)| Slot::migrating(slot.to(), to))
            .collect()
    }
}
