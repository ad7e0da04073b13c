//! The sharded store is an event store, whatever its plan is doing.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use loom_conformance::{Need, StoreFactory, Subject};
use loom_shard_plan::{RebalanceOptions, ShardPlan};
use loom_sharded_store::ShardedStore;
use loom_spi::{
    AcquireFence, Append, Appended, BoxError, Branch, BranchRegistry, Capabilities, Children,
    Delete, Deleted, EventStore, ExecutionId, FenceToken, Fencing, Forget, Head, List, ListPage,
    LogHead, Parent, ParentLink, Read, ReadPage, RecordLineage, ReleaseLease, RenewLease,
    StoreError,
};
use loom_store_memory::ManualClock;
use tokio::sync::{Mutex, RwLock};

use crate::support::{TestShard, all_to, on_shard_0, stores};

/// Makes the store of a case of its shards.
type Make = fn(Vec<Arc<TestShard>>) -> BoxFuture<'static, Result<Arc<dyn EventStore>, BoxError>>;

/// A sharded store over shards whose clock can be moved on, and which outlive it.
struct Deployment {
    shards: usize,
    ledgers: bool,
    make: Make,
    /// Opens what is there again.
    reopens: bool,
}

#[async_trait]
impl StoreFactory for Deployment {
    async fn create(&self) -> Result<Subject, BoxError> {
        let clock = ManualClock::new();
        let shards: Vec<Arc<TestShard>> = (0..self.shards)
            .map(|_| TestShard::with_clock(&clock, self.ledgers))
            .collect();
        let store = (self.make)(shards.clone()).await?;
        let subject = Subject::from_arc(store);
        let outage = shards.clone();
        let subject = subject
            .with_clock(move |by: Duration| {
                clock.advance(by);
                async { Ok(()) }
            })
            .with_outage(move |down| {
                outage.iter().for_each(|shard| shard.down(down));
                async { Ok(()) }
            });
        if !self.reopens {
            return Ok(subject);
        }
        let make = self.make;
        Ok(subject.with_reopen(move |_| make(shards.clone())))
    }

    fn promises(&self) -> &[Need] {
        if self.reopens {
            &[
                Need::Fencing,
                Need::Branches,
                Need::Clock,
                Need::Outage,
                Need::Reopen,
            ]
        } else {
            &[Need::Fencing, Need::Branches, Need::Clock, Need::Outage]
        }
    }
}

fn unplanned(
    shards: Vec<Arc<TestShard>>,
) -> BoxFuture<'static, Result<Arc<dyn EventStore>, BoxError>> {
    Box::pin(async move {
        let store = ShardedStore::builder()
            .shards(stores(&shards))
            .open()
            .await?;
        Ok(Arc::new(store) as Arc<dyn EventStore>)
    })
}

fn planned(
    shards: Vec<Arc<TestShard>>,
) -> BoxFuture<'static, Result<Arc<dyn EventStore>, BoxError>> {
    Box::pin(async move {
        let plan = ShardPlan::new(4)?;
        let store = ShardedStore::builder()
            .shards(stores(&shards))
            .plan(plan)
            .open()
            .await?;
        Ok(Arc::new(store) as Arc<dyn EventStore>)
    })
}

/// In the middle of growing from four shards to five: a fifth of the buckets migrates.
fn growing(
    shards: Vec<Arc<TestShard>>,
) -> BoxFuture<'static, Result<Arc<dyn EventStore>, BoxError>> {
    Box::pin(async move {
        let store = ShardedStore::builder()
            .shards(stores(&shards))
            .plan(ShardPlan::new(4)?)
            .open()
            .await?;
        let plan = store.plan().ok_or("no plan")?;
        if !plan.is_migrating() {
            store
                .publish(plan.rebalanced(5, RebalanceOptions::default())?)
                .await?;
        }
        Ok(Arc::new(store) as Arc<dyn EventStore>)
    })
}

/// Every bucket migrates. Executions with an odd hash begin, and are fenced, on the source, through a store
/// that still is under the plan before; and now and then one is moved.
fn half_moved(
    shards: Vec<Arc<TestShard>>,
) -> BoxFuture<'static, Result<Arc<dyn EventStore>, BoxError>> {
    Box::pin(async move {
        let (before, now) = (on_shard_0(), all_to(&on_shard_0(), 1));
        let old = ShardedStore::builder()
            .shards(stores(&shards))
            .plan(before)
            .open()
            .await?;
        let new = ShardedStore::builder()
            .shards(stores(&shards))
            .plan(now)
            .open()
            .await?;
        Ok(Arc::new(HalfMoved {
            old,
            new,
            met: Mutex::default(),
            calls: AtomicU64::new(0),
        }) as Arc<dyn EventStore>)
    })
}

/// Two processes, and a plan that turns back and forth under them: every few calls, what was on its way from
/// one shard to the other is on its way back.
fn turning(
    shards: Vec<Arc<TestShard>>,
) -> BoxFuture<'static, Result<Arc<dyn EventStore>, BoxError>> {
    Box::pin(async move {
        let open = || {
            ShardedStore::builder()
                .shards(stores(&shards))
                .plan(on_shard_0())
                .open()
        };
        let nodes = [open().await?, open().await?];
        let plan = nodes[0].plan().ok_or("no plan")?;
        if !plan.is_migrating() {
            nodes[0].publish(all_to(&plan, 1)).await?;
        }
        Ok(Arc::new(Turning {
            nodes,
            calls: AtomicU64::new(0),
            moving: RwLock::default(),
        }) as Arc<dyn EventStore>)
    })
}

loom_conformance::event_store!(
    unplanned_memory,
    Deployment {
        shards: 4,
        ledgers: true,
        make: unplanned,
        reopens: true
    }
);
loom_conformance::event_store!(
    planned_memory,
    Deployment {
        shards: 4,
        ledgers: true,
        make: planned,
        reopens: true
    }
);
loom_conformance::event_store!(
    growing_memory,
    Deployment {
        shards: 5,
        ledgers: true,
        make: growing,
        reopens: true
    }
);
loom_conformance::event_store!(
    half_moved_memory,
    Deployment {
        shards: 2,
        ledgers: false,
        make: half_moved,
        reopens: false
    }
);
loom_conformance::event_store!(
    turning_memory,
    Deployment {
        shards: 2,
        ledgers: true,
        make: turning,
        reopens: false
    }
);

#[derive(Debug)]
struct HalfMoved {
    old: ShardedStore,
    new: ShardedStore,
    /// The ids that the old store may not work on any more. Under a plan of its own it would not be served at
    /// all: here it may take fences and begin an execution, until the new one has worked on it.
    met: Mutex<HashSet<ExecutionId>>,
    calls: AtomicU64,
}

impl HalfMoved {
    /// The store for what may come before an execution, or begin it.
    fn beginning(&self, met: &HashSet<ExecutionId>, id: &ExecutionId) -> &ShardedStore {
        if id.route_hash().0 % 2 == 1 && !met.contains(id) {
            &self.old
        } else {
            &self.new
        }
    }

    /// Moves every third execution that can be moved.
    async fn perhaps_move(&self, id: &ExecutionId) {
        if self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) {
            // Live ones stay.
            let _ = self.new.migrate_execution(id).await;
        }
    }
}

#[async_trait]
impl EventStore for HalfMoved {
    async fn append(&self, request: Append) -> Result<Appended, StoreError> {
        let id = request.id.clone();
        let mut met = self.met.lock().await;
        let store = self.beginning(&met, &id);
        let appended = store.append(request).await?;
        met.insert(id.clone());
        drop(met);
        self.perhaps_move(&id).await;
        Ok(appended)
    }

    async fn read(&self, request: Read) -> Result<ReadPage, StoreError> {
        let id = request.id.clone();
        let page = self.new.read(request).await?;
        self.perhaps_move(&id).await;
        Ok(page)
    }

    async fn head(&self, request: Head) -> Result<Option<LogHead>, StoreError> {
        self.new.head(request).await
    }

    async fn list(&self, request: List) -> Result<ListPage, StoreError> {
        self.new.list(request).await
    }

    async fn delete(&self, request: Delete) -> Result<Deleted, StoreError> {
        self.new.delete(request).await
    }

    fn capabilities(&self) -> Capabilities<'_> {
        let limits = self.new.capabilities().limits;
        Capabilities::none()
            .with_limits(limits)
            .with_fencing(self)
            .with_branches(self)
    }
}

#[async_trait]
impl Fencing for HalfMoved {
    async fn acquire_fence(&self, request: AcquireFence) -> Result<FenceToken, StoreError> {
        let met = self.met.lock().await;
        fencing(self.beginning(&met, &request.id))
            .acquire_fence(request)
            .await
    }

    async fn renew_lease(&self, request: RenewLease) -> Result<(), StoreError> {
        fencing(&self.new).renew_lease(request).await
    }

    async fn release_lease(&self, request: ReleaseLease) -> Result<(), StoreError> {
        fencing(&self.new).release_lease(request).await
    }
}

#[async_trait]
impl BranchRegistry for HalfMoved {
    async fn record_lineage(&self, request: RecordLineage) -> Result<(), StoreError> {
        let mut met = self.met.lock().await;
        // That the child has no other parent is the new store's to see.
        met.insert(request.parent.clone());
        branches(&self.new).record_lineage(request).await
    }

    async fn children(&self, request: Children) -> Result<Vec<Branch>, StoreError> {
        self.perhaps_move(&request.parent).await;
        branches(&self.new).children(request).await
    }

    async fn parent(&self, request: Parent) -> Result<Option<ParentLink>, StoreError> {
        branches(&self.new).parent(request).await
    }

    async fn forget(&self, request: Forget) -> Result<u64, StoreError> {
        branches(&self.new).forget(request).await
    }
}

#[derive(Debug)]
struct Turning {
    nodes: [ShardedStore; 2],
    calls: AtomicU64,
    /// A move without relocation needs that no other process works on its execution.
    moving: RwLock<()>,
}

impl Turning {
    /// The node whose turn it is; every now and then it turns the plan round or moves something first.
    async fn node(&self, id: Option<&ExecutionId>) -> &ShardedStore {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let node = &self.nodes[usize::from(call % 2 == 1)];
        if call.is_multiple_of(7) {
            let plan = self.nodes[0].plan().unwrap();
            let buckets = plan.migrating().map(|migration| migration.bucket);
            let back = plan.reverted_all(buckets).unwrap();
            // Another call may have published first.
            let _ = self.nodes[0].publish(back).await;
        }
        if let Some(id) = id.filter(|_| call.is_multiple_of(3)) {
            let _alone = self.moving.write().await;
            let _ = node.migrate_execution(id).await;
        }
        node
    }
}

#[async_trait]
impl EventStore for Turning {
    async fn append(&self, request: Append) -> Result<Appended, StoreError> {
        let node = self.node(Some(&request.id)).await;
        let _no_move = self.moving.read().await;
        node.append(request).await
    }

    async fn read(&self, request: Read) -> Result<ReadPage, StoreError> {
        self.node(Some(&request.id)).await.read(request).await
    }

    async fn head(&self, request: Head) -> Result<Option<LogHead>, StoreError> {
        self.node(Some(&request.id)).await.head(request).await
    }

    async fn list(&self, request: List) -> Result<ListPage, StoreError> {
        self.node(None).await.list(request).await
    }

    async fn delete(&self, request: Delete) -> Result<Deleted, StoreError> {
        let node = self.node(Some(&request.id)).await;
        let _no_move = self.moving.read().await;
        node.delete(request).await
    }

    fn capabilities(&self) -> Capabilities<'_> {
        let limits = self.nodes[0].capabilities().limits;
        Capabilities::none()
            .with_limits(limits)
            .with_fencing(self)
            .with_branches(self)
    }
}

#[async_trait]
impl Fencing for Turning {
    async fn acquire_fence(&self, request: AcquireFence) -> Result<FenceToken, StoreError> {
        let node = self.node(Some(&request.id)).await;
        let _no_move = self.moving.read().await;
        fencing(node).acquire_fence(request).await
    }

    async fn renew_lease(&self, request: RenewLease) -> Result<(), StoreError> {
        let node = self.node(None).await;
        let _no_move = self.moving.read().await;
        fencing(node).renew_lease(request).await
    }

    async fn release_lease(&self, request: ReleaseLease) -> Result<(), StoreError> {
        let node = self.node(None).await;
        let _no_move = self.moving.read().await;
        fencing(node).release_lease(request).await
    }
}

#[async_trait]
impl BranchRegistry for Turning {
    async fn record_lineage(&self, request: RecordLineage) -> Result<(), StoreError> {
        // One process records for all: what makes two of them agree on a child's parent is relocation's and
        // the shards' to do.
        let _node = self.node(Some(&request.parent)).await;
        let _no_move = self.moving.read().await;
        branches(&self.nodes[0]).record_lineage(request).await
    }

    async fn children(&self, request: Children) -> Result<Vec<Branch>, StoreError> {
        branches(self.node(None).await).children(request).await
    }

    async fn parent(&self, request: Parent) -> Result<Option<ParentLink>, StoreError> {
        branches(self.node(None).await).parent(request).await
    }

    async fn forget(&self, request: Forget) -> Result<u64, StoreError> {
        let node = self.node(None).await;
        let _no_move = self.moving.read().await;
        branches(node).forget(request).await
    }
}

fn fencing(store: &ShardedStore) -> &dyn Fencing {
    store.capabilities().fencing.unwrap()
}

fn branches(store: &ShardedStore) -> &dyn BranchRegistry {
    store.capabilities().branches.unwrap()
}
