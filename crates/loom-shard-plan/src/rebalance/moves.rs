//! Which buckets move, and where to.
//!
//! How many each shard gives and gets is settled before. Which ones is free, and is chosen so that
//! the plan stays few runs: small runs go as a whole, what is left of an excess is cut from the end
//! of a run, next to something that moves too, and a receiver's own runs are made longer first.
//! Everything here goes by run, not by bucket: there are few.

use super::bits::Bits;
use super::runs::{GiverRun, GiverRuns, Holding, Run};
use crate::placement::PackedPlacement as Slot;
use crate::{Shard, ShardId};

/// A settled table on its way to new targets. Shards go by their place in the list of shards.
pub(super) struct Moves<'a> {
    shards: &'a [Shard],
    /// The place of each id in `shards`.
    places: Vec<u16>,
    table: Box<[Slot]>,
    runs: Vec<Run>,
    holdings: Vec<Holding>,
}

impl<'a> Moves<'a> {
    /// `old` must be settled and name only `shards`, and so must `pins`.
    pub(super) fn new(
        shards: &'a [Shard],
        old: &[Slot],
        pins: impl Iterator<Item = (u32, ShardId)>,
    ) -> Self {
        let mut places = vec![
            0;
            shards
                .last()
                .map_or(0, |shard| usize::from(shard.id().0) + 1)
        ];
        for (place, shard) in (0..=u16::MAX).zip(shards) {
            places[usize::from(shard.id().0)] = place;
        }
        let mut table: Box<[Slot]> = old.into();
        let mut pinned: Option<Bits> = None;
        for (bucket, shard) in pins {
            pinned
                .get_or_insert_with(|| Bits::new(old.len()))
                .set(bucket, 1);
            let slot = &mut table[bucket as usize];
            *slot = Slot::migrating(slot.from(), shard);
        }
        let place = |slot: Slot| places[usize::from(slot.to().0)];
        let (runs, holdings) = Run::all(&table, pinned.as_ref(), shards.len(), place);
        Self {
            shards,
            places,
            table,
            runs,
            holdings,
        }
    }

    pub(super) fn holdings(&self) -> &[Holding] {
        &self.holdings
    }

    /// The table in which every shard has its target: what is above it moves to what is below it,
    /// and nothing else.
    pub(super) fn towards(self, targets: &[u32]) -> Box<[Slot]> {
        let totals = || {
            self.holdings
                .iter()
                .map(|holding| holding.total)
                .zip(targets)
        };
        let excess: Vec<u32> = totals()
            .map(|(total, target)| total.saturating_sub(*target))
            .collect();
        let need: Vec<u32> = totals()
            .map(|(total, target)| target.saturating_sub(total))
            .collect();
        if excess.iter().all(|excess| *excess == 0) {
            return self.table;
        }
        let loose = self.release(&excess, &need);
        self.hand_over(&loose, need)
    }

    /// As many buckets of each shard as it has too many.
    fn release(&self, excess: &[u32], need: &[u32]) -> Bits {
        let mut loose = Bits::new(self.table.len());
        let mut givers = GiverRuns::new(&self.runs, &self.holdings, excess);
        let mut cuts = Vec::new();
        for (giver, excess) in excess.iter().enumerate().filter(|(_, excess)| **excess > 0) {
            let (kept, left) = release_whole(givers.of(giver), *excess, &mut loose);
            if let Some(first) = givers.of(giver)[kept..]
                .iter()
                .map(|run| run.first())
                .min()
                .filter(|_| left > 0)
            {
                cuts.push((first, giver, kept, left));
            }
        }
        // From the left, so that each cut can see the one before it.
        cuts.sort_unstable();
        // A cut beside a receiver's own run makes that longer, if any receiver has runs.
        let receivers_hold = need
            .iter()
            .zip(&self.holdings)
            .any(|(need, has)| *need > 0 && has.total > 0);
        let wanted =
            |bucket| receivers_hold && self.owner(bucket).is_some_and(|owner| need[owner] > 0);
        for (_, giver, kept, left) in cuts {
            if let Some(first) = best_cut(&givers.of(giver)[kept..], left, &loose, wanted) {
                loose.set(first, left);
            }
        }
        loose
    }

    /// Gives every loose bucket to a shard that needs one.
    fn hand_over(mut self, loose: &Bits, mut need: Vec<u32>) -> Box<[Slot]> {
        let mut pieces: Vec<(u32, u32)> = loose.ranges().collect();
        // First to a receiver whose run ends or begins beside the piece.
        for (first, end) in &mut pieces {
            let beside = first.checked_sub(1).and_then(|bucket| self.owner(bucket));
            if let Some(to) = beside {
                let taken = need[to].min(*end - *first);
                need[to] -= taken;
                self.give(*first, *first + taken, to);
                *first += taken;
            }
        }
        for (first, end) in pieces.iter_mut().rev() {
            if let Some(to) = self.owner(*end) {
                let taken = need[to].min(*end - *first);
                need[to] -= taken;
                self.give(*end - taken, *end, to);
                *end -= taken;
            }
        }
        // The pieces that are left to the receivers that are left, both in order.
        let mut to = 0;
        for (mut first, end) in pieces {
            while first < end && to < need.len() {
                let taken = need[to].min(end - first);
                need[to] -= taken;
                self.give(first, first + taken, to);
                first += taken;
                to += usize::from(need[to] == 0);
            }
        }
        debug_assert!(
            need.iter().all(|need| *need == 0),
            "as many are needed as are loose"
        );
        self.table
    }

    fn give(&mut self, first: u32, end: u32, to: usize) {
        let to = self.shards[to].id();
        for slot in &mut self.table[first as usize..end as usize] {
            *slot = Slot::migrating(slot.from(), to);
        }
    }

    /// The place of the shard that holds `bucket`.
    fn owner(&self, bucket: u32) -> Option<usize> {
        let slot = self.table.get(bucket as usize)?;
        self.places
            .get(usize::from(slot.to().0))
            .map(|place| usize::from(*place))
    }
}

/// Releases whole runs, the shortest first, as long as there are no more than `left` buckets in them.
/// Gives how many that were, and how many buckets are left to be cut from the others: these are then in
/// order.
fn release_whole(runs: &mut [GiverRun], mut left: u32, loose: &mut Bits) -> (usize, u32) {
    /// So few are found one by one in less time than all are sorted.
    const FEW: usize = 4;
    let mut released = 0;
    while left > 0 {
        let rest = &mut runs[released..];
        if released < FEW {
            let shortest = rest.iter().enumerate().min_by_key(|(_, run)| **run);
            if let Some((at, _)) = shortest {
                rest.swap(0, at);
            }
        } else if released == FEW {
            rest.sort_unstable();
        }
        match rest.first().filter(|run| run.len() <= left) {
            Some(run) => {
                loose.set(run.first(), run.len());
                left -= run.len();
                released += 1;
            }
            None => {
                rest.sort_unstable();
                break;
            }
        }
    }
    (released, left)
}

/// Where to take `len` buckets from the end of one of the runs, all of which are longer: at the
/// best neighbour, from the shortest run, near the last bucket. The runs come in that order.
fn best_cut(
    runs: &[GiverRun],
    len: u32,
    loose: &Bits,
    wanted: impl Fn(u32) -> bool,
) -> Option<u32> {
    // Where a cut starts, and the bucket beside it; none has the number below 0.
    let ends = || {
        runs.iter().flat_map(|run| {
            let (first, end) = (run.first(), run.first() + run.len());
            [(end - len, end), (first, first.wrapping_sub(1))]
        })
    };
    // What moves too merges with the cut; what belongs to a receiver probably will.
    let merges = ends().find(|(_, beside)| loose.has(*beside));
    let best = merges
        .or_else(|| ends().find(|(_, beside)| wanted(*beside)))
        .or_else(|| ends().next());
    best.map(|(first, _)| first)
}
