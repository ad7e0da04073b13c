//! The runtime that runs flows in its own process.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use loom_journal::{Anchor, JournalOptions, read_outcome, this_process};
use loom_spi::{
    CancelRequest, Cancellation, DispatchError, DispatchRequest, EventStore, ExecutionDispatcher,
    ExecutionOutcome, FenceToken,
};
use serde::Serialize;
use tokio::runtime::Handle;

use crate::error::to_dispatch;
use crate::execute::{Setting, execute};
use crate::flow::{Flow, erase};
use crate::join::{cancel, check_log, join_or_start};
use crate::running::{RunGuard, RunningSet};
use crate::{Assignment, FlowContext, FlowError, WhenLeased};

/// Runs flows, registered by name, as tasks of the Tokio runtime in which they are dispatched.
///
/// - Dispatching an id that runs here joins it. One that another runtime runs, also in another process, is waited
///   for ([`WhenLeased`]) until it ends, or until that runtime has died and its lease lapses; then this one goes
///   on with it. Where the store has no fences there are no leases: the other runtime is told at its next append.
/// - A panic of a flow is recorded as its failure, with its message.
/// - Cancelling drops the flow at the `await` where it stands and records `Cancelled`. A flow that does not
///   await is not stopped.
/// - A flow whose journal stopped, because the store is out of reach or the code changed, is
///   neither completed nor failed: dispatch it again to resume it.
///
/// Dropping the runtime stops nothing; [`shut_down`](Self::shut_down) does. It runs in a Tokio runtime that has its
/// timer enabled; without, leases are not renewed. Cheap to clone; all clones are one runtime.
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
    setting: Setting,
    flows: BTreeMap<String, Box<Flow>>,
    running: Arc<RunningSet>,
}

impl LocalWorkerRuntime {
    /// A runtime whose executions keep their logs in `store`.
    #[must_use]
    pub fn builder(store: Arc<dyn EventStore>) -> LocalWorkerRuntimeBuilder {
        LocalWorkerRuntimeBuilder {
            inner: Inner {
                setting: Setting {
                    store,
                    options: JournalOptions::default(),
                    when_leased: WhenLeased::default(),
                },
                flows: BTreeMap::new(),
                running: Arc::default(),
            },
        }
    }

    /// How many executions run here at this moment.
    #[must_use]
    pub fn running(&self) -> usize {
        self.inner.running.len()
    }

    /// Stops what runs here where it stands, and returns when it has stopped. Flows are dropped at the `await`
    /// where they are; nothing is recorded of that, and their leases are given up, so that any runtime can go on
    /// with them at once. Who waits for them is told by an error. What is dispatched later runs.
    ///
    /// # Cancel safety
    /// Dropping it stops waiting. What was running stops all the same.
    pub async fn shut_down(&self) {
        self.inner.running.stop().await;
    }

    /// Runs the one execution that this process, an instance of an
    /// [`InstanceWorkerRuntime`](crate::InstanceWorkerRuntime), was booted for, and returns what its log says became
    /// of it.
    ///
    /// It writes under the fence that was taken for it. If whoever booted it has given it up since, that is noticed
    /// before anything runs.
    ///
    /// # Errors
    /// `TakenOver` when it was given up; `InvalidRequest` when the execution was never begun, or what it builds on
    /// cannot be read; `UnknownFlow`; and as [`dispatch`](ExecutionDispatcher::dispatch). The process has
    /// nothing left to do then.
    ///
    /// # Cancel safety
    /// As [`dispatch`](ExecutionDispatcher::dispatch).
    pub async fn run_assigned(
        &self,
        assignment: &Assignment,
    ) -> Result<ExecutionOutcome, DispatchError> {
        let store = &*self.inner.setting.store;
        let request = assignment.request(store).await?;
        if !self.inner.flows.contains_key(&request.flow) {
            return self.inner.recorded_outcome(request).await;
        }
        join_or_start(&self.inner.running, store, request, |handle, guard| {
            self.spawn(handle, guard, Some(assignment.token));
        })
        .await
    }

    fn spawn(&self, handle: &Handle, guard: RunGuard, token: Option<FenceToken>) {
        let inner = Arc::clone(&self.inner);
        // Boxed: the runtime moves what is spawned several times, and this is large.
        handle.spawn(Box::pin(async move {
            let run = &guard.running;
            let Some(flow) = inner.flows.get(&run.request.flow) else {
                return;
            };
            let ran = match token {
                None => execute(&inner.setting, flow, run).await,
                Some(token) => {
                    let mut setting = inner.setting.clone();
                    setting.options = setting.options.with_token(token);
                    Box::pin(execute(&setting, flow, run)).await
                }
            };
            guard.finish(ran);
        }));
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

    /// Sets how the journals of its executions work. Where they do not name the holder of leases, this runtime
    /// gives itself a name.
    #[must_use]
    pub fn journal_options(mut self, options: JournalOptions) -> Self {
        self.inner.setting.options = options;
        self
    }

    /// Sets what is done with an execution that another runtime runs. Default [`WhenLeased::Wait`].
    #[must_use]
    pub fn when_leased(mut self, when_leased: WhenLeased) -> Self {
        self.inner.setting.when_leased = when_leased;
        self
    }

    /// The runtime.
    #[must_use]
    pub fn build(mut self) -> LocalWorkerRuntime {
        let holder = &mut self.inner.setting.options.holder;
        holder.get_or_insert_with(new_holder);
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
        let store = &*self.inner.setting.store;
        join_or_start(&self.inner.running, store, request, |handle, guard| {
            self.spawn(handle, guard, None);
        })
        .await
    }

    async fn cancel(&self, request: CancelRequest) -> Result<Cancellation, DispatchError> {
        cancel(&self.inner.running, &self.inner.setting, request).await
    }
}

impl Inner {
    /// For a flow that is not registered: an execution of it may still have ended elsewhere.
    async fn recorded_outcome(
        &self,
        request: DispatchRequest,
    ) -> Result<ExecutionOutcome, DispatchError> {
        let wanted = Anchor::of(&request).map_err(to_dispatch)?;
        check_log(&*self.setting.store, &request.id, &wanted).await?;
        let outcome = read_outcome(&*self.setting.store, &request.id).await;
        match outcome.map_err(to_dispatch)? {
            Some(outcome) => Ok(outcome),
            None => Err(DispatchError::UnknownFlow {
                id: request.id,
                flow: request.flow,
                known: self.flows.keys().cloned().collect::<Vec<_>>().join(", "),
            }),
        }
    }
}

/// Two runtimes of one process keep each other out, too.
fn new_holder() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{}, worker {count}", this_process())
}

impl fmt::Debug for LocalWorkerRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalWorkerRuntime")
            .field("setting", &self.setting)
            .field("flows", &self.flows.keys())
            .field("running", &self.running.len())
            .finish()
    }
}
