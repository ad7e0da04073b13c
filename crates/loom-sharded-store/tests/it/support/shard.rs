//! A memory store that counts its calls and fails on demand.

use std::sync::Arc;

use async_trait::async_trait;
use loom_spi::{
    AcquireFence, Append, Appended, Branch, BranchRegistry, Capabilities, Children, Delete,
    Deleted, EventStore, FenceToken, Fencing, Forget, Head, Limits, List, ListCursor, ListPage,
    LogHead, Operation, Parent, ParentLink, PlanEpoch, PlanLedger, Publish, PublishedPlan, Read,
    ReadPage, RecordLineage, ReleaseLease, RenewLease, ShardIdentity, ShardLocation, StoreError,
};
use loom_store_memory::{ManualClock, MemoryStore};

use super::fault::{Call, Fault, Script, lost};

/// One shard of a test.
#[derive(Debug)]
pub(crate) struct TestShard {
    pub(crate) inner: MemoryStore,
    script: Script,
    ledger: bool,
    fencing: bool,
    branches: bool,
    relocation: bool,
    /// Lists no more than this at a time, as a store may.
    page: usize,
}

impl TestShard {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::build(MemoryStore::new()))
    }

    /// Which can seal records, so that live executions move.
    pub(crate) fn relocating() -> Arc<Self> {
        Arc::new(Self {
            relocation: true,
            ..Self::build(MemoryStore::new())
        })
    }

    pub(crate) fn without_ledger() -> Arc<Self> {
        Arc::new(Self {
            ledger: false,
            ..Self::build(MemoryStore::new())
        })
    }

    /// Nothing but the event store.
    pub(crate) fn plain() -> Arc<Self> {
        let plain = Self::build(MemoryStore::new());
        Arc::new(Self {
            ledger: false,
            fencing: false,
            branches: false,
            ..plain
        })
    }

    pub(crate) fn with_limits(limits: Limits) -> Arc<Self> {
        Arc::new(Self::build(MemoryStore::builder().limits(limits).build()))
    }

    pub(crate) fn with_limits_without_ledger(limits: Limits) -> Arc<Self> {
        let limited = Self::build(MemoryStore::builder().limits(limits).build());
        Arc::new(Self {
            ledger: false,
            ..limited
        })
    }

    /// Whose leases lapse by `clock`; without a ledger if asked.
    pub(crate) fn with_clock(clock: &ManualClock, ledger: bool) -> Arc<Self> {
        let inner = MemoryStore::builder().clock(clock.clone()).build();
        Arc::new(Self {
            ledger,
            ..Self::build(inner)
        })
    }

    /// Lists no more than `page` executions at a time.
    pub(crate) fn with_short_pages(page: usize) -> Arc<Self> {
        Arc::new(Self {
            page,
            ledger: false,
            ..Self::build(MemoryStore::new())
        })
    }

    /// Whose first page of a listing is always empty and not the last, as it may be.
    pub(crate) fn with_empty_first_page() -> Arc<Self> {
        Self::with_short_pages(0)
    }

    fn build(inner: MemoryStore) -> Self {
        Self {
            inner,
            script: Script::default(),
            ledger: true,
            fencing: true,
            branches: true,
            relocation: false,
            page: usize::MAX,
        }
    }

    pub(crate) fn down(&self, down: bool) {
        self.script.set_down(down);
    }

    pub(crate) fn fault(&self, fault: Fault) {
        self.script.add(fault);
    }

    /// Something that happens just before the next call of this kind takes effect.
    pub(crate) fn before(&self, call: Call, event: impl FnOnce() + Send + 'static) {
        self.script.before(call, event);
    }

    /// From now on every call lets others go first, before it takes effect and after.
    pub(crate) fn yields(&self) {
        self.script.yields();
    }

    /// From now on every call takes this long, by the clock of the runtime: for tests with `start_paused = true`.
    pub(crate) fn takes(&self, time: std::time::Duration) {
        self.script.takes(time);
    }

    /// The calls since the last time this was asked.
    pub(crate) fn take_calls(&self) -> Vec<Call> {
        self.script.take_calls()
    }

    /// A store without a ledger does not look at the plan of a request.
    fn forget_plan(&self, epoch: &mut Option<PlanEpoch>) {
        if !self.ledger {
            *epoch = None;
        }
    }

    /// Runs a call as the script has it.
    pub(super) async fn run<T>(
        &self,
        call: Call,
        id: Option<&loom_spi::ExecutionId>,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.script.pause().await;
        let lose = self.script.begin(call, id)?;
        self.script.event(call);
        let answer = work.await;
        self.script.pause().await;
        if lose { Err(lost(call, id)) } else { answer }
    }
}

#[async_trait]
impl EventStore for TestShard {
    async fn append(&self, mut request: Append) -> Result<Appended, StoreError> {
        self.forget_plan(&mut request.epoch);
        let id = request.id.clone();
        self.run(Operation::Append, Some(&id), self.inner.append(request))
            .await
    }

    async fn read(&self, mut request: Read) -> Result<ReadPage, StoreError> {
        self.forget_plan(&mut request.epoch);
        let id = request.id.clone();
        self.run(Operation::Read, Some(&id), self.inner.read(request))
            .await
    }

    async fn head(&self, mut request: Head) -> Result<Option<LogHead>, StoreError> {
        self.forget_plan(&mut request.epoch);
        let id = request.id.clone();
        self.run(Operation::Head, Some(&id), self.inner.head(request))
            .await
    }

    async fn list(&self, mut request: List) -> Result<ListPage, StoreError> {
        self.forget_plan(&mut request.epoch);
        if self.page == 0 && request.cursor.is_none() {
            // Whatever comes first in list order comes after this.
            let first = ListCursor::after(&first_in_list_order());
            return Ok(ListPage::new(Vec::new(), Some(first)));
        }
        request.limit = request.limit.min(self.page.max(1));
        self.run(Operation::List, None, self.inner.list(request))
            .await
    }

    async fn delete(&self, mut request: Delete) -> Result<Deleted, StoreError> {
        self.forget_plan(&mut request.epoch);
        let id = request.id.clone();
        self.run(Operation::Delete, Some(&id), self.inner.delete(request))
            .await
    }

    fn capabilities(&self) -> Capabilities<'_> {
        let mut offered = Capabilities::none().with_limits(self.inner.capabilities().limits);
        if self.fencing {
            offered = offered.with_fencing(self);
        }
        if self.ledger {
            offered = offered.with_ledger(self);
        }
        if self.branches {
            offered = offered.with_branches(self);
        }
        if self.relocation {
            offered = offered.with_relocation(self);
        }
        offered
    }
}

#[async_trait]
impl Fencing for TestShard {
    async fn acquire_fence(&self, mut request: AcquireFence) -> Result<FenceToken, StoreError> {
        self.forget_plan(&mut request.epoch);
        let id = request.id.clone();
        self.run(
            Operation::AcquireFence,
            Some(&id),
            self.inner.acquire_fence(request),
        )
        .await
    }

    async fn renew_lease(&self, mut request: RenewLease) -> Result<(), StoreError> {
        self.forget_plan(&mut request.epoch);
        let id = request.id.clone();
        self.run(
            Operation::RenewLease,
            Some(&id),
            self.inner.renew_lease(request),
        )
        .await
    }

    async fn release_lease(&self, mut request: ReleaseLease) -> Result<(), StoreError> {
        self.forget_plan(&mut request.epoch);
        let id = request.id.clone();
        self.run(
            Operation::ReleaseLease,
            Some(&id),
            self.inner.release_lease(request),
        )
        .await
    }
}

#[async_trait]
impl BranchRegistry for TestShard {
    async fn record_lineage(&self, mut request: RecordLineage) -> Result<(), StoreError> {
        self.forget_plan(&mut request.epoch);
        let id = request.parent.clone();
        self.run(
            Operation::RecordLineage,
            Some(&id),
            self.inner.record_lineage(request),
        )
        .await
    }

    async fn children(&self, mut request: Children) -> Result<Vec<Branch>, StoreError> {
        self.forget_plan(&mut request.epoch);
        let id = request.parent.clone();
        self.run(Operation::Children, Some(&id), self.inner.children(request))
            .await
    }

    async fn parent(&self, mut request: Parent) -> Result<Option<ParentLink>, StoreError> {
        self.forget_plan(&mut request.epoch);
        let id = request.child.clone();
        self.run(Operation::Parent, Some(&id), self.inner.parent(request))
            .await
    }

    async fn forget(&self, mut request: Forget) -> Result<u64, StoreError> {
        self.forget_plan(&mut request.epoch);
        let id = request.parent.clone();
        self.run(Operation::Forget, Some(&id), self.inner.forget(request))
            .await
    }
}

#[async_trait]
impl PlanLedger for TestShard {
    async fn current(&self) -> Result<Option<PublishedPlan>, StoreError> {
        self.run(Operation::CurrentPlan, None, self.inner.current())
            .await
    }

    async fn publish(&self, request: Publish) -> Result<(), StoreError> {
        self.run(Operation::PublishPlan, None, self.inner.publish(request))
            .await
    }

    async fn identity(&self) -> Result<Option<ShardIdentity>, StoreError> {
        self.run(Operation::Identity, None, self.inner.identity())
            .await
    }

    async fn initialize(&self, identity: ShardIdentity) -> Result<(), StoreError> {
        self.run(Operation::Identity, None, self.inner.initialize(identity))
            .await
    }

    async fn directory(&self) -> Result<Vec<ShardLocation>, StoreError> {
        self.run(Operation::Directory, None, self.inner.directory())
            .await
    }

    async fn record_locations(&self, locations: Vec<ShardLocation>) -> Result<(), StoreError> {
        self.run(
            Operation::Directory,
            None,
            self.inner.record_locations(locations),
        )
        .await
    }
}

/// An id that precedes those of the tests.
fn first_in_list_order() -> loom_spi::ExecutionId {
    let ids = (0..4096).map(|n| loom_spi::ExecutionId::new(format!("first/{n}")).unwrap());
    ids.min_by_key(|id| id.route_hash().index_key()).unwrap()
}
