//! Executions that run in this process.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::RandomState;
use loom_spi::{BoxError, DispatchError, DispatchRequest, ExecutionId, ExecutionOutcome};
use tokio::sync::Notify;

use crate::error::RunError;

/// What a run of an execution came to.
pub(crate) type RunResult = Result<ExecutionOutcome, RunError>;

/// How a run ended.
#[derive(Debug)]
pub(crate) enum Ran {
    /// It came to this.
    To(RunResult),
    /// It was stopped on the way, and can be resumed.
    Stopped,
}

/// What came of entering an execution.
#[derive(Debug)]
pub(crate) enum Entered {
    /// It is for whoever has this to run it.
    New(RunGuard),
    /// It runs; here is the request back.
    Runs(Arc<Running>, DispatchRequest),
}

/// The executions that run in this process, each once.
#[derive(Debug, Default)]
pub(crate) struct RunningSet(Mutex<HashMap<ExecutionId, Arc<Running>, RandomState>>);

/// One of them: shared by the one who runs it and all who wait for it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) request: DispatchRequest,
    state: Mutex<State>,
    /// Told when it is to be cancelled or stopped.
    interrupted: Notify,
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    cancelled: Option<String>,
    stopped: bool,
    end: Option<End>,
}

/// Why a run does not go on to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// It is to be cancelled, for this reason.
    Cancelled(String),
    /// The runtime is shut down.
    Stopped,
}

#[derive(Clone, Debug)]
enum End {
    /// It came to this.
    Result(RunResult),
    /// The runtime was shut down.
    Stopped,
    /// Its task was dropped before it came to anything.
    Dropped,
}

/// Held by the one who runs an execution. Whoever waits is told the result, or that there is none when this is
/// dropped without one.
#[derive(Debug)]
pub(crate) struct RunGuard {
    set: Arc<RunningSet>,
    pub(crate) running: Arc<Running>,
    end: End,
}

impl RunningSet {
    /// Enters an execution, unless it is there.
    pub(crate) fn enter(self: &Arc<Self>, request: DispatchRequest) -> Entered {
        match self.lock().entry(request.id.clone()) {
            Entry::Occupied(entry) => Entered::Runs(Arc::clone(entry.get()), request),
            Entry::Vacant(entry) => {
                let running = Arc::new(Running {
                    request,
                    state: Mutex::default(),
                    interrupted: Notify::new(),
                    ended: Notify::new(),
                });
                let guard = RunGuard {
                    set: Arc::clone(self),
                    running: Arc::clone(&running),
                    end: End::Dropped,
                };
                entry.insert(running);
                Entered::New(guard)
            }
        }
    }

    /// Asks a running execution to stop; `false` when it does not run here.
    pub(crate) fn cancel(&self, id: &ExecutionId, reason: String) -> bool {
        let running = self.lock().get(id).cloned();
        running.is_some_and(|running| running.cancel(reason))
    }

    /// Asks all to stop where they are, and waits until they have.
    pub(crate) async fn stop(&self) {
        let running: Vec<_> = self.lock().values().cloned().collect();
        for running in &running {
            running.stop();
        }
        for running in running {
            running.ended().await;
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
        let why = match self.ended().await {
            End::Result(result) => return result.map_err(Into::into),
            End::Stopped => {
                "the runtime was shut down before it ended: dispatch it again to resume it"
            }
            End::Dropped => {
                "the async runtime dropped its task before it ended: dispatch it again to resume it"
            }
        };
        Err(DispatchError::Runtime {
            id: self.request.id.clone(),
            source: BoxError::from(why),
        })
    }

    async fn ended(&self) -> End {
        wait_for(&self.ended, || self.state().end.clone()).await
    }

    /// Waits until it is to be cancelled, for ever if it never is, and returns the reason.
    pub(crate) async fn cancelled(&self) -> String {
        wait_for(&self.interrupted, || self.state().cancelled.clone()).await
    }

    /// Waits until it is to be cancelled or stopped, for ever if it never is.
    pub(crate) async fn interrupted(&self) -> Interruption {
        wait_for(&self.interrupted, || self.interruption()).await
    }

    pub(crate) fn interruption(&self) -> Option<Interruption> {
        let state = self.state();
        match &state.cancelled {
            Some(reason) => Some(Interruption::Cancelled(reason.clone())),
            None => state.stopped.then_some(Interruption::Stopped),
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.state().cancelled.is_some()
    }

    /// The first reason counts; `false` when the run has ended.
    fn cancel(&self, reason: String) -> bool {
        let mut state = self.state();
        if state.end.is_some() {
            return false;
        }
        state.cancelled.get_or_insert(reason);
        drop(state);
        self.interrupted.notify_waiters();
        true
    }

    fn stop(&self) {
        self.state().stopped = true;
        self.interrupted.notify_waiters();
    }

    fn end(&self, end: End) {
        self.state().end = Some(end);
        self.ended.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks for something that comes once, each time it is told to look.
async fn wait_for<T>(notify: &Notify, look: impl Fn() -> Option<T>) -> T {
    loop {
        // In this order: what comes after the look is told.
        let told = notify.notified();
        if let Some(found) = look() {
            return found;
        }
        told.await;
    }
}

impl RunGuard {
    pub(crate) fn finish(mut self, ran: Ran) {
        self.end = match ran {
            Ran::To(result) => End::Result(result),
            Ran::Stopped => End::Stopped,
        };
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        // First out of the set: whoever dispatches because of how this ended starts afresh, from the log.
        self.set.lock().remove(&self.running.request.id);
        self.running.end(mem::replace(&mut self.end, End::Dropped));
    }
}
