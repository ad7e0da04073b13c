//! The runs of a table: buckets of one owner in a row.

use super::bits::Bits;
use crate::placement::Slot;

/// Buckets in a row of one owner, either all pinned or none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) len: u32,
    /// The place of the shard that they go to.
    pub(super) owner: u16,
}

impl Run {
    pub(super) fn all(table: &[Slot], places: &[u16], pinned: Option<&Bits>) -> Vec<Self> {
        let mut runs = Vec::with_capacity(table.len().min(256));
        let mut first = 0_u32;
        let same = |a: &Slot, b: &Slot| a.to() == b.to();
        for run in table.chunk_by(same) {
            let end = first + length(run);
            let owner = run
                .first()
                .map_or(0, |slot| places[usize::from(slot.to().0)]);
            match pinned {
                None => runs.push(Self {
                    first,
                    len: end - first,
                    owner,
                }),
                Some(pinned) => {
                    while first < end {
                        let is_pinned = pinned.has(first);
                        let rest = (first + 1..end).find(|bucket| pinned.has(*bucket) != is_pinned);
                        let next = rest.unwrap_or(end);
                        runs.push(Self {
                            first,
                            len: next - first,
                            owner,
                        });
                        first = next;
                    }
                }
            }
            first = end;
        }
        runs
    }
}

/// The runs of every shard that has too much.
pub(super) struct GiverRuns {
    /// Shard after shard.
    runs: Vec<Run>,
    /// Where the runs of each shard end.
    ends: Vec<usize>,
}

impl GiverRuns {
    pub(super) fn new(runs: &[Run], pinned: Option<&Bits>, excess: &[u32]) -> Self {
        let givers = runs.iter().filter(|run| {
            excess[usize::from(run.owner)] > 0
                && !pinned.is_some_and(|pinned| pinned.has(run.first))
        });
        let mut ends = vec![0; excess.len()];
        for run in givers.clone() {
            ends[usize::from(run.owner)] += 1;
        }
        let mut total = 0;
        for end in &mut ends {
            total += *end;
            *end = total;
        }
        let mut next: Vec<usize> = std::iter::once(0).chain(ends.iter().copied()).collect();
        let mut sorted = vec![Run::default(); total];
        // From the last to the first: runs of equal length are then in the order that is wanted.
        for run in givers.rev() {
            let at = &mut next[usize::from(run.owner)];
            sorted[*at] = *run;
            *at += 1;
        }
        Self { runs: sorted, ends }
    }

    pub(super) fn of(&mut self, shard: usize) -> &mut [Run] {
        let first = shard.checked_sub(1).map_or(0, |before| self.ends[before]);
        &mut self.runs[first..self.ends[shard]]
    }
}

/// Tables have at most 65,536 buckets.
fn length(slots: &[Slot]) -> u32 {
    u32::try_from(slots.len()).unwrap_or(u32::MAX)
}
