//! A store that fails on demand, and small helpers.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::TryStreamExt;
use loom_journal::{ExecutionJournal, JournalError, JournalOptions};
use loom_spi::{
    AcquireFence, Append, Appended, Capabilities, Delete, Deleted, DispatchRequest, Event,
    EventStore, EventStoreExt, ExecutionId, FenceToken, Fencing, Head, List, ListPage, LogHead,
    Operation, Read, ReadPage, ReleaseLease, RenewLease, StoreError, StoreErrorKind,
};
use loom_store_memory::MemoryStore;
use tokio::sync::Notify;

/// What happens to one append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The store says that it is out of reach and that nothing was changed.
    Refuse,
    /// The request gets lost: nothing is changed, and the caller cannot know.
    LoseRequest,
    /// The reply gets lost: the event stands, and the caller cannot know.
    LoseReply,
    /// The process dies before the request is sent.
    CrashBefore,
    /// The process dies after the event was stored.
    CrashAfter,
    /// The request is on its way for long, until the test delivers it.
    Delay,
}

impl Fault {
    pub(crate) const ALL: [Self; 5] = [
        Self::Refuse,
        Self::LoseRequest,
        Self::LoseReply,
        Self::CrashBefore,
        Self::CrashAfter,
    ];

    pub(crate) fn is_crash(self) -> bool {
        matches!(self, Self::CrashBefore | Self::CrashAfter)
    }
}

/// A memory store whose appends fail as told: the n-th one, counted from 0.
#[derive(Debug)]
pub(crate) struct FaultStore {
    inner: MemoryStore,
    fencing: bool,
    faults: Mutex<Vec<(usize, Fault)>>,
    delayed: Mutex<Vec<Append>>,
    pub(crate) deliver_before_fence: AtomicBool,
    pub(crate) appends: AtomicUsize,
    pub(crate) reads: AtomicUsize,
    /// Told when a crash fault is reached.
    pub(crate) crashed: Notify,
}

impl FaultStore {
    pub(crate) fn new() -> Arc<Self> {
        Self::over(MemoryStore::new(), true)
    }

    pub(crate) fn without_fencing() -> Arc<Self> {
        Self::over(MemoryStore::new(), false)
    }

    pub(crate) fn over(inner: MemoryStore, fencing: bool) -> Arc<Self> {
        Arc::new(Self {
            inner,
            fencing,
            faults: Mutex::default(),
            delayed: Mutex::default(),
            deliver_before_fence: AtomicBool::new(false),
            appends: AtomicUsize::new(0),
            reads: AtomicUsize::new(0),
            crashed: Notify::new(),
        })
    }

    /// Lets the n-th append from now on fail.
    pub(crate) fn fail(&self, nth: usize, fault: Fault) {
        let at = self.appends.load(Ordering::SeqCst) + nth;
        self.faults.lock().unwrap().push((at, fault));
    }

    /// Delivers the delayed requests, and says how many of them took effect.
    pub(crate) async fn deliver(&self) -> usize {
        let delayed = std::mem::take(&mut *self.delayed.lock().unwrap());
        let mut stored = 0;
        for append in delayed {
            stored += usize::from(self.inner.append(append).await.is_ok());
        }
        stored
    }

    pub(crate) async fn events(&self, id: &ExecutionId) -> Vec<Event> {
        self.inner.read_all(id, 0).try_collect().await.unwrap()
    }

    pub(crate) async fn kinds(&self, id: &ExecutionId) -> Vec<String> {
        let events = self.events(id).await;
        events.iter().map(|event| event.kind.to_string()).collect()
    }

    fn next_fault(&self) -> Option<Fault> {
        let nth = self.appends.fetch_add(1, Ordering::SeqCst);
        let mut faults = self.faults.lock().unwrap();
        let place = faults.iter().position(|(at, _)| *at == nth)?;
        Some(faults.remove(place).1)
    }

    async fn crash(&self) -> ! {
        self.crashed.notify_one();
        loop {
            std::future::pending::<()>().await;
        }
    }
}

pub(crate) fn unavailable(id: &ExecutionId, outcome_known: bool) -> StoreError {
    let reason = "injected".to_owned();
    let kind = StoreErrorKind::Unavailable {
        reason,
        outcome_known,
    };
    StoreError::new(Operation::Append, kind).with_execution(id)
}

#[async_trait]
impl EventStore for FaultStore {
    async fn append(&self, request: Append) -> Result<Appended, StoreError> {
        let id = request.id.clone();
        match self.next_fault() {
            None => self.inner.append(request).await,
            Some(Fault::Refuse) => Err(unavailable(&id, true)),
            Some(Fault::LoseRequest) => Err(unavailable(&id, false)),
            Some(Fault::LoseReply) => {
                self.inner.append(request).await?;
                Err(unavailable(&id, false))
            }
            Some(Fault::CrashBefore) => self.crash().await,
            Some(Fault::CrashAfter) => {
                self.inner.append(request).await?;
                self.crash().await
            }
            Some(Fault::Delay) => {
                self.delayed.lock().unwrap().push(request);
                Err(unavailable(&id, false))
            }
        }
    }

    async fn read(&self, request: Read) -> Result<ReadPage, StoreError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
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
        let mut capabilities = self.inner.capabilities();
        capabilities.fencing = self.fencing.then_some(self);
        capabilities
    }
}

#[async_trait]
impl Fencing for FaultStore {
    /// What is on its way arrives just before the fence is taken.
    async fn acquire_fence(&self, request: AcquireFence) -> Result<FenceToken, StoreError> {
        if self.deliver_before_fence.load(Ordering::SeqCst) {
            self.deliver().await;
        }
        self.inner.acquire_fence(request).await
    }

    async fn renew_lease(&self, request: RenewLease) -> Result<(), StoreError> {
        self.inner.renew_lease(request).await
    }

    async fn release_lease(&self, request: ReleaseLease) -> Result<(), StoreError> {
        self.inner.release_lease(request).await
    }
}

pub(crate) fn id(text: &str) -> ExecutionId {
    ExecutionId::new(text).unwrap()
}

pub(crate) fn request() -> DispatchRequest {
    DispatchRequest::new(id("order-7"), "ship-order").with_input(r#"{"parcel":7}"#)
}

pub(crate) async fn open(store: &Arc<FaultStore>) -> Result<ExecutionJournal, JournalError> {
    open_with(store, &request(), JournalOptions::default()).await
}

pub(crate) async fn open_with(
    store: &Arc<FaultStore>,
    request: &DispatchRequest,
    options: JournalOptions,
) -> Result<ExecutionJournal, JournalError> {
    let store = Arc::clone(store);
    ExecutionJournal::open(store, request, options).await
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

/// An effect that returns `value` and counts how often it runs.
pub(crate) async fn counted(
    journal: &ExecutionJournal,
    key: &str,
    value: u64,
    runs: &Counter,
) -> Result<u64, JournalError> {
    let runs = runs.clone();
    let effect = journal.effect(key, move |_| async move {
        runs.tick();
        Ok::<_, Infallible>(value)
    });
    effect.await
}
