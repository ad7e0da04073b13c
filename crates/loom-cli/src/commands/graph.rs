//! `loom graph`.

mod cancel;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use loom_graph_executor::child_id;
use loom_shard_plan::ShardId;
use loom_spi::{DispatchError, EventStore, ExecutionId};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::log::not_found;
use crate::args::{Global, GraphCommand, GraphRun, GraphShow, Runtime};
use crate::deployment::Deployment;
use crate::failure::Failure;
use crate::graph::{
    self, Definition, Drawn, GraphFile, NodeLog, NodeState, Picture, Run, View, recorded_graph,
};
use crate::output::{Output, Table, Tone, counted, printable, typed, write_stdout};
use crate::plan::replace;

/// Nodes in flight where nobody says how many.
const DEFAULT_LIMIT: usize = 8;

#[derive(Serialize)]
struct Report {
    id: String,
    /// `completed`, `failed`, `cancelled`, or `open` while it can be resumed.
    outcome: NodeState,
    nodes: Vec<NodeReport>,
    #[serde(skip)]
    command: String,
}

#[derive(Serialize)]
struct NodeReport {
    key: String,
    execution: String,
    /// The execution of the last attempt, whose log says how the node is. Another one where it was tried again.
    last_execution: String,
    /// As for the graph; `skipped` when something it waits for did not complete, `not-begun` when the graph
    /// stopped before it, `waiting` when it may still begin.
    outcome: &'static str,
    attempts: usize,
    output: Option<String>,
    message: Option<String>,
    shard: Option<u16>,
    file: Option<String>,
    /// The file, or the url of the server.
    #[serde(skip)]
    place: Option<String>,
    #[serde(skip)]
    leaf: bool,
}

/// Refuses a bad graph file before any shard is opened.
pub(super) fn check(command: &GraphCommand, json: bool) -> Result<(), Failure> {
    match command {
        GraphCommand::Cancel(_) => Ok(()),
        GraphCommand::Run(args) => GraphFile::load(&args.file).map(drop),
        GraphCommand::Show(args) => {
            let stdout = [&args.dot, &args.svg]
                .into_iter()
                .flatten()
                .any(|out| is_stdout(out));
            if stdout && json {
                return Err(
                    Failure::usage("stdout cannot have the drawing and the report")
                        .with_help("name a file for the drawing: --dot OUT, --svg OUT"),
                );
            }
            Ok(())
        }
    }
}

pub(super) async fn run(
    command: &GraphCommand,
    global: &Global,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    match command {
        GraphCommand::Run(args) => run_graph(args, global, deployment, output).await,
        GraphCommand::Show(args) => show(args, global, deployment, output).await,
        GraphCommand::Cancel(args) => cancel::run(args, deployment, output).await,
    }
}

async fn show(
    args: &GraphShow,
    global: &Global,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    let id = &args.id;
    let Some(definition) = recorded_graph(&deployment.store, id).await? else {
        return Err(not_found(id.as_str()));
    };
    let report = look(deployment, global, id, &definition, &[]).await?;
    let picture = || report.picture(id, &definition);
    let drawn = match (&args.dot, &args.svg) {
        (Some(out), _) => Some((out, picture().dot())),
        (None, Some(out)) => Some((out, picture().svg())),
        (None, None) => None,
    };
    match drawn {
        Some((out, drawing)) if is_stdout(out) => return write_stdout(drawing.as_bytes()),
        Some((out, drawing)) => replace(out, drawing.as_bytes())?,
        None => {}
    }
    output.print(&report, |output| report.text(output))
}

fn is_stdout(out: &Path) -> bool {
    out.as_os_str() == "-"
}

async fn run_graph(
    args: &GraphRun,
    global: &Global,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    let graph = GraphFile::load(&args.file)?;
    let id = args.id.clone().or_else(|| graph.id.clone());
    let id = id.unwrap_or_else(ExecutionId::generate);
    let limit = args
        .limit
        .and_then(|limit| usize::try_from(limit).ok())
        .or(graph.limit)
        .or(deployment.config.limits.graph_nodes)
        .unwrap_or(DEFAULT_LIMIT);
    let store: Arc<dyn EventStore> = Arc::new(deployment.store.clone());
    let view = Arc::new(View::new(&id, &graph));
    let stop = Arc::new(watch::Sender::new(false));
    let setting = graph::Setting {
        limit,
        placement: match args.runtime {
            Runtime::Local => graph::Placement::Local,
            Runtime::Process => graph::Placement::Process {
                config: &deployment.config.path,
            },
        },
        lease: deployment.config.limits.lease(),
        take_over: args.take_over,
    };
    let run = graph::run(
        store,
        &graph,
        &id,
        setting,
        Arc::clone(&view),
        Arc::clone(&stop),
    );
    let mut run = std::pin::pin!(run);
    let result = tokio::select! {
        result = &mut run => result,
        interrupted = interrupted() => {
            // Ends when every command has been killed.
            stop.send_replace(true);
            let result = run.await;
            interrupted.and(result)
        }
    };
    view.finish();
    let unfinished = match result? {
        Run::Recorded | Run::Settled => Vec::new(),
        Run::Unfinished(nodes) => nodes,
        Run::Stopped => {
            stop.closed().await;
            return Err(Failure::failed(format!(
                "interrupted: what was running in `{id}` was stopped and not recorded"
            ))
            .with_help("run it again with the same --id, and it goes on where it stopped"));
        }
    };
    let report = look(deployment, global, &id, &graph.definition(), &unfinished).await?;
    output.print(&report, |output| report.text(output))?;
    report.into_result(unfinished)
}

/// Ctrl-C, the signal that asks a process to end, or its terminal is gone.
pub(super) async fn interrupted() -> Result<(), Failure> {
    let cannot = |error| Failure::failed("cannot listen for signals").with_cause(error);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(cannot)?;
    tokio::select! {
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
        _ = hang_up.recv() => Ok(()),
    }
}

/// Reads what became of every branch, and where its log is.
async fn look(
    deployment: &Deployment,
    global: &Global,
    id: &ExecutionId,
    definition: &Definition,
    unfinished: &[(String, DispatchError)],
) -> Result<Report, Failure> {
    let graph = NodeLog::read(&deployment.store, id).await?;
    let mut nodes: Vec<NodeReport> = Vec::with_capacity(definition.nodes.len());
    let waited_for: HashSet<&String> = definition
        .nodes
        .iter()
        .flat_map(|node| &node.after)
        .collect();
    for node in &definition.nodes {
        let execution = child_id(id, &node.key)
            .map_err(|error| Failure::usage(error.to_string()).with_cause(error))?;
        let (last, log) = NodeLog::read_last(&deployment.store, &execution).await?;
        let shard = match log.state {
            NodeState::Absent => None,
            _ => deployment.locate(&last).await?,
        };
        let error = unfinished.iter().find(|(key, _)| *key == node.key);
        nodes.push(NodeReport {
            key: node.key.clone(),
            execution: execution.to_string(),
            last_execution: last.to_string(),
            outcome: name(log.state),
            attempts: log.attempts,
            output: log.output,
            message: log
                .message
                .or_else(|| error.map(|(_, error)| error.to_string())),
            shard: shard.map(ShardId::get),
            file: shard
                .and_then(|shard| deployment.file(shard))
                .map(|file| file.display().to_string()),
            place: shard.and_then(|shard| deployment.place(shard)),
            leaf: !waited_for.contains(&node.key),
        });
    }
    mark_skipped(definition, &mut nodes);
    if !matches!(graph.state, NodeState::Absent | NodeState::Open) {
        // It has ended, so what waits will not begin.
        for node in nodes.iter_mut().filter(|node| node.outcome == "waiting") {
            node.outcome = "not-begun";
            node.message.clone_from(&graph.message);
        }
    }
    let config = match &global.config {
        Some(config) => format!(" --config {}", typed(&config.display().to_string())),
        None => String::new(),
    };
    // As it was called, so that the line can be typed again.
    let program = std::env::args().next().unwrap_or_else(|| "loom".to_owned());
    let program = typed(&program);
    Ok(Report {
        id: id.to_string(),
        outcome: graph.state,
        nodes,
        command: format!("{program}{config} log"),
    })
}

fn name(state: NodeState) -> &'static str {
    match state {
        NodeState::Completed => "completed",
        NodeState::Failed => "failed",
        NodeState::Panicked => "panicked",
        NodeState::Cancelled => "cancelled",
        NodeState::TimedOut => "timed-out",
        NodeState::Open => "open",
        NodeState::Absent => "waiting",
    }
}

/// A node that waits for one that ended without completing, or that was itself skipped, is never run.
fn mark_skipped(definition: &Definition, nodes: &mut [NodeReport]) {
    let mut waiting_for: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, node) in definition.nodes.iter().enumerate() {
        for after in &node.after {
            waiting_for.entry(after).or_default().push(index);
        }
    }
    let ended = |node: &NodeReport| {
        matches!(
            node.outcome,
            "failed" | "panicked" | "cancelled" | "timed-out"
        )
    };
    let mut blocked: HashSet<usize> = (0..nodes.len()).filter(|&at| ended(&nodes[at])).collect();
    let mut next: Vec<usize> = blocked.iter().copied().collect();
    while let Some(blocker) = next.pop() {
        let waiting = waiting_for.get(definition.nodes[blocker].key.as_str());
        for &index in waiting.into_iter().flatten() {
            if nodes[index].outcome == "waiting" && blocked.insert(index) {
                next.push(index);
            }
        }
    }
    let keys: HashSet<&str> = blocked
        .iter()
        .map(|&at| definition.nodes[at].key.as_str())
        .collect();
    for &index in &blocked {
        let report = &mut nodes[index];
        let mut after = definition.nodes[index].after.iter();
        if report.outcome == "waiting"
            && let Some(blocker) = after.find(|after| keys.contains(after.as_str()))
        {
            report.outcome = "skipped";
            report.message = Some(format!("`{blocker}` did not complete"));
        }
    }
}

impl Report {
    fn picture<'a>(&'a self, id: &'a ExecutionId, definition: &Definition) -> Picture<'a> {
        let places: HashMap<&str, usize> = self
            .nodes
            .iter()
            .zip(0..)
            .map(|(node, place)| (node.key.as_str(), place))
            .collect();
        let nodes = self
            .nodes
            .iter()
            .zip(&definition.nodes)
            .map(|(node, defined)| Drawn {
                key: &node.key,
                outcome: node.outcome,
                attempts: node.attempts,
                after: defined
                    .after
                    .iter()
                    .filter_map(|key| places.get(key.as_str()).copied())
                    .collect(),
            });
        Picture {
            id,
            outcome: name(self.outcome),
            nodes: nodes.collect(),
        }
    }

    fn text(&self, output: Output) -> String {
        let completed = self
            .nodes
            .iter()
            .filter(|node| node.outcome == "completed")
            .count();
        let tone = if completed == self.nodes.len() {
            Tone::Good
        } else {
            Tone::Bad
        };
        let tally = format!(
            "{completed} of {} completed",
            counted(self.nodes.len() as u64, "node")
        );
        let mut text = format!(
            "{}: {}\n\n",
            output.paint(Tone::Strong, &self.id),
            output.paint(tone, &tally)
        );
        let mut table = Table::new(&["node", "outcome", "execution", ">shard", "log in"]);
        for node in &self.nodes {
            table.row([
                node.key.clone(),
                node.outcome.to_owned(),
                node.last_execution.clone(),
                node.shard
                    .map_or_else(|| "-".to_owned(), |shard| shard.to_string()),
                node.place.clone().unwrap_or_else(|| "-".to_owned()),
            ]);
        }
        text.push_str(&table.render(output));
        for node in &self.nodes {
            let body = match (&node.message, &node.output) {
                (Some(message), _) => message,
                (None, Some(out)) if node.leaf && !out.is_empty() => out,
                _ => continue,
            };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "\n{}:", output.paint(Tone::Strong, &node.key));
            for line in body.lines() {
                let _ = writeln!(text, "  {}", printable(line));
            }
        }
        if let Some(node) = self.nodes.iter().find(|node| node.shard.is_some()) {
            let hint = format!(
                "each is a log of its own: {} {}",
                self.command,
                typed(&node.last_execution)
            );
            let _ = writeln!(text, "\n{}", output.paint(Tone::Quiet, &hint));
        }
        text
    }

    /// The exit code: that of the first node that could not be run to its end, 1 when one failed.
    fn into_result(self, unfinished: Vec<(String, DispatchError)>) -> Result<(), Failure> {
        if let Some((key, error)) = unfinished.into_iter().next() {
            return Err(Failure::from(error)
                .context(format_args!("node `{key}` was not run to its end"))
                .with_help("run the graph again with the same --id to go on"));
        }
        let left = self
            .nodes
            .iter()
            .filter(|node| node.outcome != "completed")
            .count();
        match left {
            0 => Ok(()),
            left => Err(Failure::failed(format!(
                "{left} of {} did not complete",
                counted(self.nodes.len() as u64, "node")
            ))),
        }
    }
}
