//! What the author of a dispatcher writes: how to make one, with the flows that the cases run.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use loom_spi::{BoxError, EventStore, ExecutionDispatcher, ExecutionId};

use crate::Effort;

/// Makes the dispatchers that the cases of [`dispatcher!`](crate::dispatcher) run against. A closure that returns
/// a future of `Result<DispatcherSubject, BoxError>` is one.
#[async_trait]
pub trait DispatcherFactory: Send + Sync + 'static {
    /// Makes two dispatchers over an empty store that share nothing with those made before.
    ///
    /// # Errors
    /// Whatever kept them from being made; the case fails with it.
    ///
    /// # Cancel safety
    /// A case that hangs is dropped together with everything that was made for it.
    async fn create(&self) -> Result<DispatcherSubject, BoxError>;

    /// How hard the cases try.
    fn effort(&self) -> Effort {
        Effort::default()
    }
}

#[async_trait]
impl<F, Made> DispatcherFactory for F
where
    F: Fn() -> Made + Send + Sync + 'static,
    Made: Future<Output = Result<DispatcherSubject, BoxError>> + Send,
{
    async fn create(&self) -> Result<DispatcherSubject, BoxError> {
        self().await
    }
}

/// How often the body of an execution has begun to run.
pub(crate) type Runs = Arc<dyn Fn(&ExecutionId) -> usize + Send + Sync>;

/// Two dispatchers over one store, which know the flows that the cases run:
///
/// | flow | what it does |
/// | --- | --- |
/// | `echo` | completes with its input, JSON text |
/// | `sum` | completes with the sum of the numbers that are the outputs of its upstream |
/// | `fail` | fails with an error whose message is `as told` |
/// | `panic` | panics with the message `out of paper` |
/// | `wait` | never ends by itself |
///
/// No other flow is known.
pub struct DispatcherSubject {
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) first: Arc<dyn ExecutionDispatcher>,
    pub(crate) second: Arc<dyn ExecutionDispatcher>,
    pub(crate) runs: Runs,
}

impl DispatcherSubject {
    /// Two dispatchers that keep their logs in `store` and know of each other only by that. `runs` says how often the body of
    /// an execution has begun, on either of them.
    #[must_use]
    pub fn new(
        store: Arc<dyn EventStore>,
        first: Arc<dyn ExecutionDispatcher>,
        second: Arc<dyn ExecutionDispatcher>,
        runs: impl Fn(&ExecutionId) -> usize + Send + Sync + 'static,
    ) -> Self {
        Self {
            store,
            first,
            second,
            runs: Arc::new(runs),
        }
    }
}

impl fmt::Debug for DispatcherSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DispatcherSubject")
            .field("store", &self.store)
            .field("first", &self.first)
            .field("second", &self.second)
            .finish_non_exhaustive()
    }
}

/// What a case works with.
#[derive(Clone)]
pub(crate) struct DispatchCx {
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) first: Arc<dyn ExecutionDispatcher>,
    pub(crate) second: Arc<dyn ExecutionDispatcher>,
    runs: Runs,
    pub(crate) effort: Effort,
}

impl DispatchCx {
    pub(crate) fn new(subject: DispatcherSubject, effort: Effort) -> Self {
        Self {
            store: subject.store,
            first: subject.first,
            second: subject.second,
            runs: subject.runs,
            effort,
        }
    }

    pub(crate) fn runs(&self, id: &ExecutionId) -> usize {
        (self.runs)(id)
    }
}
