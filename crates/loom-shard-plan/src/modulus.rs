//! `hash % buckets` without a division.

/// A divisor and its reciprocal.
///
/// With `m = ⌊(2^64 − 1) / d⌋` the estimate `q = ⌊h·m / 2^64⌋` is `⌊h / d⌋` or one less, because
/// `h/d − h·m/2^64 = h·(2^64/d − m)/2^64 < 1` (the bracket is at most 1 and `h < 2^64`). So
/// `h − q·d` is below `2d` and one conditional subtraction makes it exact. A power of two is a
/// mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Modulus {
    divisor: u32,
    reciprocal: u64,
}

impl Modulus {
    /// `divisor` must not be 0; 0 is taken as 1.
    pub(crate) const fn new(divisor: u32) -> Self {
        let divisor = if divisor == 0 { 1 } else { divisor };
        Self {
            divisor,
            reciprocal: u64::MAX / divisor as u64,
        }
    }

    pub(crate) const fn divisor(self) -> u32 {
        self.divisor
    }

    /// What a hash is masked with if the divisor is a power of two.
    #[inline]
    pub(crate) const fn mask(self) -> Option<usize> {
        if self.divisor.is_power_of_two() {
            Some(self.divisor as usize - 1)
        } else {
            None
        }
    }

    /// `hash % divisor`, exactly.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a remainder is below the u32 divisor"
    )]
    pub(crate) const fn reduce(self, hash: u64) -> u32 {
        if self.divisor.is_power_of_two() {
            return hash as u32 & (self.divisor - 1);
        }
        let divisor = self.divisor as u64;
        let quotient = ((hash as u128 * self.reciprocal as u128) >> 64) as u64;
        let rest = hash.wrapping_sub(quotient.wrapping_mul(divisor));
        (if rest >= divisor {
            rest - divisor
        } else {
            rest
        }) as u32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Modulus;

    #[test]
    fn agrees_with_the_remainder_at_the_edges_of_every_divisor_in_use() {
        for divisor in 1..=65_536_u32 {
            let modulus = Modulus::new(divisor);
            let d = u64::from(divisor);
            for hash in [
                0,
                1,
                d - 1,
                d,
                d + 1,
                u64::MAX - 1,
                u64::MAX,
                u64::MAX / d * d,
            ] {
                for hash in [hash, hash.wrapping_sub(1)] {
                    assert_eq!(
                        u64::from(modulus.reduce(hash)),
                        hash % d,
                        "{hash} % {divisor}"
                    );
                }
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_remainder(hash: u64, divisor in 1..=u32::MAX) {
            prop_assert_eq!(u64::from(Modulus::new(divisor).reduce(hash)), hash % u64::from(divisor));
        }
    }
}
