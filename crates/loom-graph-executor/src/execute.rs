//! Running a graph.

use std::any::Any;
use std::future::poll_fn;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::task::Poll;
use std::thread;

use futures_util::future::{CatchUnwind, FutureExt as _};
use loom_spi::{
    BranchRegistry, DispatchError, DispatchRequest, ExecutionDispatcher, ExecutionId,
    ExecutionOutcome, RecordLineage, StoreError, StoreErrorKind,
};

use crate::run::GraphRun;
use crate::slots::Slots;
use crate::{GraphError, GraphNode, GraphOptions, GraphOutcome, NodeOutcome};

/// Runs each node as an execution of its own, and returns when all have settled.
///
/// Nodes run through `dispatcher`, up to `limit` at a time, as soon as all nodes that they wait for have
/// completed; they are handed those outputs. Before a node is dispatched, `registry` learns that its execution
/// is a branch of the parent, so that `registry.children(parent)` enumerates exactly the executions that were
/// begun. A node that fails keeps only those from running that wait for it.
///
/// Running the same graph again under the same parent resumes it: ids are the same
/// ([`child_id`](crate::child_id)), so the dispatcher returns recorded outcomes, joins what runs, and runs
/// what is missing.
///
/// Nothing is spawned: the branches run where the dispatcher runs them, and the returned future is polled
/// where it is awaited. Time and memory for the graph are linear in its nodes and edges; beyond that,
/// memory grows with `limit` and with the outputs.
///
/// # Errors
/// [`GraphError`] when the graph can never run; nothing has been dispatched then. What becomes of the single
/// nodes is no error but in the outcome.
///
/// # Panics
/// When the observer does. A dispatcher or registry that panics makes the node that it ran
/// [`Panicked`](NodeOutcome::Panicked).
///
/// # Cancel safety
/// Dropping it stops waiting and starts no more nodes. Executions that were dispatched go on; run the graph again to
/// join them.
///
/// # Examples
/// ```
/// use loom_graph_executor::{GraphError, GraphNode, GraphOptions, execute_graph};
/// use loom_spi::{BranchRegistry, ExecutionDispatcher, ExecutionId};
///
/// async fn investigate(
///     dispatcher: &dyn ExecutionDispatcher,
///     registry: &dyn BranchRegistry,
///     incident: ExecutionId,
/// ) -> Result<(), GraphError> {
///     let nodes = vec![
///         GraphNode::new("metrics", "analyse-metrics"),
///         GraphNode::new("logs", "analyse-logs"),
///         GraphNode::new("report", "write-report").after(["metrics", "logs"]),
///     ];
///     let options = GraphOptions::new(incident).with_limit(2);
///     for node in execute_graph(dispatcher, registry, nodes, options).await?.nodes {
///         println!("{} ({}): {}", node.key, node.execution, node.outcome);
///     }
///     Ok(())
/// }
/// ```
pub async fn execute_graph<D, R>(
    dispatcher: &D,
    registry: &R,
    nodes: Vec<GraphNode>,
    options: GraphOptions,
) -> Result<GraphOutcome, GraphError>
where
    D: ExecutionDispatcher + ?Sized,
    R: BranchRegistry + ?Sized,
{
    let mut run = GraphRun::new(nodes, &options)?;
    let mut branches = Slots::new();
    // Nodes that settled since others on this thread had their turn.
    let mut in_a_row = 0;
    loop {
        let mut settled = None;
        while branches.len() < options.limit
            && settled.is_none()
            && let Some((number, lineage, request)) = run.next()
        {
            let branch = branch(dispatcher, registry, lineage, request);
            settled = branches.enter(number, guarded(branch));
        }
        if settled.is_none() {
            settled = poll_fn(|cx| branches.poll_next(cx)).await;
        }
        let Some((number, result)) = settled else {
            return Ok(run.into_outcome());
        };
        run.settle(number, outcome(result));
        in_a_row += 1;
        if in_a_row == YIELD_AFTER {
            in_a_row = 0;
            yield_now().await;
        }
    }
}

/// How many nodes may settle before other tasks on the thread get their turn: as many as Tokio lets a
/// task take steps.
const YIELD_AFTER: usize = 128;

async fn branch<D, R>(
    dispatcher: &D,
    registry: &R,
    lineage: RecordLineage,
    request: DispatchRequest,
) -> Result<ExecutionOutcome, DispatchError>
where
    D: ExecutionDispatcher + ?Sized,
    R: BranchRegistry + ?Sized,
{
    match registry.record_lineage(lineage).await {
        Ok(()) => dispatcher.dispatch(request).await,
        Err(error) => Err(no_branch(request.id, error)),
    }
}

fn guarded<F: Future>(branch: F) -> CatchUnwind<AssertUnwindSafe<F>> {
    AssertUnwindSafe(branch).catch_unwind()
}

fn outcome(result: thread::Result<Result<ExecutionOutcome, DispatchError>>) -> NodeOutcome {
    match result {
        Ok(result) => result.into(),
        Err(panic) => NodeOutcome::Panicked {
            message: panic_message(&*panic),
        },
    }
}

async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
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

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&'static str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}
