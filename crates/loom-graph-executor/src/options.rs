//! How a graph is run.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use loom_spi::{EventStore, ExecutionId};

use crate::{GraphEvent, GraphManifest, Limit, Retry, Timer};

type Observer = Arc<dyn Fn(&GraphEvent<'_>) + Send + Sync>;
type Cancelled = Pin<Box<dyn Future<Output = String> + Send>>;

/// What becomes of the other nodes when one does not complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnFailure {
    /// Whatever can run does, and the join waits for all of it. Nodes that wait for the one that failed lack its output and
    /// are [`Skipped`](crate::NodeOutcome::Skipped), and so are those that wait for them ("skip dependents").
    #[default]
    SettleAll,
    /// Nothing more is begun ([`NotBegun`](crate::NodeOutcome::NotBegun)), waits for another attempt end, and what runs is
    /// cancelled and waited for: when the join returns, nothing is left running.
    ///
    /// A graph that is resumed learns first how the branches ended that an earlier run began, and begins nothing new before: so
    /// one that had failed then keeps from running what that run had not begun. With
    /// [`with_logs`](GraphOptions::with_logs) it looks which of them have ended; without, it waits for all of them. If the
    /// registry or a log cannot be looked up then, every node is [`NotBegun`](crate::NodeOutcome::NotBegun) and says why.
    FailFast,
}

/// How a graph is run.
#[derive(Clone)]
#[non_exhaustive]
pub struct GraphOptions {
    /// The execution of which the nodes are branches. The ids of their executions derive from it, so that
    /// running the graph again under the same parent resumes it.
    pub parent: ExecutionId,
    /// The most nodes in flight at a time, at least 1. Default 64.
    pub limit: usize,
    /// What becomes of the other nodes when one does not complete.
    pub on_failure: OnFailure,
    pub(crate) retry: Retry,
    pub(crate) timeout: Option<Duration>,
    pub(crate) timer: Option<Arc<dyn Timer>>,
    pub(crate) shared: Option<Limit>,
    pub(crate) logs: Option<Arc<dyn EventStore>>,
    pub(crate) recorded: Option<GraphManifest>,
    cancel: Option<Arc<dyn Fn() -> Cancelled + Send + Sync>>,
    observer: Option<Observer>,
}

impl GraphOptions {
    /// Runs the nodes as branches of `parent`.
    #[must_use]
    pub fn new(parent: ExecutionId) -> Self {
        Self {
            parent,
            limit: 64,
            on_failure: OnFailure::default(),
            retry: Retry::attempts(1),
            timeout: None,
            timer: None,
            shared: None,
            logs: None,
            recorded: None,
            cancel: None,
            observer: None,
        }
    }

    /// Sets [`limit`](Self::limit).
    #[must_use]
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Counts the nodes in a limit that other graphs use as well, besides [`limit`](Self::limit): see [`Limit`].
    #[must_use]
    pub fn with_shared_limit(mut self, limit: &Limit) -> Self {
        self.shared = Some(limit.clone());
        self
    }

    /// Sets [`on_failure`](Self::on_failure).
    #[must_use]
    pub fn with_on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Sets how often each node is tried, unless it says so itself. Default: once.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Sets how long one attempt may take, unless the node says so itself. Default: for ever.
    ///
    /// It is counted from when this call dispatches the execution, or joins it. When it is over, the execution is cancelled
    /// through the dispatcher and waited for, so that two attempts of a node never run at a time; the node is
    /// [`TimedOut`](crate::NodeOutcome::TimedOut), or is tried again. One that completes before it could be cancelled has
    /// completed.
    ///
    /// A dispatcher that cannot cancel is asked again, at growing intervals up to 5 s. As long as the execution runs, the
    /// node has not settled and the join waits: the timeout then bounds nothing, but nothing runs unnoticed either.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets what waits for time to pass. Graphs with timeouts, or with retries that wait, need it.
    #[must_use]
    pub fn with_timer(mut self, timer: Arc<dyn Timer>) -> Self {
        self.timer = Some(timer);
        self
    }

    /// Looks in `logs`, where the executions of the nodes have their logs, whether something else lies under a node's id
    /// before anything is recorded about it: an execution that is there but no branch of the parent. The node is then
    /// [`IdTaken`](loom_spi::DispatchError::IdTaken) and no lineage is left behind. Costs a read of the head for each node.
    ///
    /// Without it the dispatcher refuses such a node, as its contract demands, but the lineage says afterwards that the
    /// execution is a branch of the parent.
    #[must_use]
    pub fn with_logs(mut self, logs: Arc<dyn EventStore>) -> Self {
        self.logs = Some(logs);
        self
    }

    /// Refuses the graph when it is not the one that `recorded` describes, naming the difference, before anything is
    /// dispatched: for a graph that may be a resumed one. See [`GraphManifest`].
    #[must_use]
    pub fn with_recorded(mut self, recorded: GraphManifest) -> Self {
        self.recorded = Some(recorded);
        self
    }

    /// Stops the graph when the future that `cancelled` makes is ready, with its output as the reason: nothing more is begun,
    /// and what runs is cancelled and waited for.
    ///
    /// In a flow that is itself cancelled this does not help, because the flow is dropped, and the graph with it: use
    /// [`cancel_tree`](crate::cancel_tree), which reaches what is left.
    #[must_use]
    pub fn cancel_when<F>(mut self, cancelled: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = String> + Send + 'static,
    {
        self.cancel = Some(Arc::new(move || Box::pin(cancelled())));
        self
    }

    /// Calls `observer` when a node starts, is tried again, or settles, between two polls of the branches: it has to
    /// return soon. When it panics, so does [`execute_graph`](crate::execute_graph).
    #[must_use]
    pub fn with_observer(
        mut self,
        observer: impl Fn(&GraphEvent<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    pub(crate) fn is_observed(&self) -> bool {
        self.observer.is_some()
    }

    pub(crate) fn observe<'a>(&self, event: impl FnOnce() -> GraphEvent<'a>) {
        if let Some(observer) = &self.observer {
            observer(&event());
        }
    }

    pub(crate) fn cancelled(&self) -> Option<Cancelled> {
        self.cancel.as_ref().map(|cancel| cancel())
    }

    /// The same for a graph inside a node.
    pub(crate) fn inside(&self, parent: ExecutionId, limit: Limit) -> Self {
        Self {
            parent,
            shared: Some(limit),
            recorded: None,
            cancel: None,
            observer: None,
            ..self.clone()
        }
    }
}

impl fmt::Debug for GraphOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphOptions")
            .field("parent", &self.parent)
            .field("limit", &self.limit)
            .field("on_failure", &self.on_failure)
            .field("retry", &self.retry)
            .field("timeout", &self.timeout)
            .field("timer", &self.timer)
            .field("shared", &self.shared)
            .field("logs", &self.logs)
            .field("recorded", &self.recorded.is_some())
            .field("cancel", &self.cancel.is_some())
            .field("observer", &self.observer.is_some())
            .finish()
    }
}
