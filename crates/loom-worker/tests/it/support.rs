//! A store that can be switched off, and small helpers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;
use futures_util::TryStreamExt;
use loom_spi::{
    Append, Appended, Capabilities, Delete, Deleted, DispatchRequest, EventStore, EventStoreExt,
    ExecutionId, ExecutionOutcome, Head, List, ListPage, LogHead, Operation, Read, ReadPage,
    StoreError, StoreErrorKind,
};
use loom_store_memory::MemoryStore;

/// A memory store that refuses appends while it is switched off.
#[derive(Debug, Default)]
pub(crate) struct SwitchStore {
    inner: MemoryStore,
    is_off: AtomicBool,
}

impl SwitchStore {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn switch(&self, on: bool) {
        self.is_off.store(!on, Ordering::SeqCst);
    }
}

#[async_trait]
impl EventStore for SwitchStore {
    async fn append(&self, request: Append) -> Result<Appended, StoreError> {
        if self.is_off.load(Ordering::SeqCst) {
            let kind = StoreErrorKind::Unavailable {
                reason: "switched off".into(),
                outcome_known: true,
            };
            return Err(StoreError::new(Operation::Append, kind).with_execution(&request.id));
        }
        self.inner.append(request).await
    }

    async fn read(&self, request: Read) -> Result<ReadPage, StoreError> {
        self.inner.read(request).await
    }

    async fn head(&self, request: Head) -> Result<Option<LogHead>, StoreError> {
        self.inner.head(request).await
    }

    async fn list(&self, request: List) -> Result<ListPage, StoreError> {
        self.inner.list(request).await
    }

    async fn delete(&self, request: Delete) -> Result<Deleted, StoreError> {
        self.inner.delete(request).await
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.inner.capabilities()
    }
}

pub(crate) fn id(text: &str) -> ExecutionId {
    ExecutionId::new(text).unwrap()
}

pub(crate) fn request(flow: &str) -> DispatchRequest {
    DispatchRequest::new(id("order-7"), flow)
}

pub(crate) fn completed(output: &str) -> ExecutionOutcome {
    ExecutionOutcome::Completed {
        output: output.to_owned().into(),
    }
}

pub(crate) async fn kinds(store: &dyn EventStore) -> Vec<String> {
    let events: Vec<_> = store
        .read_all(&id("order-7"), 0)
        .try_collect()
        .await
        .unwrap();
    events.iter().map(|event| event.kind.to_string()).collect()
}

/// Counts how often something ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter(Arc<AtomicU32>);

impl Counter {
    pub(crate) fn tick(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}
