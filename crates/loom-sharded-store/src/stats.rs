//! What a store counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a [`ShardedStore`](crate::ShardedStore) has counted since it was opened. Requests for settled
/// buckets are not counted: they touch nothing that threads share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Point-reads made to find out on which side of a migrating bucket an execution is.
    pub looks: u64,
    /// Resolutions that were answered from the cache.
    pub cache_hits: u64,
    /// Executions that were found on both sides of their bucket with different logs: by a listing, a
    /// delete or a move. The destination's copy is served; somebody has to decide about the other one.
    /// One that is met again is counted again.
    pub both_sides_differ: u64,
    /// Executions moved from source to destination.
    pub moved: u64,
    /// Times that a shard's newer plan was adopted.
    pub newer_plans: u64,
    /// Times that a shard was brought up to this node's plan.
    pub shards_raised: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) looks: Counter,
    pub(crate) cache_hits: Counter,
    pub(crate) both_sides_differ: Counter,
    pub(crate) moved: Counter,
    pub(crate) newer_plans: Counter,
    pub(crate) shards_raised: Counter,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    pub(crate) fn snapshot(&self) -> Stats {
        Stats {
            looks: self.looks.get(),
            cache_hits: self.cache_hits.get(),
            both_sides_differ: self.both_sides_differ.get(),
            moved: self.moved.get(),
            newer_plans: self.newer_plans.get(),
            shards_raised: self.shards_raised.get(),
        }
    }
}
