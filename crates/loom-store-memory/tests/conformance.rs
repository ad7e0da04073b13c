//! The memory store shows every behaviour that it can.

use async_trait::async_trait;
use loom_conformance::{Need, StoreFactory, Subject};
use loom_spi::{BoxError, Limits};
use loom_store_memory::{ManualClock, MemoryStore};

struct Memory(Limits);

#[async_trait]
impl StoreFactory for Memory {
    async fn create(&self) -> Result<Subject, BoxError> {
        let clock = ManualClock::new();
        let store = MemoryStore::builder()
            .limits(self.0)
            .clock(clock.clone())
            .build();
        Ok(Subject::new(store).with_clock(move |by| {
            clock.advance(by);
            async { Ok(()) }
        }))
    }

    fn promises(&self) -> &[Need] {
        &[
            Need::Fencing,
            Need::Ledger,
            Need::Branches,
            Need::Clock,
            Need::ReachableLimits,
        ]
    }
}

loom_conformance::event_store!(memory, Memory(Limits::default()));

loom_conformance::event_store!(memory_with_tight_limits, Memory(tight()));

/// The least that the cases ask of a store.
#[cfg(test)]
fn tight() -> Limits {
    Limits::default()
        .with_max_kind_bytes(64)
        .with_max_payload_bytes(4096)
        .with_max_append_events(100)
        .with_max_append_bytes(16 << 10)
}
