//! A set of buckets, kept and printed as ranges.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Serialize, Serializer};

/// Buckets in ascending order, as ranges: what reports and errors name.
///
/// ```
/// use loom_shard_plan::BucketSet;
/// let set: BucketSet = [3, 1, 2, 9].into_iter().collect();
/// assert_eq!(set.to_string(), "1-3, 9");
/// assert_eq!(set.len(), 4);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BucketSet {
    /// Ascending, disjoint, not adjacent.
    ranges: Vec<(u32, u32)>,
}

/// How many ranges a message shows before it only counts.
const SHOWN: usize = 12;

impl BucketSet {
    /// Adds a bucket that is above all others.
    pub(crate) fn push(&mut self, bucket: u32) {
        match self.ranges.last_mut() {
            Some((_, last)) if bucket > 0 && *last == bucket - 1 => *last = bucket,
            _ => self.ranges.push((bucket, bucket)),
        }
    }

    /// How many buckets.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.ranges
            .iter()
            .map(|(first, last)| last - first + 1)
            .sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether `bucket` is one of them.
    #[must_use]
    pub fn contains(&self, bucket: u32) -> bool {
        let at = self.ranges.partition_point(|(_, last)| *last < bucket);
        self.ranges
            .get(at)
            .is_some_and(|(first, _)| *first <= bucket)
    }

    /// The buckets, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges().flatten()
    }

    /// The ranges, ascending; a gap between any two.
    #[must_use]
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = RangeInclusive<u32>> + '_ {
        self.ranges.iter().map(|(first, last)| *first..=*last)
    }
}

impl FromIterator<u32> for BucketSet {
    fn from_iter<I: IntoIterator<Item = u32>>(buckets: I) -> Self {
        let mut sorted: Vec<u32> = buckets.into_iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        let mut set = Self::default();
        for bucket in sorted {
            set.push(bucket);
        }
        set
    }
}

/// `0-3, 9`; long sets end in a count of the ranges left out. With `{:#}` as part of a sentence:
/// `buckets 0-3, 9`, or `bucket 9`.
impl fmt::Display for BucketSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            f.write_str(if self.len() == 1 {
                "bucket "
            } else {
                "buckets "
            })?;
        }
        for (i, (first, last)) in self.ranges.iter().take(SHOWN).enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        match self.ranges.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            1 => f.write_str(" and 1 more range"),
            more => write!(f, " and {more} more ranges"),
        }
    }
}

/// As an array of `[first, last]`, both included.
impl Serialize for BucketSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.ranges.serialize(serializer)
    }
}
