//! Hash functions that a plan can name. Every machine and every version must agree on them.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use thiserror::Error;

/// The hash function whose values a plan divides into buckets.
///
/// A plan names its function, so that two programs cannot route by the same table and different
/// hashes. Both are specified, with vectors, in `docs/specification/route-hash.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum HashFunction {
    /// XXH3, 64 bits, seed 0. The default.
    #[default]
    Xxh3_64,
    /// FNV-1a, 64 bits: a few lines in any language, for programs that have no XXH3.
    Fnv1a64,
}

impl HashFunction {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Xxh3_64, Self::Fnv1a64];

    /// Its name in plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xxh3_64 => "xxh3-64",
            Self::Fnv1a64 => "fnv1a-64",
        }
    }

    /// The hash of `id`, which for text is its UTF-8 bytes.
    #[inline]
    #[must_use]
    pub fn hash(self, id: impl AsRef<[u8]>) -> u64 {
        match self {
            Self::Xxh3_64 => route_hash(id),
            Self::Fnv1a64 => id
                .as_ref()
                .iter()
                .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
                    (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
                }),
        }
    }

    /// Its code in the binary format.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Xxh3_64 => 1,
            Self::Fnv1a64 => 2,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|hash| hash.code() == code)
    }
}

impl fmt::Display for HashFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for HashFunction {
    type Err = UnknownHash;

    fn from_str(name: &str) -> Result<Self, UnknownHash> {
        Self::ALL
            .iter()
            .copied()
            .find(|hash| hash.name() == name)
            .ok_or(UnknownHash)
    }
}

impl Serialize for HashFunction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A name that is no [`HashFunction`]'s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("unknown hash function; expected `xxh3-64` or `fnv1a-64`")]
pub struct UnknownHash;

/// XXH3-64 with seed 0 of the id's bytes: [`HashFunction::Xxh3_64`].
///
/// ```
/// assert_eq!(loom_shard_plan::route_hash("order-42"), loom_shard_plan::route_hash(b"order-42"));
/// ```
#[inline]
#[must_use]
pub fn route_hash(id: impl AsRef<[u8]>) -> u64 {
    xxhash_rust::xxh3::xxh3_64(id.as_ref())
}
