//! The memory store shows every behaviour that it can.

use async_trait::async_trait;
use loom_conformance::{Need, StoreFactory, Subject};
use loom_spi::BoxError;
use loom_store_memory::{ManualClock, MemoryStore};

struct Memory;

#[async_trait]
impl StoreFactory for Memory {
    async fn create(&self) -> Result<Subject, BoxError> {
        let clock = ManualClock::new();
        let store = MemoryStore::builder().clock(clock.clone()).build();
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

loom_conformance::event_store!(memory, Memory);
