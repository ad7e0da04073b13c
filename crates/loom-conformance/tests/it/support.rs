//! A sound store with every hook but reopening.

use std::sync::Arc;

use async_trait::async_trait;
use loom_conformance::broken::{Awkward, Outage};
use loom_conformance::{Need, StoreFactory, Subject};
use loom_spi::BoxError;
use loom_store_memory::{ManualClock, MemoryStore};

/// Makes memory stores that can be cut off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sound {
    /// How they are cut off.
    pub(crate) outage: Outage,
    /// Whether they are as awkward as the contract allows, beyond that.
    pub(crate) awkward: bool,
}

#[async_trait]
impl StoreFactory for Sound {
    async fn create(&self) -> Result<Subject, BoxError> {
        let clock = ManualClock::new();
        let memory = MemoryStore::builder().clock(clock.clone()).build();
        let mut store = Awkward::new(Arc::new(memory));
        if self.awkward {
            store = store.pausing().with_pages_of(3);
        }
        let store = Arc::new(store);
        let (switch, outage) = (Arc::clone(&store), self.outage);
        let subject = Subject::from_arc(store)
            .with_clock(move |by| {
                clock.advance(by);
                async { Ok(()) }
            })
            .with_outage(move |down| {
                switch.set_outage(if down { outage } else { Outage::None });
                async { Ok(()) }
            });
        Ok(subject)
    }

    fn promises(&self) -> &[Need] {
        &[
            Need::Fencing,
            Need::Ledger,
            Need::Branches,
            Need::Relocation,
            Need::Clock,
            Need::Outage,
            Need::ReachableLimits,
        ]
    }
}
