//! The runs of a table: buckets of one owner in a row.

use super::bits::Bits;
use crate::placement::PackedPlacement as Slot;

/// What a shard has, once pinned buckets are where they belong.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Holding {
    pub(super) total: u32,
    pub(super) pinned: u32,
    /// Runs that are not pinned.
    runs: u32,
}

/// Buckets in a row of one owner, either all pinned or none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) len: u32,
    /// The place of the shard that they go to.
    pub(super) owner: u16,
    pinned: bool,
}

impl Run {
    /// All runs of a table, and what each of `shards` shards has.
    pub(super) fn all(
        table: &[Slot],
        pinned: Option<&Bits>,
        shards: usize,
        place: impl Fn(Slot) -> u16,
    ) -> (Vec<Self>, Vec<Holding>) {
        let mut runs = Vec::with_capacity(table.len());
        let mut holdings = vec![Holding::default(); shards];
        let mut add = |first, len, owner, pinned| {
            runs.push(Self {
                first,
                len,
                owner,
                pinned,
            });
            let holding = &mut holdings[usize::from(owner)];
            holding.total += len;
            if pinned {
                holding.pinned += len;
            } else {
                holding.runs += 1;
            }
        };
        let mut first = 0_u32;
        for same_owner in table.chunk_by(|a, b| a.to() == b.to()) {
            let end = first + length(same_owner);
            let owner = place(same_owner[0]);
            match pinned {
                None => add(first, end - first, owner, false),
                Some(pinned) => {
                    while first < end {
                        let is_pinned = pinned.has(first);
                        let next = (first + 1..end).find(|next| pinned.has(*next) != is_pinned);
                        let next = next.unwrap_or(end);
                        add(first, next - first, owner, is_pinned);
                        first = next;
                    }
                }
            }
            first = end;
        }
        (runs, holdings)
    }
}

/// A run of a giver: short ones come first, of equally long ones the last.
///
/// Length and place in one number, which sorts several times as fast as a pair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GiverRun(u64);

impl GiverRun {
    fn new(first: u32, len: u32) -> Self {
        Self(u64::from(len) << 32 | u64::from(!first))
    }

    pub(super) const fn first(self) -> u32 {
        let [a, b, c, d, ..] = self.0.to_le_bytes();
        !u32::from_le_bytes([a, b, c, d])
    }

    pub(super) const fn len(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// The runs of every shard that has too much, without pinned ones.
pub(super) struct GiverRuns {
    /// Shard after shard; those of one from the last to the first.
    runs: Vec<GiverRun>,
    /// Where the runs of each shard end.
    ends: Vec<usize>,
}

impl GiverRuns {
    pub(super) fn new(runs: &[Run], holdings: &[Holding], excess: &[u32]) -> Self {
        let mut next = Vec::with_capacity(excess.len());
        let mut total = 0;
        for (holding, excess) in holdings.iter().zip(excess) {
            next.push(total);
            total += if *excess > 0 {
                holding.runs as usize
            } else {
                0
            };
        }
        let mut sorted = vec![GiverRun::default(); total];
        for run in runs.iter().rev() {
            let owner = usize::from(run.owner);
            if excess[owner] > 0 && !run.pinned {
                let at = &mut next[owner];
                sorted[*at] = GiverRun::new(run.first, run.len);
                *at += 1;
            }
        }
        Self {
            runs: sorted,
            ends: next,
        }
    }

    pub(super) fn of(&mut self, shard: usize) -> &mut [GiverRun] {
        let first = shard.checked_sub(1).map_or(0, |before| self.ends[before]);
        &mut self.runs[first..self.ends[shard]]
    }
}

/// Tables have at most 65,536 buckets.
fn length(slots: &[Slot]) -> u32 {
    u32::try_from(slots.len()).unwrap_or(u32::MAX)
}
