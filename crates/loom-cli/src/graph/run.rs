//! Running a graph: an execution for the graph itself, and one for each node.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use loom_graph_executor::{
    CancelReport, GraphEvent, GraphNode, GraphOptions, GraphOutcome, NodeOutcome, TokioTimer,
    cancel_tree, execute_graph,
};
use loom_journal::{ExecutionJournal, IdempotencyKey, JournalError, JournalOptions};
use loom_spi::{
    DispatchError, DispatchRequest, EventStore, ExecutionId, Failure as Ended, Upstream,
};
use loom_worker::{FlowContext, FlowError, LocalWorkerRuntime, open_when_free};
use serde::ser::{Error, SerializeMap as _};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use super::command;
use super::file::{GraphFile, Node};
use super::logs::recorded_graph;
use super::view::View;
use super::workers::{Placement, Workers, journal_options};
use crate::failure::Failure;
use crate::output::write_stderr;

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
    /// It was stopped on the way, and can be resumed.
    Stopped,
}

/// How a graph is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting<'a> {
    /// Nodes at a time.
    pub(crate) limit: usize,
    pub(crate) placement: Placement<'a>,
    /// For how long it belongs to a process that died.
    pub(crate) lease: Option<Duration>,
    /// Do not wait for another process that runs it.
    pub(crate) take_over: bool,
}

/// Runs the graph as execution `id`, or goes on with it. Commands are killed when `stop` says so; what they had
/// not finished is not recorded.
pub(crate) async fn run(
    store: Arc<dyn EventStore>,
    graph: &GraphFile,
    id: &ExecutionId,
    setting: Setting<'_>,
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
    let options = journal_options(setting.lease).with_take_over(setting.take_over);
    let journal = tokio::select! {
        journal = open(&store, &request, &options) => journal?,
        () = stopped(&stop) => return Ok(Run::Stopped),
    };
    if journal.outcome().is_some() {
        return Ok(Run::Recorded);
    }
    let Some(registry) = store.capabilities().branches else {
        return Err(Failure::failed(
            "the store keeps no lineage: a graph cannot run on it",
        ));
    };
    let workers = Workers::new(
        setting.placement,
        Arc::clone(&store),
        &graph.folder,
        &stop,
        options,
    )?;
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    for (node, policy) in graph.nodes.iter().zip(&graph.policies) {
        let mut made = GraphNode::new(&node.key, NODE_FLOW).with_input(to_json(node)?);
        if let Some(timeout) = policy.timeout {
            made = made.with_timeout(timeout);
        }
        if let Some(retry) = policy.retry {
            made = made.with_retry(retry);
        }
        nodes.push(made.after(node.after.iter().cloned()));
    }
    let doubt = Arc::new(Notify::new());
    let options = GraphOptions::new(id.clone())
        .with_limit(setting.limit)
        .with_on_failure(graph.on_failure)
        .with_timer(Arc::new(TokioTimer))
        .with_logs(Arc::clone(&store))
        .with_observer({
            let doubt = Arc::clone(&doubt);
            move |event| {
                if was_taken_over(event) {
                    doubt.notify_one();
                }
                view.observe(event);
            }
        });
    let outcome = tokio::select! {
        biased;
        taken_over = lost(&journal, &doubt) => {
            workers.shut_down().await;
            return Err(journal_failure(taken_over));
        }
        outcome = execute_graph(workers.dispatcher(), registry, nodes, options) => outcome,
        taken_over = journal.keep_lease(tokio::time::sleep) => {
            workers.shut_down().await;
            return Err(journal_failure(taken_over));
        }
        () = stopped(&stop) => {
            workers.shut_down().await;
            give_up(&journal).await;
            return Ok(Run::Stopped);
        }
    };
    let outcome = outcome.map_err(|error| Failure::usage(error.to_string()).with_cause(error));
    let run = match outcome {
        Ok(outcome) => settle(&journal, outcome).await,
        Err(failure) => Err(failure),
    };
    if !matches!(run, Ok(Run::Settled)) {
        give_up(&journal).await;
    }
    run
}

/// Ends the run and all that descends from it, but for what other processes run.
pub(crate) async fn cancel(
    store: Arc<dyn EventStore>,
    id: &ExecutionId,
    reason: &str,
    lease: Option<Duration>,
) -> Result<CancelReport, Failure> {
    let Some(registry) = store.capabilities().branches else {
        return Err(Failure::failed(
            "the store keeps no lineage: no graph ran on it",
        ));
    };
    // It knows no flow, and needs none to end what nobody runs.
    let worker = LocalWorkerRuntime::builder(Arc::clone(&store))
        .journal_options(journal_options(lease))
        .build();
    Ok(cancel_tree(&[&worker], registry, id, reason, &TokioTimer).await?)
}

/// Whether somebody else has a node now. Then they may have the whole graph.
fn was_taken_over(event: &GraphEvent<'_>) -> bool {
    let GraphEvent::Settled { result, .. } = event else {
        return false;
    };
    matches!(
        &result.outcome,
        NodeOutcome::Error(error) if matches!(**error, DispatchError::TakenOver { .. })
    )
}

/// Waits until the graph itself belongs to somebody else. It is asked about as soon as there is a doubt, so that no more
/// nodes are begun than need be.
async fn lost(journal: &ExecutionJournal, doubt: &Notify) -> JournalError {
    loop {
        doubt.notified().await;
        if let Err(taken_over @ JournalError::TakenOver { .. }) = journal.renew_lease().await {
            return taken_over;
        }
    }
}

/// Ends the lease of a run that is not over, so that whoever goes on with it need not wait. If this fails, it lapses.
async fn give_up(journal: &ExecutionJournal) {
    let _ = journal.release().await;
}

/// Opens the run, if need be after another process that has it.
async fn open(
    store: &Arc<dyn EventStore>,
    request: &DispatchRequest,
    options: &JournalOptions,
) -> Result<ExecutionJournal, Failure> {
    let opened = ExecutionJournal::open(Arc::clone(store), request, options.clone()).await;
    let opened = match opened {
        Err(JournalError::Leased { id, holder, .. }) => {
            write_stderr(&format!(
                "`{id}` is run by {holder}: waiting until that has ended, or goes on here if it has died (--take-over does not wait)\n"
            ));
            open_when_free(store, request, options).await
        }
        opened => opened,
    };
    opened.map_err(journal_failure)
}

/// Waits until it is to stop.
async fn stopped(stop: &watch::Sender<bool>) {
    let mut stop = stop.subscribe();
    // The sender is borrowed, so that it is there.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Records what became of the graph, unless a node may still come to its end.
async fn settle(journal: &ExecutionJournal, outcome: GraphOutcome) -> Result<Run, Failure> {
    let (mut unfinished, mut failed, mut summary) = (Vec::new(), Vec::new(), Vec::new());
    for node in outcome.nodes {
        summary.push(json!({ "key": node.key, "execution": node.execution.as_str() }));
        match node.outcome {
            NodeOutcome::Completed { .. } => {}
            NodeOutcome::Error(error) => unfinished.push((node.key, *error)),
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

/// Runs nodes in this process.
pub(crate) fn local_workers(
    store: Arc<dyn EventStore>,
    folder: &Path,
    stop: &Arc<watch::Sender<bool>>,
    options: JournalOptions,
) -> LocalWorkerRuntime {
    let (folder, stop) = (folder.to_owned(), Arc::clone(stop));
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
        .journal_options(options)
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
        | JournalError::Leased { .. }
        | JournalError::NotAJournal { .. }
        | JournalError::TakenOver { .. } => Failure::refused(message),
        JournalError::InvalidStart { .. } => Failure::usage(message),
        _ => Failure::failed(message).with_cause(error),
    }
}
