//! Shards: their ids and what a plan says about each.

use std::borrow::Cow;
use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The name of a shard: any `u16`. Ids need not be contiguous.
///
/// A plan orders shards by id and uses nothing else about it. Which database or directory an id
/// stands for is the deployment's to say; giving an id to another database is not a plan change,
/// it is data loss.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ShardId(pub u16);

impl ShardId {
    /// The id as a number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl From<u16> for ShardId {
    fn from(id: u16) -> Self {
        Self(id)
    }
}

impl FromStr for ShardId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// A shard of a plan: its weight, and whether it is on its way out.
///
/// * weight `w > 0`: a member that gets `w` parts of the buckets;
/// * weight 0: a member that gets none; [`rebalance`](crate::ShardPlan::rebalance) drains it, and
///   it stays in the plan until it is taken out;
/// * leaving: no longer a member. It stays in the plan only because buckets still name it, and is
///   gone with the last of them. Its weight is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Shard {
    id: ShardId,
    weight: u32,
    leaving: bool,
}

impl Shard {
    pub(crate) const fn member(id: ShardId, weight: u32) -> Self {
        Self {
            id,
            weight,
            leaving: false,
        }
    }

    pub(crate) const fn leaving(id: ShardId) -> Self {
        Self {
            id,
            weight: 0,
            leaving: true,
        }
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> ShardId {
        self.id
    }

    /// Its share of the buckets, relative to the weights of the others. 0 if it is to hold none.
    #[must_use]
    pub const fn weight(&self) -> u32 {
        self.weight
    }

    /// Whether it has been taken out and only waits for its last bucket to settle elsewhere.
    #[must_use]
    pub const fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Whether a rebalance gives it buckets: a member of weight above 0.
    #[must_use]
    pub const fn is_active(&self) -> bool {
        self.weight > 0
    }

    /// Same state, whatever the id: what the formats put into one run.
    pub(crate) const fn same_state(&self, other: &Self) -> bool {
        self.weight == other.weight && self.leaving == other.leaving
    }
}

/// A plan's list of shards: one that all plans share if that says the same.
pub(crate) type Shards = Cow<'static, [Shard]>;

/// Most shards that take no memory in a plan of its own.
const SHARED: usize = 1024;

/// Shards 0 to 1023 of weight 1: what nearly every plan's list is the start of.
static EQUAL: [Shard; SHARED] = {
    let mut shards = [Shard::member(ShardId(0), 1); SHARED];
    let mut id = 0;
    while (id as usize) < SHARED {
        shards[id as usize] = Shard::member(ShardId(id), 1);
        id += 1;
    }
    shards
};

/// Takes no memory for shards with ids from 0 and weight 1, and no more than it must for any others.
pub(crate) fn shared(mut shards: Vec<Shard>) -> Shards {
    match EQUAL.get(..shards.len()) {
        Some(equal) if equal == shards => Cow::Borrowed(equal),
        _ => {
            shards.shrink_to_fit();
            Cow::Owned(shards)
        }
    }
}

/// The shard `id` of a list sorted by id.
pub(crate) fn find(shards: &[Shard], id: ShardId) -> Option<&Shard> {
    // Where it is if no id below it is left out, as in most plans.
    let likely = shards.get(usize::from(id.0)).filter(|shard| shard.id == id);
    likely.or_else(|| shards.get(shards.binary_search_by_key(&id, Shard::id).ok()?))
}
