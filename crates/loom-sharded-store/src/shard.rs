//! One shard, as an operation reaches it.

use std::fmt;
use std::sync::Arc;

use loom_shard_plan::ShardId;
use loom_spi::{
    Append, Appended, BranchRegistry, Delete, Deleted, EventStore, Fencing, Head, List, ListPage,
    LogHead, Operation, PlanEpoch, Read, ReadPage, StoreError, StoreErrorKind,
};

/// A store and its number in the plan.
#[derive(Clone)]
pub(crate) struct Shard {
    pub(crate) id: ShardId,
    pub(crate) store: Arc<dyn EventStore>,
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.id, self.store)
    }
}

/// A shard under the plan of the operation at hand: puts the epoch on every request and the shard on
/// every error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side<'a> {
    shard: &'a Shard,
    epoch: &'a Option<PlanEpoch>,
}

impl<'a> Side<'a> {
    pub(crate) fn new(shard: &'a Shard, epoch: &'a Option<PlanEpoch>) -> Self {
        Self { shard, epoch }
    }

    pub(crate) fn id(self) -> ShardId {
        self.shard.id
    }

    /// Puts the plan on a request. Outside a plan the caller's own stays.
    pub(crate) fn stamp(self, epoch: &mut Option<PlanEpoch>) {
        if self.epoch.is_some() {
            *epoch = *self.epoch;
        }
    }

    pub(crate) fn shard(self) -> &'a Shard {
        self.shard
    }

    pub(crate) fn store(self) -> &'a dyn EventStore {
        &*self.shard.store
    }

    /// Names this shard in an error.
    pub(crate) fn blame(self) -> impl Fn(StoreError) -> StoreError {
        let id = self.id().get();
        move |error| error.with_shard(id)
    }

    pub(crate) async fn append(self, mut request: Append) -> Result<Appended, StoreError> {
        self.stamp(&mut request.epoch);
        self.store().append(request).await.map_err(self.blame())
    }

    pub(crate) async fn read(self, mut request: Read) -> Result<ReadPage, StoreError> {
        self.stamp(&mut request.epoch);
        self.store().read(request).await.map_err(self.blame())
    }

    pub(crate) async fn head(self, mut request: Head) -> Result<Option<LogHead>, StoreError> {
        self.stamp(&mut request.epoch);
        self.store().head(request).await.map_err(self.blame())
    }

    pub(crate) async fn list(self, mut request: List) -> Result<ListPage, StoreError> {
        self.stamp(&mut request.epoch);
        self.store().list(request).await.map_err(self.blame())
    }

    pub(crate) async fn delete(self, mut request: Delete) -> Result<Deleted, StoreError> {
        self.stamp(&mut request.epoch);
        self.store().delete(request).await.map_err(self.blame())
    }

    pub(crate) fn fencing(self, operation: Operation) -> Result<&'a dyn Fencing, StoreError> {
        self.store()
            .capabilities()
            .fencing
            .ok_or_else(|| self.unsupported(operation, "fencing"))
    }

    pub(crate) fn branches(
        self,
        operation: Operation,
    ) -> Result<&'a dyn BranchRegistry, StoreError> {
        self.store()
            .capabilities()
            .branches
            .ok_or_else(|| self.unsupported(operation, "a branch registry"))
    }

    pub(crate) fn unsupported(self, operation: Operation, capability: &'static str) -> StoreError {
        self.blame()(StoreError::new(
            operation,
            StoreErrorKind::Unsupported { capability },
        ))
    }
}
