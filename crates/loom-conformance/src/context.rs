//! What a case works with.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use loom_spi::{
    Append, Appended, Branch, BranchRegistry, Children, Event, EventStore, ExecutionId,
    ExecutionSummary, Fencing, Forget, Head, List, LogHead, Operation, Parent, ParentLink,
    PlanLedger, Read, RecordLineage, Relocation, StoreError, StoreErrorKind,
};

use crate::factory::{Close, Hooks};
use crate::outcome::{Stop, Verdict};
use crate::support::{event, events, ids_of, listing, log_in_pages, race};
use crate::{Effort, Need, StoreFactory};

/// A store of its own for each case, with what can be done to it.
pub(crate) struct Cx {
    store: Arc<dyn EventStore>,
    hooks: Hooks,
    effort: Effort,
    spares: Arc<Spares>,
}

impl Cx {
    pub(crate) fn new(store: Arc<dyn EventStore>, hooks: Hooks, spares: Arc<Spares>) -> Self {
        Self {
            store,
            hooks,
            effort: spares.factory.effort(),
            spares,
        }
    }

    /// Another store of the same factory, empty as well.
    pub(crate) async fn another(&self) -> Result<Self, Stop> {
        let made = self.spares.factory.create().await;
        let subject = made.map_err(|error| {
            Stop::failed(format_args!("another store could not be made: {error}"))
        })?;
        self.spares.closes().extend(subject.close);
        Ok(Self::new(
            subject.store,
            subject.hooks,
            Arc::clone(&self.spares),
        ))
    }

    /// Whether the store can be reopened.
    pub(crate) fn reopens(&self) -> bool {
        self.hooks.reopen.is_some()
    }

    pub(crate) fn store(&self) -> &dyn EventStore {
        &*self.store
    }

    /// A handle for another task.
    pub(crate) fn shared(&self) -> Arc<dyn EventStore> {
        Arc::clone(&self.store)
    }

    pub(crate) fn effort(&self) -> &Effort {
        &self.effort
    }

    pub(crate) fn fencing(&self) -> Result<&dyn Fencing, Stop> {
        let offered = self.store.capabilities().fencing;
        offered.ok_or(Stop::Skipped(Need::Fencing))
    }

    pub(crate) fn ledger(&self) -> Result<&dyn PlanLedger, Stop> {
        let offered = self.store.capabilities().ledger;
        offered.ok_or(Stop::Skipped(Need::Ledger))
    }

    pub(crate) fn branches(&self) -> Result<&dyn BranchRegistry, Stop> {
        let offered = self.store.capabilities().branches;
        offered.ok_or(Stop::Skipped(Need::Branches))
    }

    pub(crate) fn relocation(&self) -> Result<&dyn Relocation, Stop> {
        let offered = self.store.capabilities().relocation;
        offered.ok_or(Stop::Skipped(Need::Relocation))
    }

    /// The store's registry, as one that owns itself.
    pub(crate) fn registry(&self) -> Result<Arc<dyn BranchRegistry>, Stop> {
        self.branches()?;
        Ok(Arc::new(StoreRegistry(self.shared())))
    }

    /// Closes the store and opens it again over the same data.
    pub(crate) async fn reopen(mut self) -> Result<Self, Stop> {
        let reopen = self.hooks.reopen.clone();
        let reopen = reopen.ok_or(Stop::Skipped(Need::Reopen))?;
        self.store = reopen(self.store)
            .await
            .map_err(|error| Stop::failed(format_args!("the reopen hook failed: {error}")))?;
        Ok(self)
    }

    /// Moves the store's clock on.
    pub(crate) async fn advance(&self, by: Duration) -> Result<(), Stop> {
        let advance = self.hooks.clock.as_ref();
        let advance = advance.ok_or(Stop::Skipped(Need::Clock))?;
        advance(by)
            .await
            .map_err(|error| Stop::failed(format_args!("the clock hook failed: {error}")))
    }

    /// Makes the store unreachable, or reachable again.
    pub(crate) async fn outage(&self, down: bool) -> Result<(), Stop> {
        let outage = self.hooks.outage.as_ref();
        let outage = outage.ok_or(Stop::Skipped(Need::Outage))?;
        outage(down)
            .await
            .map_err(|error| Stop::failed(format_args!("the outage hook failed: {error}")))
    }

    /// Appends `count` events of [`events`].
    pub(crate) async fn append(
        &self,
        id: &ExecutionId,
        expected: u64,
        count: u64,
    ) -> Result<Appended, StoreError> {
        let events = events(expected, count);
        self.store
            .append(Append::new(id.clone(), expected, events))
            .await
    }

    /// Appends a terminal event.
    pub(crate) async fn close(
        &self,
        id: &ExecutionId,
        expected: u64,
    ) -> Result<Appended, StoreError> {
        let events = vec![event(expected).terminal()];
        self.store
            .append(Append::new(id.clone(), expected, events))
            .await
    }

    pub(crate) async fn head(&self, id: &ExecutionId) -> Result<Option<LogHead>, StoreError> {
        self.store.head(Head::new(id.clone())).await
    }

    /// How many events the log has; 0 when there is none.
    pub(crate) async fn length(&self, id: &ExecutionId) -> Result<u64, StoreError> {
        Ok(self.head(id).await?.map_or(0, |head| head.next_sequence))
    }

    /// The whole log, page by page; every page is checked.
    pub(crate) async fn log(&self, id: &ExecutionId) -> Result<Vec<Event>, Stop> {
        log_in_pages(self.store(), Read::new(id.clone(), 0, 100)).await
    }

    /// The whole listing, page by page; every page is checked.
    pub(crate) async fn listing(&self, request: List) -> Result<Vec<ExecutionSummary>, Stop> {
        listing(self.store(), request).await
    }

    /// The ids of the whole listing.
    pub(crate) async fn ids(&self, request: List) -> Result<Vec<ExecutionId>, Stop> {
        Ok(ids_of(self.listing(request).await?))
    }

    /// Runs `racers` tasks at once and returns what they returned, in no particular order.
    pub(crate) async fn race<T, F>(
        &self,
        racer: impl Fn(usize, Arc<dyn EventStore>) -> F,
    ) -> Result<Vec<T>, Stop>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        race(self.effort.racers, |index| racer(index, self.shared())).await
    }
}

/// What makes the stores of a case, and what has to be done after it.
pub(crate) struct Spares {
    factory: Arc<dyn StoreFactory>,
    closes: Mutex<Vec<Close>>,
}

impl Spares {
    pub(crate) fn new(factory: Arc<dyn StoreFactory>) -> Arc<Self> {
        Arc::new(Self {
            factory,
            closes: Mutex::default(),
        })
    }

    /// What closes the stores that were made so far.
    pub(crate) fn closes(&self) -> MutexGuard<'_, Vec<Close>> {
        self.closes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A branch registry of its own for each case.
pub(crate) struct RegistryCx {
    pub(crate) registry: Arc<dyn BranchRegistry>,
    pub(crate) effort: Effort,
}

impl RegistryCx {
    pub(crate) fn new(registry: Arc<dyn BranchRegistry>, effort: Effort) -> Self {
        Self { registry, effort }
    }
}

impl RegistryCx {
    pub(crate) async fn record(
        &self,
        parent: &ExecutionId,
        child: &ExecutionId,
        label: &str,
    ) -> Verdict {
        let edge = RecordLineage::new(parent.clone(), child.clone(), label.to_owned());
        Ok(self.registry.record_lineage(edge).await?)
    }

    pub(crate) async fn children(&self, parent: &ExecutionId) -> Result<Vec<Branch>, Stop> {
        Ok(self
            .registry
            .children(Children::new(parent.clone()))
            .await?)
    }

    pub(crate) async fn parent(&self, child: &ExecutionId) -> Result<Option<ParentLink>, Stop> {
        Ok(self.registry.parent(Parent::new(child.clone())).await?)
    }

    pub(crate) async fn forget(&self, parent: &ExecutionId) -> Result<u64, Stop> {
        Ok(self.registry.forget(Forget::new(parent.clone())).await?)
    }
}

/// The registry that a store offers, with a life of its own.
#[derive(Debug)]
struct StoreRegistry(Arc<dyn EventStore>);

impl StoreRegistry {
    fn offered(&self, operation: Operation) -> Result<&dyn BranchRegistry, StoreError> {
        self.0.capabilities().branches.ok_or_else(|| {
            let capability = "branches any more, although it did at first";
            StoreError::new(operation, StoreErrorKind::Unsupported { capability })
        })
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl BranchRegistry for StoreRegistry {
    async fn record_lineage(&self, request: RecordLineage) -> Result<(), StoreError> {
        let registry = self.offered(Operation::RecordLineage)?;
        registry.record_lineage(request).await
    }

    async fn children(&self, request: Children) -> Result<Vec<Branch>, StoreError> {
        self.offered(Operation::Children)?.children(request).await
    }

    async fn parent(&self, request: Parent) -> Result<Option<ParentLink>, StoreError> {
        self.offered(Operation::Parent)?.parent(request).await
    }

    async fn forget(&self, request: Forget) -> Result<u64, StoreError> {
        self.offered(Operation::Forget)?.forget(request).await
    }
}
