//! A sound store that makes life hard.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use async_trait::async_trait;
use loom_spi::{
    Append, Appended, Capabilities, Delete, Deleted, EventStore, ExecutionId, Head, List, ListPage,
    LogHead, Operation, Read, ReadPage, StoreError, StoreErrorKind,
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
    pub(super) inner: Arc<dyn EventStore>,
    outage: AtomicU8,
    pausing: bool,
    pub(super) page: usize,
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
    pub(super) async fn reach(
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
    pub(super) async fn answer<T>(
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

pub(super) fn missing(operation: Operation, capability: &'static str) -> StoreError {
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
        if real.relocation.is_some() {
            offered = offered.with_relocation(self);
        }
        offered
    }
}
