//! How all three formats cut a table into pieces: runs of one placement, and short cycles.
//!
//! The cut is a function of the table alone, so equal plans have equal bytes. It is specified in
//! `docs/specification/plan-format.md`; changing it changes every format.

use crate::placement::Slot;

/// Longest cycle that is written as one.
pub(crate) const MAX_CYCLE: usize = 64;

/// A stretch of buckets whose placements repeat `pattern`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment<'a> {
    pub(crate) first: u32,
    /// At least 1. With a pattern of more than one at least twice its length.
    pub(crate) len: u32,
    /// 1 to [`MAX_CYCLE`] placements.
    pub(crate) pattern: &'a [Slot],
}

/// The canonical segments of a table, from bucket 0.
#[derive(Debug, Clone)]
pub(crate) struct Segments<'a> {
    table: &'a [Slot],
    first: usize,
}

impl<'a> Segments<'a> {
    pub(crate) const fn new(table: &'a [Slot]) -> Self {
        Self { table, first: 0 }
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = Segment<'a>;

    fn next(&mut self) -> Option<Segment<'a>> {
        let rest = self.table.get(self.first..)?;
        let head = rest.first()?;
        let run = rest.iter().take_while(|slot| *slot == head).count();
        let (period, len) = if run == 1 {
            longest_cycle(rest)
        } else {
            (1, run)
        };
        let first = self.first;
        self.first += len;
        Some(Segment {
            first: as_u32(first),
            len: as_u32(len),
            pattern: rest.get(..period)?,
        })
    }
}

/// The period and the length of the longest cycle that `rest` starts with; `(1, 1)` if none.
///
/// A cycle has 2 to [`MAX_CYCLE`] placements, comes at least twice, and no two neighbours in it
/// are equal: runs are for that. Of equally long ones the one with the shortest period.
fn longest_cycle(rest: &[Slot]) -> (usize, usize) {
    let mut best = (1, 1);
    for period in 2..=MAX_CYCLE.min(rest.len() / 2) {
        // A multiple of a period that holds this far breaks where that one breaks.
        if best.0 > 1 && period % best.0 == 0 && best.1 >= period {
            continue;
        }
        let len = cycle_len(rest, period);
        if len >= 2 * period && len > best.1 {
            best = (period, len);
            if len == rest.len() {
                break;
            }
        }
    }
    best
}

/// How many placements at the start of `rest` repeat with `period` and differ from their
/// neighbours.
fn cycle_len(rest: &[Slot], period: usize) -> usize {
    let (pattern, later) = rest.split_at(period);
    if later.first() != pattern.first() || pattern.windows(2).any(|two| two[0] == two[1]) {
        return 0;
    }
    // Wraps into a neighbour that is equal to it.
    if pattern.first() == pattern.last() {
        return 0;
    }
    period + later.iter().zip(rest).take_while(|(a, b)| a == b).count()
}

/// Tables have at most 65,536 buckets.
fn as_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
