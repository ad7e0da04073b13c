//! Telling plans apart by 128 bits.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use thiserror::Error;

use crate::ShardPlan;

/// XXH3-128 (seed 0) of a plan's binary form.
///
/// Equal plans have equal fingerprints on every machine. It tells plans apart that came about by
/// accident or by a race; it is no protection against somebody who constructs a collision.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u128);

impl Fingerprint {
    /// As a number.
    #[must_use]
    pub const fn get(self) -> u128 {
        self.0
    }

    /// Most significant byte first, like the digits.
    #[must_use]
    pub const fn to_be_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The inverse of [`to_be_bytes`](Self::to_be_bytes).
    #[must_use]
    pub const fn from_be_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

impl ShardPlan {
    /// The fingerprint of this plan. Encodes the plan; keep it where it is asked for often.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint(xxhash_rust::xxh3::xxh3_128(&self.to_bytes()))
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = InvalidFingerprint;

    fn from_str(text: &str) -> Result<Self, InvalidFingerprint> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(InvalidFingerprint);
        }
        u128::from_str_radix(text, 16)
            .map(Self)
            .map_err(|_| InvalidFingerprint)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A text that is no [`Fingerprint`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a fingerprint is 32 hexadecimal digits")]
pub struct InvalidFingerprint;
