//! What a store's author writes: how to make an empty store.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use loom_spi::{BoxError, BranchRegistry, EventStore};

use crate::{Effort, Need};

/// Makes the stores that the cases run against.
///
/// A closure that returns a future of `Result<Subject, BoxError>` is a factory. Implement the trait to
/// say more:
///
/// ```
/// use async_trait::async_trait;
/// use loom_conformance::{Effort, Need, StoreFactory, Subject};
/// use loom_spi::BoxError;
/// use loom_store_memory::{ManualClock, MemoryStore};
///
/// struct Memory;
///
/// #[async_trait]
/// impl StoreFactory for Memory {
///     async fn create(&self) -> Result<Subject, BoxError> {
///         let clock = ManualClock::new();
///         let store = MemoryStore::builder().clock(clock.clone()).build();
///         Ok(Subject::new(store).with_clock(move |by| {
///             clock.advance(by);
///             async { Ok(()) }
///         }))
///     }
///
///     fn promises(&self) -> &[Need] {
///         &[Need::Fencing, Need::Relocation, Need::Ledger, Need::Branches, Need::Clock]
///     }
/// }
/// # assert_eq!(Memory.effort(), Effort::default());
/// ```
#[async_trait]
pub trait StoreFactory: Send + Sync + 'static {
    /// Makes an empty store that shares nothing with those made before. Called for each case, inside a tokio
    /// runtime that belongs to the case: once, or twice where a record moves from one store to another.
    ///
    /// # Errors
    /// Whatever kept the store from being made; the case fails with it.
    ///
    /// # Cancel safety
    /// A case that hangs is dropped together with everything that was made for it.
    async fn create(&self) -> Result<Subject, BoxError>;

    /// What every store made here offers. A case that lacks one of these fails instead of being
    /// skipped, so that a capability cannot vanish unnoticed. Nothing by default.
    fn promises(&self) -> &[Need] {
        &[]
    }

    /// How hard the cases try.
    fn effort(&self) -> Effort {
        Effort::default()
    }
}

#[async_trait]
impl<F, Made> StoreFactory for F
where
    F: Fn() -> Made + Send + Sync + 'static,
    Made: Future<Output = Result<Subject, BoxError>> + Send,
{
    async fn create(&self) -> Result<Subject, BoxError> {
        self().await
    }
}

/// Makes the registries that the cases of [`branch_registry!`](crate::branch_registry) run against. A
/// closure that returns a future of `Result<Arc<dyn BranchRegistry>, BoxError>` is one.
#[async_trait]
pub trait RegistryFactory: Send + Sync + 'static {
    /// Makes an empty registry that shares nothing with those made before.
    ///
    /// # Errors
    /// Whatever kept the registry from being made; the case fails with it.
    ///
    /// # Cancel safety
    /// A case that hangs is dropped together with everything that was made for it.
    async fn create(&self) -> Result<Arc<dyn BranchRegistry>, BoxError>;

    /// How hard the cases try.
    fn effort(&self) -> Effort {
        Effort::default()
    }
}

#[async_trait]
impl<F, Made> RegistryFactory for F
where
    F: Fn() -> Made + Send + Sync + 'static,
    Made: Future<Output = Result<Arc<dyn BranchRegistry>, BoxError>> + Send,
{
    async fn create(&self) -> Result<Arc<dyn BranchRegistry>, BoxError> {
        self().await
    }
}

type Done = BoxFuture<'static, Result<(), BoxError>>;
type Reopened = BoxFuture<'static, Result<Arc<dyn EventStore>, BoxError>>;
/// What is done after a case.
pub(crate) type Close = Box<dyn FnOnce() -> Done + Send>;
/// A hook that can be called any number of times.
type Hook<Argument, Ended> = Arc<dyn Fn(Argument) -> Ended + Send + Sync>;

/// What can be done to a store from outside. Each is optional.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) reopen: Option<Hook<Arc<dyn EventStore>, Reopened>>,
    pub(crate) clock: Option<Hook<Duration, Done>>,
    pub(crate) outage: Option<Hook<bool, Done>>,
}

/// A store under test, and what can be done to it from outside.
///
/// A case that needs a hook which is not there is skipped and says so.
#[must_use]
pub struct Subject {
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) hooks: Hooks,
    pub(crate) close: Option<Close>,
}

impl Subject {
    /// A store without any hook.
    pub fn new(store: impl EventStore) -> Self {
        Self::from_arc(Arc::new(store))
    }

    /// A store that the factory keeps a handle of.
    pub fn from_arc(store: Arc<dyn EventStore>) -> Self {
        Self {
            store,
            hooks: Hooks::default(),
            close: None,
        }
    }

    /// How the store is closed, as if its process had ended, and opened again over the same data. The hook
    /// gets the last handle that the case held.
    pub fn with_reopen<F, Opened>(mut self, reopen: F) -> Self
    where
        F: Fn(Arc<dyn EventStore>) -> Opened + Send + Sync + 'static,
        Opened: Future<Output = Result<Arc<dyn EventStore>, BoxError>> + Send + 'static,
    {
        self.hooks.reopen = Some(Arc::new(move |store| reopen(store).boxed()));
        self
    }

    /// How the clock by which the store's leases lapse is moved on, so that no case has to wait.
    pub fn with_clock<F, Moved>(mut self, advance: F) -> Self
    where
        F: Fn(Duration) -> Moved + Send + Sync + 'static,
        Moved: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.hooks.clock = Some(Arc::new(move |by| advance(by).boxed()));
        self
    }

    /// How the store is made unreachable (`true`) and reachable again (`false`).
    pub fn with_outage<F, Switched>(mut self, switch: F) -> Self
    where
        F: Fn(bool) -> Switched + Send + Sync + 'static,
        Switched: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.hooks.outage = Some(Arc::new(move |down| switch(down).boxed()));
        self
    }

    /// What is done after the case, whatever became of it: removing a database, for instance. Things that
    /// only have to be dropped, such as a temporary directory, can be moved in. A case that hangs drops
    /// the hook without calling it.
    pub fn with_close<F, Closed>(mut self, close: F) -> Self
    where
        F: FnOnce() -> Closed + Send + 'static,
        Closed: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.close = Some(Box::new(move || close().boxed()));
        self
    }

    /// Puts a wrapper around the store, and around every store that the reopen hook returns. The hook
    /// then gets the wrapper.
    pub fn wrap(
        mut self,
        wrap: impl Fn(Arc<dyn EventStore>) -> Arc<dyn EventStore> + Send + Sync + 'static,
    ) -> Self {
        let wrap = Arc::new(wrap);
        self.store = wrap(self.store);
        if let Some(reopen) = self.hooks.reopen.take() {
            self.hooks.reopen = Some(Arc::new(move |store| {
                let (opened, wrap) = (reopen(store), Arc::clone(&wrap));
                async move { Ok(wrap(opened.await?)) }.boxed()
            }));
        }
        self
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject")
            .field("store", &self.store)
            .field("reopen", &self.hooks.reopen.is_some())
            .field("clock", &self.hooks.clock.is_some())
            .field("outage", &self.hooks.outage.is_some())
            .field("close", &self.close.is_some())
            .finish()
    }
}
