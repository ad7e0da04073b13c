//! Numbers that a seed decides.

/// `xorshift64*` (Vigna 2016): the same numbers for the same seed, everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // Any seed but 0 will do, and similar ones must not begin alike.
        let mut random = Self((seed.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.below(1);
        random
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % bound
    }

    /// One of some things.
    pub(crate) fn one_of<'a, T>(&mut self, things: &'a [T]) -> &'a T {
        let place = self.below(things.len() as u64);
        &things[usize::try_from(place).unwrap()]
    }
}
