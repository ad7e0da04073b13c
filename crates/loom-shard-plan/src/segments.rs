//! How all three formats cut a table into pieces: runs of one placement, and short cycles.
//!
//! The cut is a function of the table alone, so equal plans have equal bytes. It is specified in
//! `docs/specification/plan-format.md`; changing it changes every format.

use crate::placement::PackedPlacement as Slot;

/// Longest cycle that is written as one.
pub(crate) const MAX_CYCLE: usize = 256;

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
    /// Where the stretch of runs of length 1 ends; known while it is above `first`.
    uneven: usize,
}

impl<'a> Segments<'a> {
    pub(crate) const fn new(table: &'a [Slot]) -> Self {
        Self::from(table, 0)
    }

    /// Those from a bucket on that one of them starts with.
    pub(crate) const fn from(table: &'a [Slot], first: usize) -> Self {
        Self {
            table,
            first,
            uneven: 0,
        }
    }

    /// The buckets from `first` on up to the next run of more than one.
    fn uneven(&mut self) -> &'a [Slot] {
        let rest = self.table.get(self.first..).unwrap_or_default();
        if self.uneven <= self.first {
            let equal = rest.windows(2).position(|two| two[0] == two[1]);
            self.uneven = self.first + equal.unwrap_or(rest.len());
        }
        rest.get(..self.uneven - self.first).unwrap_or_default()
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = Segment<'a>;

    fn next(&mut self) -> Option<Segment<'a>> {
        let rest = self.table.get(self.first..)?;
        let head = rest.first()?;
        let run = rest.iter().take_while(|slot| *slot == head).count();
        let (period, len) = if run == 1 {
            longest_cycle(self.uneven())
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

/// The period and the length of the longest cycle at the start of a stretch of runs of length 1;
/// `(1, 1)` if there is none.
///
/// A cycle has 2 to [`MAX_CYCLE`] placements and comes at least twice. Of equally long ones the one
/// with the shortest period.
fn longest_cycle(uneven: &[Slot]) -> (usize, usize) {
    let mut best = (1, 1);
    for period in 2..=MAX_CYCLE.min(uneven.len() / 2) {
        // A multiple of a period that holds this far breaks where that one breaks.
        if uneven[period] != uneven[0] || best.0 > 1 && period % best.0 == 0 && best.1 >= period {
            continue;
        }
        let repeated = uneven[period..]
            .iter()
            .zip(uneven)
            .take_while(|(a, b)| a == b)
            .count();
        let len = period + repeated;
        if repeated >= period && len > best.1 {
            best = (period, len);
        }
    }
    best
}

/// Tables have at most 65,536 buckets.
fn as_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
