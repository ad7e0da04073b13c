//! One attempt at one node.

use std::future::{pending, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{Either, select};
use loom_spi::{
    BranchRegistry, CancelRequest, Cancellation, DispatchError, DispatchRequest, EventStore,
    ExecutionDispatcher, ExecutionId, ExecutionOutcome, Head, Parent, RecordLineage, StoreError,
    StoreErrorKind,
};

use crate::Timer;
use crate::stop::Stop;

/// What attempts work with.
pub(crate) struct Context<'a, D: ?Sized, R: ?Sized> {
    pub(crate) dispatcher: &'a D,
    pub(crate) registry: &'a R,
    pub(crate) timer: Option<&'a dyn Timer>,
    pub(crate) logs: Option<&'a dyn EventStore>,
    pub(crate) stop: &'a Stop<'a>,
    pub(crate) timed_out: Notes,
}

/// What an attempt is to do.
pub(crate) struct Job {
    pub(crate) number: u32,
    pub(crate) lineage: RecordLineage,
    pub(crate) request: DispatchRequest,
    /// Where it runs, if not where the others do.
    pub(crate) dispatcher: Option<Arc<dyn ExecutionDispatcher>>,
    pub(crate) timeout: Option<Duration>,
}

/// What an attempt came to.
pub(crate) enum Ended {
    Outcome(ExecutionOutcome),
    Error(DispatchError),
    /// The graph stopped before it was dispatched.
    NotBegun,
}

/// Nodes that somebody has to hear of, noted while they are polled.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    any: AtomicBool,
    nodes: Mutex<Vec<u32>>,
}

impl Notes {
    fn add(&self, node: u32) {
        self.nodes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(node);
        self.any.store(true, Ordering::Release);
    }

    pub(crate) fn take(&self) -> Vec<u32> {
        // A look that changes nothing is cheap, and this is asked after every step.
        if !self.any.load(Ordering::Acquire) || !self.any.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        mem::take(&mut self.nodes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Records the lineage of an execution, dispatches it, and waits for its end: also where it takes too long or the graph
/// stops, since it is cancelled then, and a join leaves nothing running.
pub(crate) async fn attempt<D, R>(context: &Context<'_, D, R>, job: Job) -> Ended
where
    D: ExecutionDispatcher + ?Sized,
    R: BranchRegistry + ?Sized,
{
    // Used where it lies, and what is seldom needed is boxed: this is a future for each node, and is moved once.
    let id = job.request.id.clone();
    if let Some(logs) = context.logs
        && let Err(error) = Box::pin(check_free(logs, context.registry, &job.lineage)).await
    {
        return Ended::Error(error);
    }
    if context.stop.reason().is_some() {
        return Ended::NotBegun;
    }
    if let Err(error) = context.registry.record_lineage(job.lineage).await {
        return Ended::Error(no_branch(id, error));
    }
    let mut dispatch = match &job.dispatcher {
        Some(dispatcher) => dispatcher.dispatch(job.request),
        None => context.dispatcher.dispatch(job.request),
    };
    let mut deadline = match (job.timeout, context.timer) {
        (Some(timeout), Some(timer)) => Some((timeout, timer.sleep(timeout))),
        _ => None,
    };
    let interrupted = poll_fn(|cx| {
        if let Poll::Ready(result) = dispatch.as_mut().poll(cx) {
            return Poll::Ready(Err(result));
        }
        if let Some(reason) = context.stop.reason() {
            return Poll::Ready(Ok(reason.to_owned()));
        }
        if let Some((timeout, deadline)) = &mut deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            context.timed_out.add(job.number);
            return Poll::Ready(Ok(timed_out_reason(*timeout)));
        }
        Poll::Pending
    });
    let result = match interrupted.await {
        Err(result) => result,
        Ok(reason) => {
            let request = CancelRequest::new(id, reason);
            let cancel = |request| match &job.dispatcher {
                Some(dispatcher) => dispatcher.cancel(request),
                None => context.dispatcher.cancel(request),
            };
            let asking = Box::pin(ask_to_cancel(cancel, request, context.timer));
            match select(dispatch.as_mut(), asking).await {
                Either::Left((result, _)) => result,
                Either::Right((never, _)) => match never {},
            }
        }
    };
    match result {
        Ok(outcome) => Ended::Outcome(outcome),
        Err(error) => Ended::Error(error),
    }
}

type Asked<'a> = Pin<Box<dyn Future<Output = Result<Cancellation, DispatchError>> + Send + 'a>>;

/// Asks until somebody takes the request. It never ends: what ends is the execution.
async fn ask_to_cancel<'a>(
    cancel: impl Fn(CancelRequest) -> Asked<'a>,
    request: CancelRequest,
    timer: Option<&dyn Timer>,
) -> std::convert::Infallible {
    let mut pause = Duration::from_millis(20);
    loop {
        match (cancel(request.clone()).await, timer) {
            (Ok(Cancellation::NotRunning) | Err(_), Some(timer)) => {
                // It may be about to begin, or its store may come back.
                timer.sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(5));
            }
            _ => pending().await,
        }
    }
}

/// Refuses an execution that is there and is no branch of ours: lineage comes before a log, so ours would have one.
async fn check_free<R: BranchRegistry + ?Sized>(
    logs: &dyn EventStore,
    registry: &R,
    lineage: &RecordLineage,
) -> Result<(), DispatchError> {
    let id = &lineage.child;
    let store = |source| DispatchError::Store {
        id: id.clone(),
        source,
    };
    if logs
        .head(Head::new(id.clone()))
        .await
        .map_err(store)?
        .is_none()
    {
        return Ok(());
    }
    let link = registry
        .parent(Parent::new(id.clone()))
        .await
        .map_err(store)?;
    let reason = match link {
        Some(link) if link.parent == lineage.parent && link.label == lineage.label => return Ok(()),
        Some(link) => format!(
            "it is the branch `{}` of execution `{}`, not `{}` of `{}`",
            link.label, link.parent, lineage.label, lineage.parent
        ),
        None => format!(
            "it is no branch, and this graph needs the id for `{}` of `{}`",
            lineage.label, lineage.parent
        ),
    };
    Err(DispatchError::IdTaken {
        id: id.clone(),
        reason,
    })
}

fn no_branch(id: ExecutionId, error: StoreError) -> DispatchError {
    match error.kind() {
        StoreErrorKind::LineageConflict { .. } => DispatchError::IdTaken {
            id,
            reason: error.kind().to_string(),
        },
        _ => DispatchError::Store { id, source: error },
    }
}

/// Stands before the milliseconds in the reason of a cancellation that a timeout asked for.
const TIMED_OUT: &str = "timed out after ";

fn timed_out_reason(timeout: Duration) -> String {
    format!("{TIMED_OUT}{} ms", timeout.as_nanos().div_ceil(1_000_000))
}

/// The timeout because of which an execution was cancelled, told by the reason that its log records; `None` where it was
/// cancelled for something else.
///
/// ```
/// use std::time::Duration;
/// use loom_graph_executor::timed_out;
///
/// assert_eq!(timed_out("timed out after 1500 ms"), Some(Duration::from_millis(1500)));
/// assert_eq!(timed_out("by the user"), None);
/// ```
#[must_use]
pub fn timed_out(reason: &str) -> Option<Duration> {
    let milliseconds = reason.strip_prefix(TIMED_OUT)?.strip_suffix(" ms")?;
    milliseconds.parse().ok().map(Duration::from_millis)
}
