//! A sound store that makes life hard.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use async_trait::async_trait;
use loom_spi::{
    AcquireFence, Append, Appended, Branch, BranchRegistry, Capabilities, Children, Delete,
    Deleted, EventStore, ExecutionId, FenceToken, Fencing, Forget, Head, List, ListPage, LogHead,
    Operation, Parent, ParentLink, PlanLedger, Publish, PublishedPlan, Read, ReadPage,
    RecordLineage, ReleaseLease, RenewLease, ShardIdentity, ShardLocation, StoreError,
    StoreErrorKind,
};

use super::notes::pause;

/// A store that does right, in every way that the contract allows to be awkward: it can be cut off, it lets
/// others run before and after each operation, and its pages are short.
///
/// For suites and callers that must not rely on a store being quick, near and generous.
///
/// ```
/// use std::sync::Arc;
/// use loom_conformance::Subject;
/// use loom_conformance::broken::{Awkward, Outage};
/// use loom_store_memory::MemoryStore;
///
/// let store = Arc::new(Awkward::new(Arc::new(MemoryStore::new())).pausing().with_pages_of(3));
/// let switch = Arc::clone(&store);
/// let subject = Subject::from_arc(store).with_outage(move |down| {
///     switch.set_outage(if down { Outage::Unreachable } else { Outage::None });
///     async { Ok(()) }
/// });
/// # drop(subject);
/// ```
#[derive(Debug)]
pub struct Awkward {
    inner: Arc<dyn EventStore>,
    outage: AtomicU8,
    pausing: bool,
    page: usize,
}

/// How a store is cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outage {
    /// Not at all.
    #[default]
    None,
    /// Nothing reaches it: `Unavailable`, with a known outcome.
    Unreachable,
    /// Everything reaches it, but its answers are lost: `Unavailable`, with an unknown outcome.
    AnswersLost,
}

impl Awkward {
    /// A store that can be reached for now, and is not awkward yet.
    #[must_use]
    pub fn new(store: Arc<dyn EventStore>) -> Self {
        Self {
            inner: store,
            outage: AtomicU8::new(0),
            pausing: false,
            page: usize::MAX,
        }
    }

    /// Lets others run before and after each operation, so that its future is pending several times.
    #[must_use]
    pub fn pausing(mut self) -> Self {
        self.pausing = true;
        self
    }

    /// Makes pages of at most this many rows, at least 1, whatever is asked for.
    #[must_use]
    pub fn with_pages_of(mut self, rows: usize) -> Self {
        self.page = rows.max(1);
        self
    }

    /// Cuts the store off, or makes it reachable again.
    pub fn set_outage(&self, outage: Outage) {
        let code = match outage {
            Outage::None => 0,
            Outage::Unreachable => 1,
            Outage::AnswersLost => 2,
        };
        self.outage.store(code, Ordering::SeqCst);
    }

    /// On the way to the store.
    async fn reach(
        &self,
        operation: Operation,
        id: Option<&ExecutionId>,
    ) -> Result<(), StoreError> {
        if self.pausing {
            pause().await;
        }
        match self.outage.load(Ordering::SeqCst) {
            1 => Err(cut_off(operation, id, true)),
            _ => Ok(()),
        }
    }

    /// On the way back.
    async fn answer<T>(
        &self,
        operation: Operation,
        id: Option<&ExecutionId>,
        answer: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.pausing {
            pause().await;
        }
        match self.outage.load(Ordering::SeqCst) {
            2 => Err(cut_off(operation, id, false)),
            _ => answer,
        }
    }
}

fn cut_off(operation: Operation, id: Option<&ExecutionId>, outcome_known: bool) -> StoreError {
    let kind = StoreErrorKind::Unavailable {
        reason: "it was cut off".to_owned(),
        outcome_known,
    };
    let error = StoreError::new(operation, kind);
    match id {
        Some(id) => error.with_execution(id),
        None => error,
    }
}

fn missing(operation: Operation, capability: &'static str) -> StoreError {
    StoreError::new(operation, StoreErrorKind::Unsupported { capability })
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl EventStore for Awkward {
    async fn append(&self, request: Append) -> Result<Appended, StoreError> {
        let id = request.id.clone();
        self.reach(Operation::Append, Some(&id)).await?;
        let answer = self.inner.append(request).await;
        self.answer(Operation::Append, Some(&id), answer).await
    }

    async fn read(&self, mut request: Read) -> Result<ReadPage, StoreError> {
        let id = request.id.clone();
        request.limit = request.limit.min(self.page);
        self.reach(Operation::Read, Some(&id)).await?;
        let answer = self.inner.read(request).await;
        self.answer(Operation::Read, Some(&id), answer).await
    }

    async fn head(&self, request: Head) -> Result<Option<LogHead>, StoreError> {
        let id = request.id.clone();
        self.reach(Operation::Head, Some(&id)).await?;
        let answer = self.inner.head(request).await;
        self.answer(Operation::Head, Some(&id), answer).await
    }

    async fn list(&self, mut request: List) -> Result<ListPage, StoreError> {
        request.limit = request.limit.min(self.page);
        self.reach(Operation::List, None).await?;
        let answer = self.inner.list(request).await;
        self.answer(Operation::List, None, answer).await
    }

    async fn delete(&self, request: Delete) -> Result<Deleted, StoreError> {
        let id = request.id.clone();
        self.reach(Operation::Delete, Some(&id)).await?;
        let answer = self.inner.delete(request).await;
        self.answer(Operation::Delete, Some(&id), answer).await
    }

    fn capabilities(&self) -> Capabilities<'_> {
        let real = self.inner.capabilities();
        let mut offered = Capabilities::none().with_limits(real.limits);
        if real.fencing.is_some() {
            offered = offered.with_fencing(self);
        }
        if real.ledger.is_some() {
            offered = offered.with_ledger(self);
        }
        if real.branches.is_some() {
            offered = offered.with_branches(self);
        }
        offered
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Fencing for Awkward {
    async fn acquire_fence(&self, request: AcquireFence) -> Result<FenceToken, StoreError> {
        let id = request.id.clone();
        let inner = self.inner.capabilities().fencing;
        let inner = inner.ok_or_else(|| missing(Operation::AcquireFence, "fencing"))?;
        self.reach(Operation::AcquireFence, Some(&id)).await?;
        let answer = inner.acquire_fence(request).await;
        self.answer(Operation::AcquireFence, Some(&id), answer)
            .await
    }

    async fn renew_lease(&self, request: RenewLease) -> Result<(), StoreError> {
        let id = request.id.clone();
        let inner = self.inner.capabilities().fencing;
        let inner = inner.ok_or_else(|| missing(Operation::RenewLease, "fencing"))?;
        self.reach(Operation::RenewLease, Some(&id)).await?;
        let answer = inner.renew_lease(request).await;
        self.answer(Operation::RenewLease, Some(&id), answer).await
    }

    async fn release_lease(&self, request: ReleaseLease) -> Result<(), StoreError> {
        let id = request.id.clone();
        let inner = self.inner.capabilities().fencing;
        let inner = inner.ok_or_else(|| missing(Operation::ReleaseLease, "fencing"))?;
        self.reach(Operation::ReleaseLease, Some(&id)).await?;
        let answer = inner.release_lease(request).await;
        self.answer(Operation::ReleaseLease, Some(&id), answer)
            .await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl PlanLedger for Awkward {
    async fn current(&self) -> Result<Option<PublishedPlan>, StoreError> {
        let inner = self.inner.capabilities().ledger;
        let inner = inner.ok_or_else(|| missing(Operation::CurrentPlan, "a plan ledger"))?;
        self.reach(Operation::CurrentPlan, None).await?;
        let answer = inner.current().await;
        self.answer(Operation::CurrentPlan, None, answer).await
    }

    async fn publish(&self, request: Publish) -> Result<(), StoreError> {
        let inner = self.inner.capabilities().ledger;
        let inner = inner.ok_or_else(|| missing(Operation::PublishPlan, "a plan ledger"))?;
        self.reach(Operation::PublishPlan, None).await?;
        let answer = inner.publish(request).await;
        self.answer(Operation::PublishPlan, None, answer).await
    }

    async fn identity(&self) -> Result<Option<ShardIdentity>, StoreError> {
        let inner = self.inner.capabilities().ledger;
        let inner = inner.ok_or_else(|| missing(Operation::Identity, "a plan ledger"))?;
        self.reach(Operation::Identity, None).await?;
        let answer = inner.identity().await;
        self.answer(Operation::Identity, None, answer).await
    }

    async fn initialize(&self, identity: ShardIdentity) -> Result<(), StoreError> {
        let inner = self.inner.capabilities().ledger;
        let inner = inner.ok_or_else(|| missing(Operation::Identity, "a plan ledger"))?;
        self.reach(Operation::Identity, None).await?;
        let answer = inner.initialize(identity).await;
        self.answer(Operation::Identity, None, answer).await
    }

    async fn directory(&self) -> Result<Vec<ShardLocation>, StoreError> {
        let inner = self.inner.capabilities().ledger;
        let inner = inner.ok_or_else(|| missing(Operation::Directory, "a plan ledger"))?;
        self.reach(Operation::Directory, None).await?;
        let answer = inner.directory().await;
        self.answer(Operation::Directory, None, answer).await
    }

    async fn record_locations(&self, locations: Vec<ShardLocation>) -> Result<(), StoreError> {
        let inner = self.inner.capabilities().ledger;
        let inner = inner.ok_or_else(|| missing(Operation::Directory, "a plan ledger"))?;
        self.reach(Operation::Directory, None).await?;
        let answer = inner.record_locations(locations).await;
        self.answer(Operation::Directory, None, answer).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl BranchRegistry for Awkward {
    async fn record_lineage(&self, request: RecordLineage) -> Result<(), StoreError> {
        let id = request.parent.clone();
        let inner = self.inner.capabilities().branches;
        let inner = inner.ok_or_else(|| missing(Operation::RecordLineage, "branches"))?;
        self.reach(Operation::RecordLineage, Some(&id)).await?;
        let answer = inner.record_lineage(request).await;
        self.answer(Operation::RecordLineage, Some(&id), answer)
            .await
    }

    async fn children(&self, request: Children) -> Result<Vec<Branch>, StoreError> {
        let id = request.parent.clone();
        let inner = self.inner.capabilities().branches;
        let inner = inner.ok_or_else(|| missing(Operation::Children, "branches"))?;
        self.reach(Operation::Children, Some(&id)).await?;
        let answer = inner.children(request).await;
        self.answer(Operation::Children, Some(&id), answer).await
    }

    async fn parent(&self, request: Parent) -> Result<Option<ParentLink>, StoreError> {
        let id = request.child.clone();
        let inner = self.inner.capabilities().branches;
        let inner = inner.ok_or_else(|| missing(Operation::Parent, "branches"))?;
        self.reach(Operation::Parent, Some(&id)).await?;
        let answer = inner.parent(request).await;
        self.answer(Operation::Parent, Some(&id), answer).await
    }

    async fn forget(&self, request: Forget) -> Result<u64, StoreError> {
        let id = request.parent.clone();
        let inner = self.inner.capabilities().branches;
        let inner = inner.ok_or_else(|| missing(Operation::Forget, "branches"))?;
        self.reach(Operation::Forget, Some(&id)).await?;
        let answer = inner.forget(request).await;
        self.answer(Operation::Forget, Some(&id), answer).await
    }
}
