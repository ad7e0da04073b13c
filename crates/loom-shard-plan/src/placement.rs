//! Where a bucket is: what callers see, and the four bytes that a plan keeps of it.

use std::fmt;

use crate::ShardId;

/// Where the executions of one bucket live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Placement {
    /// All of them on this shard.
    Settled(ShardId),
    /// Those that exist stay where they are, on either side; new ones start on `to`.
    ///
    /// `from` and `to` differ in every placement that a plan hands out.
    Migrating {
        /// The side that is being drained.
        from: ShardId,
        /// The side that takes what is new.
        to: ShardId,
    },
}

impl Placement {
    /// The shard that new executions start on.
    #[must_use]
    pub const fn destination(self) -> ShardId {
        match self {
            Self::Settled(shard) | Self::Migrating { to: shard, .. } => shard,
        }
    }

    /// The shard that is being drained, if any.
    #[must_use]
    pub const fn source(self) -> Option<ShardId> {
        match self {
            Self::Settled(_) => None,
            Self::Migrating { from, .. } => Some(from),
        }
    }

    /// Whether there are two sides.
    #[must_use]
    pub const fn is_migrating(self) -> bool {
        matches!(self, Self::Migrating { .. })
    }

    /// Whether data may be on `shard`.
    #[must_use]
    pub fn names(self, shard: ShardId) -> bool {
        self.destination() == shard || self.source() == Some(shard)
    }
}

/// As the text format writes it: `3`, or `0 -> 4`.
impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settled(shard) => write!(f, "{shard}"),
            Self::Migrating { from, to } => write!(f, "{from} -> {to}"),
        }
    }
}

/// A [`Placement`] in four bytes: what a plan keeps for each bucket, and what
/// [`route_batch`](crate::ShardPlan::route_batch) writes.
///
/// The source is in the high half, the destination in the low half, and the bucket is settled when
/// they are equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PackedPlacement(u32);

impl PackedPlacement {
    pub(crate) const fn settled(shard: ShardId) -> Self {
        Self::migrating(shard, shard)
    }

    pub(crate) const fn migrating(from: ShardId, to: ShardId) -> Self {
        Self((from.0 as u32) << 16 | to.0 as u32)
    }

    pub(crate) const fn from(self) -> ShardId {
        ShardId((self.0 >> 16) as u16)
    }

    pub(crate) const fn to(self) -> ShardId {
        let [low, high, ..] = self.0.to_le_bytes();
        ShardId(u16::from_le_bytes([low, high]))
    }

    pub(crate) const fn is_settled(self) -> bool {
        self.0 >> 16 == self.0 & 0xffff
    }

    /// The shard that new executions start on.
    #[must_use]
    pub const fn destination(self) -> ShardId {
        self.to()
    }

    /// Whether there are two sides.
    #[must_use]
    pub const fn is_migrating(self) -> bool {
        !self.is_settled()
    }

    /// The placement.
    #[must_use]
    pub const fn get(self) -> Placement {
        if self.is_settled() {
            Placement::Settled(self.to())
        } else {
            Placement::Migrating {
                from: self.from(),
                to: self.to(),
            }
        }
    }
}

impl fmt::Debug for PackedPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}
