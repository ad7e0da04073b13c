//! Short sequences, small enough to be copied and compared as one number.

use std::fmt;

/// Up to eight numbers from 1 to 15: the events of a log, the edges of a parent.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Seq(u32);

impl Seq {
    pub(crate) const EMPTY: Self = Self(0);

    pub(crate) fn of(items: &[u8]) -> Self {
        items.iter().fold(Self::EMPTY, |all, item| all.with(*item))
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn len(self) -> u32 {
        8 - self.0.leading_zeros() / 4
    }

    pub(crate) fn with(self, item: u8) -> Self {
        debug_assert!(0 < item && item < 16 && self.len() < 8, "{self:?} + {item}");
        Self(self.0 | u32::from(item) << (4 * self.len()))
    }

    pub(crate) fn starts_with(self, prefix: Self) -> bool {
        self.first(prefix.len()) == prefix
    }

    pub(crate) fn first(self, count: u32) -> Self {
        let kept = 1_u64.wrapping_shl(4 * count).wrapping_sub(1);
        Self(u32::try_from(u64::from(self.0) & kept).unwrap_or(u32::MAX))
    }

    pub(crate) fn items(self) -> impl Iterator<Item = u8> {
        (0..self.len()).map(move |at| u8::try_from(self.0 >> (4 * at) & 15).unwrap_or(15))
    }

    /// The numbers as a set: bit `n` for `n`.
    pub(crate) fn set(self) -> u16 {
        self.items().fold(0, |set, item| set | 1 << item)
    }

    pub(crate) fn contains(self, item: u8) -> bool {
        self.set() >> item & 1 == 1
    }

    /// Adds those of `other` that are not here, in their order.
    pub(crate) fn merged(self, other: Self) -> Self {
        other.items().fold(self, |all, item| {
            if all.contains(item) {
                all
            } else {
                all.with(item)
            }
        })
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (at, item) in self.items().enumerate() {
            let comma = if at == 0 { "" } else { " " };
            write!(f, "{comma}{item}")?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_keeps_order_and_knows_its_prefixes() {
        let all = Seq::of(&[3, 1, 15, 1, 2, 2, 4, 9]);
        assert_eq!(all.items().collect::<Vec<_>>(), [3, 1, 15, 1, 2, 2, 4, 9]);
        assert_eq!(all.len(), 8);
        for count in 0..=8 {
            assert!(all.starts_with(all.first(count)), "{count}");
            assert_eq!(all.first(count).len(), count);
        }
        assert!(!all.starts_with(Seq::of(&[3, 2])));
        assert!(!Seq::of(&[3]).starts_with(Seq::of(&[3, 1])));
        assert_eq!(format!("{:?}", all.first(2)), "[3 1]");
    }

    #[test]
    fn merging_keeps_what_is_first_and_adds_each_once() {
        let merged = Seq::of(&[1, 2]).merged(Seq::of(&[3, 2, 4]));
        assert_eq!(merged, Seq::of(&[1, 2, 3, 4]));
        assert_eq!(merged.set(), 0b11110);
    }
}
