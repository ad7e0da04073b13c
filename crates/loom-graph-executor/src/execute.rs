//! Running a graph.

use std::future::poll_fn;

use loom_spi::{BranchRegistry, ExecutionDispatcher};

use crate::attempt::{Context, Notes, attempt};
use crate::driver::Driver;
use crate::earlier::ended;
use crate::run::GraphRun;
use crate::stop::Stop;
use crate::{GraphError, GraphNode, GraphOptions, GraphOutcome, Limit, OnFailure};

/// Runs each node as an execution of its own, and returns when all have settled.
///
/// Nodes run through `dispatcher`, up to `limit` at a time, as soon as all nodes that they wait for have
/// completed; they are handed those outputs. Before a node is dispatched, `registry` learns that its execution
/// is a branch of the parent, so that `registry.children(parent)` enumerates exactly the executions that were
/// begun. A node that fails keeps only those from running that wait for it, unless the options say otherwise
/// ([`OnFailure`](crate::OnFailure)).
///
/// A node that does not complete is tried again if it may be ([`Retry`](crate::Retry)), and one that takes too long is cancelled
/// ([`GraphOptions::with_timeout`]). Whatever happens, the call returns when everything has settled: nothing that it
/// dispatched is left running.
///
/// Running the same graph again under the same parent resumes it: ids are the same
/// ([`child_id`](crate::child_id)), so the dispatcher returns recorded outcomes, joins what runs, and runs
/// what is missing. Attempts that failed are recorded, too, so a node goes on at the attempt at which it was.
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
/// [`Panicked`](crate::NodeOutcome::Panicked).
///
/// # Cancel safety
/// Dropping it stops waiting and starts no more nodes. Executions that were dispatched go on, as after any other
/// [`dispatch`](ExecutionDispatcher::dispatch) that is dropped; run the graph again to join them, or end them with
/// [`cancel_tree`](crate::cancel_tree).
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
    let stop = Stop::default();
    run_graph(dispatcher, registry, nodes, &options, &stop).await
}

pub(crate) async fn run_graph<D, R>(
    dispatcher: &D,
    registry: &R,
    nodes: Vec<GraphNode>,
    options: &GraphOptions,
    stop: &Stop<'_>,
) -> Result<GraphOutcome, GraphError>
where
    D: ExecutionDispatcher + ?Sized,
    R: BranchRegistry + ?Sized,
{
    let mut run = GraphRun::new(nodes, options)?;
    if options.on_failure == OnFailure::FailFast {
        match ended(registry, options.logs.as_deref(), &options.parent).await {
            Ok(executions) => run.wait_for(&executions),
            Err(error) => run.stop(&format!(
                "what an earlier run of the graph began cannot be looked up: {error}"
            )),
        }
    }
    // Nodes that make more nodes share the limit with those.
    let own = || run.expands().then(|| Limit::new(options.limit));
    let limit = options.shared.clone().or_else(own);
    let lent = limit.as_ref().and_then(|limit| limit.lend(&options.parent));
    let context = Context {
        dispatcher,
        registry,
        timer: options.timer.as_deref(),
        logs: options.logs.as_deref(),
        stop,
        timed_out: Notes::default(),
    };
    let mut driver = Driver::new(&context, options, limit, run, |job| attempt(&context, job));
    poll_fn(|cx| driver.poll(cx)).await;
    let outcome = driver.into_outcome();
    if let Some(lent) = lent {
        lent.take_back().await;
    }
    Ok(outcome)
}
