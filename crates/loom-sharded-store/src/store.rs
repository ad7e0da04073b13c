//! The store.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use loom_shard_plan::{ShardId, ShardPlan};
use loom_spi::{
    Append, Appended, Capabilities, Delete, Deleted, EventStore, Head, List, ListPage, LogHead,
    PlanEpoch, Read, ReadPage, StoreError,
};

use crate::again::Again;
use crate::converge::{Restarts, concerns_plans};
use crate::core::Core;
use crate::routing::Route;
use crate::{ShardedStoreBuilder, Stats};

/// One [`EventStore`] over many.
///
/// Routes every execution to its shard by `hash % shard_count`, or by a [`ShardPlan`] that can change
/// while everything runs. Callers need not know that there is more than one store.
///
/// A handle: clones are the same store. Hand one out as `Arc<dyn EventStore>` and keep one to grow, drain
/// and settle with.
///
/// ```
/// use std::sync::Arc;
/// use loom_shard_plan::ShardPlan;
/// use loom_sharded_store::ShardedStore;
/// use loom_spi::{Append, EventStore, ExecutionId, NewEvent};
/// use loom_store_memory::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let store = ShardedStore::builder()
///     .shards((0..4).map(|_| Arc::new(MemoryStore::new()) as Arc<dyn EventStore>))
///     .plan(ShardPlan::new(4)?)
///     .open()
///     .await?;
/// let id = ExecutionId::new("order-7")?;
/// store.append(Append::new(id, 0, vec![NewEvent::new("order.placed", "")])).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Cost
/// A request for a settled bucket goes straight to its shard: no other read, no cache, no lock. One for a
/// migrating bucket costs at most two point-reads more the first time its execution is met, and a cache
/// look-up after that.
///
/// # Capabilities
/// [`Fencing`](loom_spi::Fencing) and [`BranchRegistry`](loom_spi::BranchRegistry) are offered when every
/// shard offers them; the limits are the strictest of the shards. The shards' ledgers and relocation are
/// theirs: this store uses them, and does not pass them on.
#[derive(Clone)]
pub struct ShardedStore {
    pub(crate) core: Arc<Core>,
}

impl ShardedStore {
    /// For shards, a plan and settings.
    pub fn builder() -> ShardedStoreBuilder {
        ShardedStoreBuilder::default()
    }

    /// The plan that requests are routed by at this moment; `None` when they are routed by
    /// `hash % shard_count`.
    #[must_use]
    pub fn plan(&self) -> Option<Arc<ShardPlan>> {
        self.core.current.load().plan().cloned()
    }

    /// The name of that plan.
    #[must_use]
    pub fn epoch(&self) -> Option<PlanEpoch> {
        self.core.current.load().epoch()
    }

    /// The shards that requests are routed to at this moment, ascending.
    #[must_use]
    pub fn shard_ids(&self) -> Vec<ShardId> {
        self.core
            .current
            .load()
            .sides()
            .map(crate::shard::Side::id)
            .collect()
    }

    /// What has been counted since the store was opened.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.core.counters.snapshot(self.core.gate.routed())
    }
}

/// Sends a request for a settled bucket straight to its shard, in one future: that is what nearly every call
/// is, and each further layer would cost as much as the routing does. Everything else is left to the method
/// of [`Core`], which knows what to do about migrating buckets and other plans.
macro_rules! straight {
    ($store:expr, $method:ident, $request:ident) => {{
        let core = &*$store.core;
        let Some(routing) = core.gate.begin() else {
            return Box::pin(core.$method($request)).await;
        };
        let Route::Settled(side) = routing.route($request.id.route_hash()) else {
            drop(routing);
            return Box::pin(core.$method($request)).await;
        };
        side.stamp(&mut $request.epoch);
        let kept = core.may_restart(&routing).then(|| $request.keep());
        let answer = side.store().$method($request).await;
        let Err(error) = answer else { return answer };
        let error = side.blame()(error);
        let again = kept.filter(|_| concerns_plans(&error));
        let (Some(kept), Some(id)) = (again, error.execution().cloned()) else {
            return Err(error);
        };
        let epoch = routing.epoch();
        drop(routing);
        Box::pin(core.converge(&mut Restarts::default(), epoch, error)).await?;
        Box::pin(core.$method(Again::again(kept, id))).await
    }};
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl EventStore for ShardedStore {
    async fn append(&self, mut request: Append) -> Result<Appended, StoreError> {
        self.core.check_limits(&request)?;
        straight!(self, append, request)
    }

    async fn read(&self, mut request: Read) -> Result<ReadPage, StoreError> {
        straight!(self, read, request)
    }

    async fn head(&self, mut request: Head) -> Result<Option<LogHead>, StoreError> {
        straight!(self, head, request)
    }

    async fn list(&self, request: List) -> Result<ListPage, StoreError> {
        self.core.list(request).await
    }

    async fn delete(&self, request: Delete) -> Result<Deleted, StoreError> {
        self.core.gate.count();
        self.core.delete(request).await
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.core.capabilities()
    }
}

impl fmt::Debug for ShardedStore {
    /// Names the plan and the shards, not what they hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedStore")
            .field("epoch", &self.epoch())
            .field("shards", &self.shard_ids())
            .finish_non_exhaustive()
    }
}
