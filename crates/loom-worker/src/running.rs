//! Executions that run in this process.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::RandomState;
use loom_journal::JournalError;
use loom_spi::{BoxError, DispatchError, DispatchRequest, ExecutionId, ExecutionOutcome};
use tokio::sync::watch;

use crate::cancel::{CancelSignal, Canceller, cancellation};
use crate::error;

/// What a run of an execution came to.
pub(crate) type RunResult = Result<ExecutionOutcome, JournalError>;

/// The executions that run in this process, each once.
#[derive(Debug, Default)]
pub(crate) struct RunningSet(Mutex<HashMap<ExecutionId, Arc<Running>, RandomState>>);

/// One of them.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) request: Arc<DispatchRequest>,
    canceller: Canceller,
    done: watch::Receiver<Option<RunResult>>,
}

/// Held by the one who runs an execution. Whoever waits is told the result, or that there will be
/// none when this is dropped without one.
#[derive(Debug)]
pub(crate) struct RunGuard {
    set: Arc<RunningSet>,
    pub(crate) request: Arc<DispatchRequest>,
    pub(crate) cancelled: CancelSignal,
    result: watch::Sender<Option<RunResult>>,
}

impl RunningSet {
    /// Enters an execution, unless it is there: then the one that is.
    pub(crate) fn enter(
        self: &Arc<Self>,
        request: &Arc<DispatchRequest>,
    ) -> (Arc<Running>, Option<RunGuard>) {
        match self.lock().entry(request.id.clone()) {
            Entry::Occupied(entry) => (Arc::clone(entry.get()), None),
            Entry::Vacant(entry) => {
                let (canceller, cancelled) = cancellation();
                let (result, done) = watch::channel(None);
                let running = Arc::new(Running {
                    request: Arc::clone(request),
                    canceller,
                    done,
                });
                let guard = RunGuard {
                    set: Arc::clone(self),
                    request: Arc::clone(request),
                    cancelled,
                    result,
                };
                (Arc::clone(entry.insert(running)), Some(guard))
            }
        }
    }

    /// Asks a running execution to stop; `false` when it does not run here.
    pub(crate) fn cancel(&self, id: &ExecutionId, reason: String) -> bool {
        match self.lock().get(id) {
            Some(running) if running.done.borrow().is_none() => {
                running.canceller.cancel(reason);
                true
            }
            _ => false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ExecutionId, Arc<Running>, RandomState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Waits for the run to end.
    pub(crate) async fn result(&self) -> Result<ExecutionOutcome, DispatchError> {
        let mut done = self.done.clone();
        let result = match done.wait_for(Option::is_some).await {
            Ok(result) => result.clone(),
            Err(_) => None,
        };
        match result {
            Some(result) => result.map_err(error::to_dispatch),
            None => Err(DispatchError::Runtime {
                id: self.request.id.clone(),
                source: BoxError::from(
                    "the async runtime dropped its task before it ended: dispatch it again to resume it",
                ),
            }),
        }
    }
}

impl RunGuard {
    pub(crate) fn finish(self, result: RunResult) {
        // First the result and then, by dropping, out of the set: who comes in between finds the result, who
        // comes later the log.
        self.result.send_replace(Some(result));
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.set.lock().remove(&self.request.id);
    }
}
