//! Which side of a migrating bucket an execution was found on.

use loom_shard_plan::ShardId;
use loom_spi::ExecutionId;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::routing::Sides;
use crate::shard::Side;

/// A bounded LRU of resolutions.
///
/// Holds positive answers only, and those are hints: a shard that turns out not to hold the execution is
/// asked about again. An entry carries since when its bucket has been placed as it was; after a change of
/// that placement it says nothing.
#[derive(Debug)]
pub(crate) struct ResolutionCache(Cache<ExecutionId, Found, ahash::RandomState>);

#[derive(Clone, Copy, Debug)]
struct Found {
    on: ShardId,
    since: u64,
}

impl ResolutionCache {
    pub(crate) fn new(capacity: u64) -> Self {
        Self(
            Cache::builder()
                .max_capacity(capacity)
                .eviction_policy(EvictionPolicy::lru())
                .build_with_hasher(ahash::RandomState::new()),
        )
    }

    /// The side on which `id` was last found, as far as that still means anything.
    pub(crate) fn get<'a>(&self, id: &ExecutionId, sides: Sides<'a>) -> Option<Side<'a>> {
        let found = self.0.get(id)?;
        if found.since != sides.since {
            return None;
        }
        [sides.destination, sides.source]
            .into_iter()
            .find(|side| side.id() == found.on)
    }

    pub(crate) fn insert(&self, id: &ExecutionId, sides: Sides<'_>, on: Side<'_>) {
        let found = Found {
            on: on.id(),
            since: sides.since,
        };
        self.0.insert(id.clone(), found);
    }

    pub(crate) fn remove(&self, id: &ExecutionId) {
        self.0.invalidate(id);
    }
}
