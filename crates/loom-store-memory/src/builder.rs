//! Settings of a store.

use std::sync::Arc;

use loom_spi::Limits;

use crate::ledger::Ledger;
use crate::lineage::Parents;
use crate::stripes::Stripes;
use crate::{Clock, MemoryStore, MonotonicClock};

/// Builds a [`MemoryStore`].
///
/// ```
/// use loom_spi::{EventStore, Limits};
/// use loom_store_memory::{ManualClock, MemoryStore};
///
/// let clock = ManualClock::new();
/// let store = MemoryStore::builder()
///     .limits(Limits::default().with_max_payload_bytes(4096))
///     .clock(clock.clone())
///     .build();
/// assert_eq!(store.capabilities().limits.max_payload_bytes, 4096);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct MemoryStoreBuilder {
    limits: Limits,
    clock: Arc<dyn Clock>,
}

impl Default for MemoryStoreBuilder {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            clock: Arc::new(MonotonicClock::new()),
        }
    }
}

impl MemoryStoreBuilder {
    /// What the store accepts. Default: [`Limits::default`].
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The clock by which leases lapse. Default: [`MonotonicClock`].
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// An empty store.
    #[must_use]
    pub fn build(self) -> MemoryStore {
        MemoryStore {
            limits: self.limits,
            clock: self.clock,
            ledger: Ledger::default(),
            stripes: Stripes::new(),
            parents: Parents::new(),
        }
    }
}
