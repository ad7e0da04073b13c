//! What a store counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Histogram, Unit, counter, describe_counter, describe_histogram, histogram};

/// What a [`ShardedStore`](crate::ShardedStore) has counted since it was opened.
///
/// The same goes to the recorder of the [`metrics`] facade that is installed when the store is opened, under
/// the names in the crate's documentation. No count has an id, a shard or anything else as a label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Appends, reads, look-ups and deletes that were asked for.
    pub routed: u64,
    /// Times that the side of an execution of a migrating bucket was found out by looking, not by the cache.
    pub resolved: u64,
    /// Point-reads made for that.
    pub looks: u64,
    /// Requests for migrating buckets that were answered by the side in the cache.
    pub cache_hits: u64,
    /// Times that an operation met a record that was sealed, and finished the move or called it off.
    pub sealed_waits: u64,
    /// Executions that were found on both sides of their bucket with different logs: by a listing, a
    /// delete or a move. The destination's copy is served; somebody has to decide about the other one.
    /// One that is met again is counted again.
    pub both_sides_differ: u64,
    /// Executions moved from source to destination.
    pub moved: u64,
    /// Events of theirs.
    pub moved_events: u64,
    /// Operations that a shard refused because it was under a newer plan.
    pub stale_plans: u64,
    /// Times that a shard's newer plan was adopted.
    pub newer_plans: u64,
    /// Times that a shard was brought up to this node's plan.
    pub shards_raised: u64,
    /// Plans that were published.
    pub publications: u64,
    /// Buckets whose migration was ended by them.
    pub settled_buckets: u64,
}

macro_rules! counters {
    ($($field:ident: $name:literal, $description:literal;)*) => {
        /// The counters but for `routed`, which the gate keeps.
        #[derive(Debug)]
        pub(crate) struct Counters {
            $(pub(crate) $field: Counter,)*
            move_seconds: Distribution,
            move_events: Distribution,
        }

        impl Counters {
            /// Registers everything with the recorder of this moment.
            pub(crate) fn new() -> Self {
                describe_counter!(ROUTED, Unit::Count, "Appends, reads, look-ups and deletes asked for");
                $(describe_counter!($name, Unit::Count, $description);)*
                describe_histogram!(MOVE_SECONDS, Unit::Seconds, "How long a move took");
                describe_histogram!(MOVE_EVENTS, Unit::Count, "How many events a move took along");
                Self {
                    $($field: Counter::new(counter!($name)),)*
                    move_seconds: Distribution(histogram!(MOVE_SECONDS)),
                    move_events: Distribution(histogram!(MOVE_EVENTS)),
                }
            }

            pub(crate) fn snapshot(&self, routed: u64) -> Stats {
                Stats { routed, $($field: self.$field.get(),)* }
            }
        }
    };
}

/// The name of the counter of requests.
pub(crate) const ROUTED: &str = "loom.sharded.routed";
const MOVE_SECONDS: &str = "loom.sharded.move.seconds";
const MOVE_EVENTS: &str = "loom.sharded.move.events";

counters! {
    resolved: "loom.sharded.resolved", "Sides found by looking";
    looks: "loom.sharded.looks", "Point-reads made to find a side";
    cache_hits: "loom.sharded.cache_hits", "Requests answered by the side in the cache";
    sealed_waits: "loom.sharded.sealed_waits", "Operations that met a seal";
    both_sides_differ: "loom.sharded.both_sides_differ", "Executions found with different logs on both sides";
    moved: "loom.sharded.moved", "Executions moved";
    moved_events: "loom.sharded.moved_events", "Events moved";
    stale_plans: "loom.sharded.stale_plans", "Operations refused for an old plan";
    newer_plans: "loom.sharded.newer_plans", "Newer plans adopted";
    shards_raised: "loom.sharded.shards_raised", "Shards brought up to this node's plan";
    publications: "loom.sharded.publications", "Plans published";
    settled_buckets: "loom.sharded.settled_buckets", "Buckets settled";
}

impl Counters {
    /// Counts a move that is over.
    pub(crate) fn count_move(&self, events: u64, took: Duration) {
        self.moved.count();
        self.moved_events.add(events);
        self.move_seconds.0.record(took.as_secs_f64());
        // No log that could be moved is as long as the bound.
        let events = u32::try_from(events).unwrap_or(u32::MAX);
        self.move_events.0.record(f64::from(events));
    }
}

/// A count that is read here, and that the facade is told of.
pub(crate) struct Counter {
    here: AtomicU64,
    facade: metrics::Counter,
}

impl Counter {
    fn new(facade: metrics::Counter) -> Self {
        let here = AtomicU64::new(0);
        Self { here, facade }
    }

    pub(crate) fn count(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, more: u64) {
        self.here.fetch_add(more, Ordering::Relaxed);
        self.facade.increment(more);
    }

    fn get(&self) -> u64 {
        self.here.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.get())
    }
}

struct Distribution(Histogram);

impl std::fmt::Debug for Distribution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Distribution")
    }
}

#[cfg(test)]
mod tests;
