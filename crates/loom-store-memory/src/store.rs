//! The store and how its parts hang together.

use std::fmt;
use std::sync::Arc;

use loom_spi::{ExecutionId, Limits, Operation, StoreError, StoreErrorKind};

use crate::ledger::Ledger;
use crate::lineage::Parents;
use crate::stripes::Stripes;
use crate::{Clock, MemoryStoreBuilder};

/// Event logs, fences, lineage and the shard plan, in the memory of this process.
///
/// Keeps the whole contract of [`EventStore`](loom_spi::EventStore) and offers
/// [`Fencing`](loom_spi::Fencing), [`Relocation`](loom_spi::Relocation),
/// [`PlanLedger`](loom_spi::PlanLedger) and [`BranchRegistry`](loom_spi::BranchRegistry). What it holds lives as long as it does.
///
/// No method waits for anything but a lock that is held for a moment, so every future is ready at its
/// first poll, on any runtime or none.
///
/// ```
/// use loom_spi::{Append, EventStore, ExecutionId, Head, NewEvent};
/// use loom_store_memory::MemoryStore;
///
/// # futures_executor::block_on(async {
/// let store = MemoryStore::new();
/// let id = ExecutionId::new("order-7")?;
/// store.append(Append::new(id.clone(), 0, vec![NewEvent::new("placed", "")])).await?;
/// assert_eq!(store.head(Head::new(id)).await?.map(|head| head.next_sequence), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct MemoryStore {
    pub(crate) limits: Limits,
    pub(crate) clock: Arc<dyn Clock>,
    // Locks are taken in the order of these fields, and among stripes in ascending order.
    pub(crate) ledger: Ledger,
    pub(crate) stripes: Stripes,
    pub(crate) parents: Parents,
}

impl MemoryStore {
    /// An empty store with the default limits, whose leases lapse by the monotonic clock.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// For other limits or another clock.
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::default()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    /// Names the settings and takes no lock, so that it can be called anywhere.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("limits", &self.limits)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// Turns a refusal into the error of `operation` on `id`.
pub(crate) fn refused(
    operation: Operation,
    id: &ExecutionId,
) -> impl FnOnce(StoreErrorKind) -> StoreError + '_ {
    move |kind| StoreError::new(operation, kind).with_execution(id)
}
