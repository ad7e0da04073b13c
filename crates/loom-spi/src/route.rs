//! Where an execution belongs, and the order in which every store lists executions.

use std::fmt;
use std::ops::RangeInclusive;

use xxhash_rust::xxh3::xxh3_64;

/// The routing hash of an execution id: XXH3-64 with seed 0 over its UTF-8 bytes.
///
/// Part of the format: it is the same on every machine and will not change. The test vectors in
/// `docs/specification/route-hash-vectors.txt` hold every implementation to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteHash(pub u64);

impl RouteHash {
    /// The name by which a shard plan refers to this function.
    pub const NAME: &'static str = "xxh3-64";

    /// Hashes bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(xxh3_64(bytes))
    }

    /// The first half of the *list order* `(index_key, id bytes)`: the hash with its bits reversed,
    /// as a signed integer with the sign bit flipped, so that the signed order of SQL is the
    /// unsigned order of the reversed bits.
    ///
    /// Hashes that agree in their low bits, as those of one bucket do, are neighbours in this
    /// order: one index serves listing, cursors, buckets and the merge across shards.
    #[must_use]
    pub fn index_key(self) -> i64 {
        ordered(self.0.reverse_bits())
    }
}

/// Maps unsigned to signed, keeping the order.
fn ordered(bits: u64) -> i64 {
    (bits ^ (1 << 63)).cast_signed()
}

impl fmt::Debug for RouteHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RouteHash({:016x})", self.0)
    }
}

/// Selects the executions whose hash leaves `residue` when divided by `modulus`: the executions of
/// one bucket, for instance.
///
/// A store answers it from its index: [`key_range`](Self::key_range) bounds the scan and
/// [`matches`](Self::matches) decides each row.
///
/// ```
/// use loom_spi::{ExecutionId, RouteFilter};
///
/// let id = ExecutionId::new("order-7")?;
/// let bucket = id.route_hash().0 % 4096;
/// let filter = RouteFilter::new(4096, bucket)?;
/// assert!(filter.matches(id.route_hash()));
/// assert!(filter.key_range().contains(&id.route_hash().index_key()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteFilter {
    modulus: u64,
    residue: u64,
}

impl RouteFilter {
    /// Matches `hash % modulus == residue`.
    ///
    /// # Errors
    /// [`InvalidRouteFilter`] unless `residue < modulus`.
    pub fn new(modulus: u64, residue: u64) -> Result<Self, InvalidRouteFilter> {
        if residue < modulus {
            Ok(Self { modulus, residue })
        } else {
            Err(InvalidRouteFilter { modulus, residue })
        }
    }

    /// The divisor.
    #[must_use]
    pub fn modulus(self) -> u64 {
        self.modulus
    }

    /// The remainder.
    #[must_use]
    pub fn residue(self) -> u64 {
        self.residue
    }

    /// Whether an execution with this hash is selected.
    #[must_use]
    pub fn matches(self, hash: RouteHash) -> bool {
        hash.0 % self.modulus == self.residue
    }

    /// The smallest range of [index keys](RouteHash::index_key), both ends included, that is one
    /// interval and holds every hash that matches.
    ///
    /// For a modulus `odd × 2^k` the low `k` bits of a matching hash are those of the residue. Reversed
    /// they are the high bits, which makes them one interval. Where `odd` is 1 the range is exact;
    /// otherwise rows inside it still have to be checked with [`matches`](Self::matches).
    #[must_use]
    pub fn key_range(self) -> RangeInclusive<i64> {
        let fixed = self.modulus.trailing_zeros();
        // `fixed` is at most 63, since the modulus is not zero.
        let free = u64::MAX >> fixed;
        let low = self.residue.reverse_bits() & !free;
        ordered(low)..=ordered(low | free)
    }
}

/// A [`RouteFilter`] whose residue no number leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a route filter asks for residue {residue} of modulus {modulus}: expected 0 <= residue < modulus"
)]
pub struct InvalidRouteFilter {
    /// The divisor that was asked for.
    pub modulus: u64,
    /// The remainder that was asked for.
    pub residue: u64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_residue_outside_the_modulus_is_refused() {
        assert!(RouteFilter::new(0, 0).is_err());
        assert!(RouteFilter::new(7, 7).is_err());
        assert!(RouteFilter::new(1, 0).is_ok());
    }

    #[test]
    fn modulus_one_covers_everything() {
        let all = RouteFilter::new(1, 0).unwrap().key_range();
        assert_eq!(all, i64::MIN..=i64::MAX);
    }

    #[test]
    fn the_largest_power_of_two_fixes_all_but_one_bit() {
        let filter = RouteFilter::new(1 << 63, 5).unwrap();
        let (low, high) = filter.key_range().into_inner();
        assert_eq!(high - low, 1);
        assert!(filter.key_range().contains(&RouteHash(5).index_key()));
        assert!(
            filter
                .key_range()
                .contains(&RouteHash(5 | 1 << 63).index_key())
        );
    }

    #[test]
    fn the_ranges_of_a_power_of_two_tile_the_keys() {
        let mut ranges: Vec<_> = (0..64)
            .map(|residue| {
                RouteFilter::new(64, residue)
                    .unwrap()
                    .key_range()
                    .into_inner()
            })
            .collect();
        ranges.sort_unstable();
        assert_eq!(ranges[0].0, i64::MIN);
        assert_eq!(ranges[63].1, i64::MAX);
        assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn every_matching_hash_lies_in_the_range(
            hash in prop_oneof![any::<u64>(), Just(0), Just(u64::MAX)],
            odd in 1_u64..2000,
            k in 0_u32..50,
        ) {
            let modulus = (odd << k).max(1);
            let filter = RouteFilter::new(modulus, hash % modulus).unwrap();
            prop_assert!(filter.matches(RouteHash(hash)));
            prop_assert!(filter.key_range().contains(&RouteHash(hash).index_key()));
        }

        #[test]
        fn for_a_power_of_two_the_range_is_exact(hash in any::<u64>(), other in any::<u64>(), k in 0_u32..64) {
            let modulus = 1_u64 << k;
            let filter = RouteFilter::new(modulus, other % modulus).unwrap();
            let hash = RouteHash(hash);
            prop_assert_eq!(filter.matches(hash), filter.key_range().contains(&hash.index_key()));
        }

        #[test]
        fn index_keys_are_as_distinct_as_hashes(a in any::<u64>(), b in any::<u64>()) {
            prop_assert_eq!(RouteHash(a).index_key() == RouteHash(b).index_key(), a == b);
        }
    }
}
