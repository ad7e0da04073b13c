//! One bit for every bucket.

/// A set of buckets that is filled range by range and read as ranges.
#[derive(Debug, Clone)]
pub(super) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    pub(super) fn new(buckets: usize) -> Self {
        // One more than needed, so that the last range has an end.
        Self {
            words: vec![0; buckets / 64 + 1],
        }
    }

    pub(super) fn set(&mut self, first: u32, len: u32) {
        let (mut first, end) = (first, first + len);
        while first < end {
            let taken = (64 - first % 64).min(end - first);
            let mask = u64::MAX >> (64 - taken) << (first % 64);
            self.words[first as usize / 64] |= mask;
            first += taken;
        }
    }

    pub(super) fn has(&self, bucket: u32) -> bool {
        self.words
            .get(bucket as usize / 64)
            .is_some_and(|word| word >> (bucket % 64) & 1 == 1)
    }

    /// First and end of every range, ascending; a gap between any two.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let first = self.next(from, false)?;
            from = self.next(first, true)?;
            Some((first, from))
        })
    }

    /// The first bucket from `from` on that is in the set, or that is not.
    fn next(&self, from: u32, inverted: bool) -> Option<u32> {
        let flip = if inverted { u64::MAX } else { 0 };
        let mut mask = u64::MAX << (from % 64);
        let mut base = from - from % 64;
        for word in self.words.get(from as usize / 64..)? {
            let found = (word ^ flip) & mask;
            if found != 0 {
                return Some(base + found.trailing_zeros());
            }
            mask = u64::MAX;
            base += 64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Bits;

    proptest! {
        #[test]
        fn is_a_set_of_buckets(ranges in prop::collection::vec((0..600_u32, 0..200_u32), 0..8)) {
            let buckets = 640_u32;
            let mut bits = Bits::new(640);
            let mut model = vec![false; 640];
            for (first, len) in ranges {
                let len = len.min(buckets - first);
                bits.set(first, len);
                model[first as usize..(first + len) as usize].fill(true);
            }
            for bucket in 0..buckets {
                prop_assert_eq!(bits.has(bucket), model[bucket as usize]);
            }
            let mut read = vec![false; 640];
            let mut before = None;
            for (first, end) in bits.ranges() {
                prop_assert!(first < end && before.is_none_or(|before| before < first));
                read[first as usize..end as usize].fill(true);
                before = Some(end);
            }
            prop_assert_eq!(read, model);
        }
    }
}
