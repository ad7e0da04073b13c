//! Running a graph: an execution for the graph itself, and one for each node.

use std::sync::Arc;

use loom_graph_executor::{GraphNode, GraphOptions, GraphOutcome, NodeOutcome, execute_graph};
use loom_journal::{ExecutionJournal, IdempotencyKey, JournalError, JournalOptions};
use loom_spi::{
    DispatchError, DispatchRequest, EventStore, ExecutionId, Failure as Ended, Upstream,
};
use loom_worker::{FlowContext, FlowError, LocalWorkerRuntime};
use serde::ser::{Error, SerializeMap as _};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::command;
use super::file::{GraphFile, Node};
use super::logs::recorded_graph;
use super::view::View;
use crate::failure::Failure;

/// The flow of the execution that a run of a graph is.
pub(super) const GRAPH_FLOW: &str = "loom.graph";
/// The flow of a node.
const NODE_FLOW: &str = "loom.command";
/// The one effect of a node.
const EFFECT: &str = "command";

/// What became of a call to [`run`].
pub(crate) enum Run {
    /// It had ended before; nothing was run.
    Recorded,
    /// Every node has settled, and so has the graph.
    Settled,
    /// Some node could not be run to its end, and the graph can be resumed.
    Unfinished(Vec<(String, DispatchError)>),
}

/// Runs the graph as execution `id`, or goes on with it. Commands are killed when `stop` says so; what they had
/// not finished is not recorded.
pub(crate) async fn run(
    store: Arc<dyn EventStore>,
    graph: &GraphFile,
    id: &ExecutionId,
    limit: usize,
    view: Arc<View>,
    stop: Arc<watch::Sender<bool>>,
) -> Result<Run, Failure> {
    let definition = graph.definition();
    // What the log says is compared here first, where the difference has a name.
    if let Some(recorded) = recorded_graph(&*store, id).await?
        && let Some(difference) = recorded.difference(&definition)
    {
        return Err(Failure::refused(format!(
            "execution `{id}` is the run of another graph: {difference}"
        ))
        .with_help("run the changed graph under another --id"));
    }
    let input = to_json(&definition)?;
    let request = DispatchRequest::new(id.clone(), GRAPH_FLOW).with_input(input);
    let journal = ExecutionJournal::open(Arc::clone(&store), &request, JournalOptions::default())
        .await
        .map_err(journal_failure)?;
    if journal.outcome().is_some() {
        return Ok(Run::Recorded);
    }
    let Some(registry) = store.capabilities().branches else {
        return Err(Failure::failed(
            "the store keeps no lineage: a graph cannot run on it",
        ));
    };
    let runtime = runtime(Arc::clone(&store), graph, stop);
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let made = GraphNode::new(&node.key, NODE_FLOW).with_input(to_json(node)?);
        nodes.push(made.after(node.after.iter().cloned()));
    }
    let options = GraphOptions::new(id.clone())
        .with_limit(limit)
        .with_observer(move |event| view.observe(event));
    let outcome = execute_graph(&runtime, registry, nodes, options)
        .await
        .map_err(|error| Failure::usage(error.to_string()).with_cause(error))?;
    settle(&journal, outcome).await
}

/// Records what became of the graph, unless a node may still come to its end.
async fn settle(journal: &ExecutionJournal, outcome: GraphOutcome) -> Result<Run, Failure> {
    let (mut unfinished, mut failed, mut summary) = (Vec::new(), Vec::new(), Vec::new());
    for node in outcome.nodes {
        summary.push(json!({ "key": node.key, "execution": node.execution.as_str() }));
        match node.outcome {
            NodeOutcome::Completed { .. } => {}
            NodeOutcome::Error(error) => unfinished.push((node.key, error)),
            outcome => failed.push(format!("`{}` {outcome}", node.key)),
        }
    }
    if !unfinished.is_empty() {
        return Ok(Run::Unfinished(unfinished));
    }
    let ended = if failed.is_empty() {
        journal.complete(&json!({ "nodes": summary })).await
    } else {
        journal.fail(Ended::error(failed.join("; "))).await
    };
    ended.map_err(journal_failure)?;
    Ok(Run::Settled)
}

fn runtime(
    store: Arc<dyn EventStore>,
    graph: &GraphFile,
    stop: Arc<watch::Sender<bool>>,
) -> LocalWorkerRuntime {
    let folder = graph.folder.clone();
    LocalWorkerRuntime::builder(store)
        .flow(NODE_FLOW, move |flow: FlowContext| {
            let (folder, stop) = (folder.clone(), Arc::clone(&stop));
            async move {
                let node: Node = flow.input()?;
                let stdin = stdin_of(&flow, &node)?;
                let mut env = node.env.clone();
                env.insert("LOOM_EXECUTION".to_owned(), flow.id().to_string());
                env.insert("LOOM_NODE".to_owned(), node.key.clone());
                let effect = flow.effect(EFFECT, |key: IdempotencyKey| async move {
                    env.insert("LOOM_IDEMPOTENCY_KEY".to_owned(), key.as_str().to_owned());
                    command::run(&node.command, &env, &folder, &stdin, stop.subscribe()).await
                });
                match effect.await {
                    Ok(output) => Ok::<String, FlowError>(output),
                    // The node's key and execution stand beside it wherever it is shown.
                    Err(JournalError::EffectFailed { failure, .. }) => {
                        Err(FlowError::new(failure.to_string()))
                    }
                    Err(error) => Err(error.into()),
                }
            }
        })
        .build()
}

/// What a command reads: `{"input": …, "after": {KEY: OUTPUT}}` and a newline.
fn stdin_of(flow: &FlowContext, node: &Node) -> Result<Vec<u8>, FlowError> {
    let document = Stdin {
        input: &node.input,
        after: After(flow.upstream()),
    };
    let mut text = serde_json::to_vec(&document)?;
    text.push(b'\n');
    Ok(text)
}

#[derive(Serialize)]
struct Stdin<'a> {
    input: &'a Value,
    after: After<'a>,
}

/// In the order declared.
struct After<'a>(&'a [Upstream]);

impl Serialize for After<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for upstream in self.0 {
            let output: &RawValue =
                serde_json::from_slice(&upstream.output).map_err(Error::custom)?;
            map.serialize_entry(&upstream.key, output)?;
        }
        map.end()
    }
}

fn to_json(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(value)
        .map_err(|error| Failure::failed("cannot write the graph as JSON").with_cause(error))
}

pub(super) fn journal_failure(error: JournalError) -> Failure {
    let message = error.to_string();
    match &error {
        JournalError::Store { source, .. } => {
            let mut copy = loom_spi::StoreError::new(source.operation(), source.kind().clone());
            if let Some(shard) = source.shard() {
                copy = copy.with_shard(shard);
            }
            Failure::new(Failure::from(copy).exit(), message).with_cause(error)
        }
        JournalError::IdTaken { .. }
        | JournalError::NotAJournal { .. }
        | JournalError::TakenOver { .. } => Failure::refused(message),
        JournalError::InvalidStart { .. } => Failure::usage(message),
        _ => Failure::failed(message).with_cause(error),
    }
}
