//! A memory store that records what was done to it, and does it again when it is reopened.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use async_trait::async_trait;
use loom_spi::{
    AcquireFence, Append, Appended, Branch, BranchRegistry, Capabilities, Children, Delete,
    Deleted, EventStore, FenceToken, Fencing, Forget, Head, Import, Imported, Inspect, List,
    ListPage, LogHead, Parent, ParentLink, PlanLedger, Publish, PublishedPlan, Read, ReadPage,
    RecordLineage, RecordPage, RecordSummary, Records, ReleaseLease, Relocation, RenewLease,
    Retire, Seal, SealedRecord, ShardIdentity, ShardLocation, StoreError, Unseal,
};
use loom_store_memory::MemoryStore;

use crate::losses::{Done, Loss, lose};

/// The store.
#[derive(Debug)]
pub(crate) struct Tape {
    store: RwLock<Arc<MemoryStore>>,
    done: Mutex<Vec<Done>>,
}

impl Tape {
    pub(crate) fn new() -> Self {
        Self {
            store: RwLock::new(Arc::new(MemoryStore::new())),
            done: Mutex::default(),
        }
    }

    fn store(&self) -> Arc<MemoryStore> {
        Arc::clone(&self.store.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn record(&self, done: Done) {
        let mut tape = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        tape.push(done);
    }

    /// Starts from nothing and does everything again, except for what is lost.
    pub(crate) async fn replay(&self, loss: Option<Loss>) -> Result<(), StoreError> {
        let mut tape = self
            .done
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(loss) = loss {
            lose(loss, &mut tape);
        }
        let new = MemoryStore::new();
        for done in tape {
            match done {
                Done::Append(request) => new.append(request).await.map(drop)?,
                Done::Delete(request) => new.delete(request).await.map(drop)?,
                Done::Acquire(request, token) => {
                    let request = request.with_floor(token).with_take_over(true);
                    new.acquire_fence(request).await.map(drop)?;
                }
                Done::Record(request) => new.record_lineage(request).await?,
                Done::Forget(request) => new.forget(request).await.map(drop)?,
                Done::Publish(request) => new.publish(request).await?,
                Done::Initialize(identity) => new.initialize(identity).await?,
                Done::Locations(locations) => new.record_locations(locations).await?,
                Done::Seal(request) => new.seal(request).await.map(drop)?,
                Done::Unseal(request) => new.unseal(request).await?,
                Done::Retire(request) => new.retire(request).await?,
                Done::Import(request) => new.import(request).await.map(drop)?,
            }
        }
        *self.store.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
        Ok(())
    }
}

#[async_trait]
impl EventStore for Tape {
    async fn append(&self, request: Append) -> Result<Appended, StoreError> {
        let appended = self.store().append(request.clone()).await?;
        self.record(Done::Append(request));
        Ok(appended)
    }

    async fn read(&self, request: Read) -> Result<ReadPage, StoreError> {
        self.store().read(request).await
    }

    async fn head(&self, request: Head) -> Result<Option<LogHead>, StoreError> {
        self.store().head(request).await
    }

    async fn list(&self, request: List) -> Result<ListPage, StoreError> {
        self.store().list(request).await
    }

    async fn delete(&self, request: Delete) -> Result<Deleted, StoreError> {
        let deleted = self.store().delete(request.clone()).await?;
        self.record(Done::Delete(request));
        Ok(deleted)
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::none()
            .with_fencing(self)
            .with_ledger(self)
            .with_branches(self)
            .with_relocation(self)
    }
}

#[async_trait]
impl Relocation for Tape {
    async fn inspect(&self, request: Inspect) -> Result<Option<RecordSummary>, StoreError> {
        self.store().inspect(request).await
    }

    async fn seal(&self, request: Seal) -> Result<SealedRecord, StoreError> {
        let sealed = self.store().seal(request.clone()).await?;
        self.record(Done::Seal(request));
        Ok(sealed)
    }

    async fn import(&self, request: Import) -> Result<Imported, StoreError> {
        let imported = self.store().import(request.clone()).await?;
        self.record(Done::Import(request));
        Ok(imported)
    }

    async fn retire(&self, request: Retire) -> Result<(), StoreError> {
        self.store().retire(request.clone()).await?;
        self.record(Done::Retire(request));
        Ok(())
    }

    async fn unseal(&self, request: Unseal) -> Result<(), StoreError> {
        self.store().unseal(request.clone()).await?;
        self.record(Done::Unseal(request));
        Ok(())
    }

    async fn records(&self, request: Records) -> Result<RecordPage, StoreError> {
        self.store().records(request).await
    }
}

#[async_trait]
impl Fencing for Tape {
    async fn acquire_fence(&self, request: AcquireFence) -> Result<FenceToken, StoreError> {
        let token = self.store().acquire_fence(request.clone()).await?;
        self.record(Done::Acquire(request, token));
        Ok(token)
    }

    // Leases are not kept: they need not be.
    async fn renew_lease(&self, request: RenewLease) -> Result<(), StoreError> {
        self.store().renew_lease(request).await
    }

    async fn release_lease(&self, request: ReleaseLease) -> Result<(), StoreError> {
        self.store().release_lease(request).await
    }
}

#[async_trait]
impl PlanLedger for Tape {
    async fn current(&self) -> Result<Option<PublishedPlan>, StoreError> {
        self.store().current().await
    }

    async fn publish(&self, request: Publish) -> Result<(), StoreError> {
        self.store().publish(request.clone()).await?;
        self.record(Done::Publish(request));
        Ok(())
    }

    async fn identity(&self) -> Result<Option<ShardIdentity>, StoreError> {
        self.store().identity().await
    }

    async fn initialize(&self, identity: ShardIdentity) -> Result<(), StoreError> {
        self.store().initialize(identity.clone()).await?;
        self.record(Done::Initialize(identity));
        Ok(())
    }

    async fn directory(&self) -> Result<Vec<ShardLocation>, StoreError> {
        self.store().directory().await
    }

    async fn record_locations(&self, locations: Vec<ShardLocation>) -> Result<(), StoreError> {
        self.store().record_locations(locations.clone()).await?;
        self.record(Done::Locations(locations));
        Ok(())
    }
}

#[async_trait]
impl BranchRegistry for Tape {
    async fn record_lineage(&self, request: RecordLineage) -> Result<(), StoreError> {
        self.store().record_lineage(request.clone()).await?;
        self.record(Done::Record(request));
        Ok(())
    }

    async fn children(&self, request: Children) -> Result<Vec<Branch>, StoreError> {
        self.store().children(request).await
    }

    async fn parent(&self, request: Parent) -> Result<Option<ParentLink>, StoreError> {
        self.store().parent(request).await
    }

    async fn forget(&self, request: Forget) -> Result<u64, StoreError> {
        let forgotten = self.store().forget(request.clone()).await?;
        self.record(Done::Forget(request));
        Ok(forgotten)
    }
}
