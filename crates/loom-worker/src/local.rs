//! The runtime that runs flows in its own process.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use loom_journal::{Anchor, JournalError, JournalOptions, read_anchor, read_outcome};
use loom_spi::{
    CancelRequest, Cancellation, DispatchError, DispatchRequest, EventStore, ExecutionDispatcher,
    ExecutionId, ExecutionOutcome,
};
use serde::Serialize;
use tokio::runtime::Handle;

use crate::error::to_dispatch;
use crate::execute::execute;
use crate::flow::{Flow, erase};
use crate::running::{RunGuard, Running, RunningSet};
use crate::{FlowContext, FlowError};

/// Runs flows, registered by name, as tasks of the Tokio runtime in which they are dispatched.
///
/// - Dispatching an id that runs here joins it. One that runs elsewhere is taken over if the store fences;
///   the other runtime is told so at its next append.
/// - A panic of a flow is recorded as its failure, with its message.
/// - Cancelling drops the flow at the `await` where it stands and records `Cancelled`. A flow that does not
///   await is not stopped.
/// - A flow whose journal stopped, because the store is out of reach or the code changed, is
///   neither completed nor failed: dispatch it again to resume it.
///
/// Dropping the runtime stops nothing. Cheap to clone; all clones are one runtime.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use loom_spi::{DispatchRequest, ExecutionDispatcher, ExecutionId, ExecutionOutcome};
/// use loom_store_memory::MemoryStore;
/// use loom_worker::{FlowContext, LocalWorkerRuntime};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = LocalWorkerRuntime::builder(Arc::new(MemoryStore::new()))
///     .flow("double", |flow: FlowContext| async move {
///         let number: u64 = flow.input()?;
///         Ok(flow.effect("double", |_| async move { Ok::<_, std::io::Error>(2 * number) }).await?)
///     })
///     .build();
/// let request = DispatchRequest::new(ExecutionId::new("twice-21")?, "double").with_input("21");
/// let outcome = runtime.dispatch(request).await?;
/// assert_eq!(outcome, ExecutionOutcome::Completed { output: "42".into() });
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LocalWorkerRuntime {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn EventStore>,
    flows: BTreeMap<String, Box<Flow>>,
    options: JournalOptions,
    running: Arc<RunningSet>,
}

impl LocalWorkerRuntime {
    /// A runtime whose executions keep their logs in `store`.
    #[must_use]
    pub fn builder(store: Arc<dyn EventStore>) -> LocalWorkerRuntimeBuilder {
        LocalWorkerRuntimeBuilder {
            inner: Inner {
                store,
                flows: BTreeMap::new(),
                options: JournalOptions::default(),
                running: Arc::default(),
            },
        }
    }

    /// How many executions run here at this moment.
    #[must_use]
    pub fn running(&self) -> usize {
        self.inner.running.len()
    }

    fn spawn(&self, handle: &Handle, guard: RunGuard) {
        let inner = Arc::clone(&self.inner);
        handle.spawn(async move {
            let run = &guard.running;
            let Some(flow) = inner.flows.get(&run.request.flow) else {
                return;
            };
            let result = execute(&inner.store, &inner.options, flow, run).await;
            guard.finish(result);
        });
    }
}

/// Collects the flows of a [`LocalWorkerRuntime`].
#[derive(Debug)]
pub struct LocalWorkerRuntimeBuilder {
    inner: Inner,
}

impl LocalWorkerRuntimeBuilder {
    /// Registers a flow, in place of one that has the same name.
    ///
    /// What it returns becomes the output of its execution, as JSON.
    #[must_use]
    pub fn flow<F, Fut, T>(mut self, name: impl Into<String>, flow: F) -> Self
    where
        F: Fn(FlowContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, FlowError>> + Send + 'static,
        T: Serialize,
    {
        self.inner.flows.insert(name.into(), erase(flow));
        self
    }

    /// Sets how the journals of its executions work.
    #[must_use]
    pub fn journal_options(mut self, options: JournalOptions) -> Self {
        self.inner.options = options;
        self
    }

    /// The runtime.
    #[must_use]
    pub fn build(self) -> LocalWorkerRuntime {
        LocalWorkerRuntime {
            inner: Arc::new(self.inner),
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ExecutionDispatcher for LocalWorkerRuntime {
    async fn dispatch(&self, request: DispatchRequest) -> Result<ExecutionOutcome, DispatchError> {
        if !self.inner.flows.contains_key(&request.flow) {
            return self.inner.recorded_outcome(request).await;
        }
        let id = || request.id.clone();
        let handle = Handle::try_current().map_err(|error| DispatchError::Runtime {
            id: id(),
            source: error.into(),
        })?;
        loop {
            let (running, guard) = self.inner.running.enter(&request);
            if let Some(guard) = guard {
                self.spawn(&handle, guard);
                return running.result().await;
            }
            let wanted = Anchor::of(&request).map_err(to_dispatch)?;
            if wants_the_same(&running, &wanted) {
                return running.result().await;
            }
            // The log says which of the two is wrong; if it is not begun yet, the one that runs settles that.
            self.inner.check_log(&request.id, &wanted).await?;
            // Whatever that one comes to, this one then looks for itself.
            let _ = running.result().await;
        }
    }

    async fn cancel(&self, request: CancelRequest) -> Result<Cancellation, DispatchError> {
        let CancelRequest { id, reason, .. } = request;
        if self.inner.running.cancel(&id, reason) {
            return Ok(Cancellation::Requested);
        }
        let outcome = read_outcome(&*self.inner.store, &id).await;
        Ok(match outcome.map_err(to_dispatch)? {
            Some(outcome) => Cancellation::AlreadyFinished(outcome),
            None => Cancellation::NotRunning,
        })
    }
}

impl Inner {
    /// For a flow that is not registered: an execution of it may still have ended elsewhere.
    async fn recorded_outcome(
        &self,
        request: DispatchRequest,
    ) -> Result<ExecutionOutcome, DispatchError> {
        let wanted = Anchor::of(&request).map_err(to_dispatch)?;
        self.check_log(&request.id, &wanted).await?;
        let outcome = read_outcome(&*self.store, &request.id).await;
        match outcome.map_err(to_dispatch)? {
            Some(outcome) => Ok(outcome),
            None => Err(DispatchError::UnknownFlow {
                id: request.id,
                flow: request.flow,
                known: self.flows.keys().cloned().collect::<Vec<_>>().join(", "),
            }),
        }
    }

    /// Refuses what the log was not begun with, if it was begun.
    async fn check_log(&self, id: &ExecutionId, wanted: &Anchor) -> Result<(), DispatchError> {
        let recorded = read_anchor(&*self.store, id).await;
        let recorded = recorded.map_err(to_dispatch)?;
        match recorded.and_then(|recorded| recorded.difference(wanted)) {
            Some(difference) => Err(to_dispatch(JournalError::IdTaken {
                id: id.clone(),
                difference,
            })),
            None => Ok(()),
        }
    }
}

fn wants_the_same(running: &Running, wanted: &Anchor) -> bool {
    Anchor::of(&running.request).is_ok_and(|anchor| anchor.difference(wanted).is_none())
}

impl fmt::Debug for LocalWorkerRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalWorkerRuntime")
            .field("store", &self.store)
            .field("flows", &self.flows.keys())
            .field("options", &self.options)
            .field("running", &self.running.len())
            .finish()
    }
}
