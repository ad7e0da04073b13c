//! A store whose plan changes under the case that uses it.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use loom_conformance::{Need, StoreFactory, Subject};
use loom_shard_plan::ShardPlan;
use loom_sharded_store::{MigrateError, ShardedStore};
use loom_spi::{
    Append, Appended, BoxError, Capabilities, Delete, Deleted, EventStore, Head, List, ListPage,
    LogHead, Operation, Read, ReadPage, StoreError, StoreErrorKind,
};
use loom_store_memory::ManualClock;

use super::sharded::{everything_moves, memory_shards};
use super::single::with_clock;

/// A deployment that moves every bucket to other shards in the middle of each case, so that a case finds
/// some of its executions on the sources and some on the destinations.
#[derive(Debug)]
pub(super) struct Growing;

#[async_trait]
impl StoreFactory for Growing {
    async fn create(&self) -> Result<Subject, BoxError> {
        let clock = ManualClock::new();
        let plan = ShardPlan::new(4)?;
        let store = ShardedStore::builder()
            .shards(memory_shards(&clock, 8))
            .plan(plan.clone())
            .open()
            .await?;
        let store = GrowsMeanwhile {
            next: everything_moves(&plan)?,
            store,
            calls: AtomicU64::new(0),
        };
        Ok(with_clock(Subject::new(store), clock))
    }

    fn promises(&self) -> &[Need] {
        &[Need::Fencing, Need::Branches, Need::Clock]
    }
}

/// Publishes the next plan before the call with this number: late enough that most cases have created
/// something, early enough that they have not finished.
const GROWS_AT: u64 = 3;

/// After this many calls, and again each time as many have been made, what is left on the sources is moved.
const MOVES_EVERY: u64 = 16;

#[derive(Debug)]
struct GrowsMeanwhile {
    store: ShardedStore,
    next: ShardPlan,
    calls: AtomicU64,
}

impl GrowsMeanwhile {
    async fn step(&self, operation: Operation) -> Result<(), StoreError> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        if call == GROWS_AT {
            self.store
                .publish(self.next.clone())
                .await
                .map_err(|error| {
                    let reason = format!("the plan was not published: {error}");
                    StoreError::new(
                        operation,
                        StoreErrorKind::Unavailable {
                            reason,
                            outcome_known: true,
                        },
                    )
                })?;
        }
        if call > GROWS_AT && call.is_multiple_of(MOVES_EVERY) {
            self.move_what_may_move().await?;
        }
        Ok(())
    }

    /// Moves the executions that are left on the sources, live ones too.
    async fn move_what_may_move(&self) -> Result<(), StoreError> {
        for bucket in self.store.drain_report().await?.undrained() {
            for id in &bucket.executions {
                match self.store.migrate_execution(id).await {
                    Ok(_) => {}
                    // It was deleted meanwhile.
                    Err(MigrateError::Store(error))
                        if *error.kind() == StoreErrorKind::NotFound => {}
                    Err(MigrateError::Store(error)) => return Err(error),
                    Err(error) => {
                        let kind = StoreErrorKind::Corrupt {
                            reason: format!("it could not be moved: {error}"),
                        };
                        return Err(StoreError::new(Operation::Migrate, kind).with_execution(id));
                    }
                }
            }
        }
        Ok(())
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl EventStore for GrowsMeanwhile {
    async fn append(&self, request: Append) -> Result<Appended, StoreError> {
        self.step(Operation::Append).await?;
        self.store.append(request).await
    }

    async fn read(&self, request: Read) -> Result<ReadPage, StoreError> {
        self.step(Operation::Read).await?;
        self.store.read(request).await
    }

    async fn head(&self, request: Head) -> Result<Option<LogHead>, StoreError> {
        self.step(Operation::Head).await?;
        self.store.head(request).await
    }

    async fn list(&self, request: List) -> Result<ListPage, StoreError> {
        self.step(Operation::List).await?;
        self.store.list(request).await
    }

    async fn delete(&self, request: Delete) -> Result<Deleted, StoreError> {
        self.step(Operation::Delete).await?;
        self.store.delete(request).await
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.store.capabilities()
    }
}
