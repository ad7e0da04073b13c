//! A process of the tests of durable execution: runs executions on a store in a folder until it has their outcome, or
//! is killed, or is told that somebody else has them.
//!
//! - `loom-durable-node graph FOLDER ID` runs a graph, its nodes in this process.
//! - `loom-durable-node spread FOLDER ID` runs the same graph, each node in a process of its own.
//! - `loom-durable-node meet FOLDER ID` runs a graph of three nodes, each in a process of its own, that wait for each other.
//! - `loom-durable-node policies FOLDER ID` runs a graph with retries and a timeout, each node in a process of its own.
//! - `loom-durable-node fail-fast FOLDER ID` runs a graph that fails fast, each node in a process of its own.
//! - `loom-durable-node flow FOLDER ID` runs one execution that waits, halfway, for a line on stdin.
//! - `loom-durable-node instance FOLDER` runs the execution that its environment names.
//!
//! Each effect appends a line to the file `effects` of the folder before it is recorded. What is told on stdout: a
//! line for each effect, and at the end `ended` with the outcome, or `error` with what was in the way.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use loom_graph_executor::{
    GraphNode, GraphOptions, NodeOutcome, OnFailure, Retry, TokioTimer, execute_graph,
};
use loom_spi::{
    DispatchError, DispatchRequest, EventStore, ExecutionDispatcher, ExecutionId, ExecutionOutcome,
};
use loom_store_sqlite::{Options, SqliteStore};
use loom_worker::{Assignment, InstanceOptions, InstanceWorkerRuntime, OsProcess};

use loom_tests::flows::{lease, say, worker};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Nodes at a time.
const LIMIT: usize = 3;

fn main() -> ExitCode {
    let result = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(work()));
    // What an instance says comes out where its dispatcher speaks.
    let who = match env::args().nth(1).as_deref() {
        Some("instance") => "instance ",
        _ => "",
    };
    let (line, code) = match result {
        Ok(outcome) => (format!("{who}ended {outcome}"), ExitCode::SUCCESS),
        Err(error) => (format!("{who}error {}", chain(&*error)), ExitCode::FAILURE),
    };
    say(&line);
    code
}

async fn work() -> Result<String> {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match *args {
        ["graph", folder, id] => {
            let store = open(folder).await?;
            let runtime = worker(Arc::clone(&store), Path::new(folder));
            graph(&runtime, &*store, ExecutionId::new(id)?, nodes()).await
        }
        ["spread", folder, id] => {
            let store = open(folder).await?;
            let runtime = processes(Arc::clone(&store), folder)?;
            graph(&runtime, &*store, ExecutionId::new(id)?, nodes()).await
        }
        ["meet", folder, id] => {
            let store = open(folder).await?;
            let runtime = processes(Arc::clone(&store), folder)?;
            graph(&runtime, &*store, ExecutionId::new(id)?, meeting()).await
        }
        ["policies", folder, id] => policies(folder, ExecutionId::new(id)?, pressed(), false).await,
        ["fail-fast", folder, id] => policies(folder, ExecutionId::new(id)?, failing(), true).await,
        ["flow", folder, id] => {
            let runtime = worker(open(folder).await?, Path::new(folder));
            let request = DispatchRequest::new(ExecutionId::new(id)?, "halfway");
            text(runtime.dispatch(request).await)
        }
        ["instance", folder] => {
            let runtime = worker(open(folder).await?, Path::new(folder));
            text(runtime.run_assigned(&Assignment::from_env()?).await)
        }
        _ => Err(
            "expected: graph|spread|meet|policies|fail-fast|flow FOLDER ID, or: instance FOLDER"
                .into(),
        ),
    }
}

async fn open(folder: &str) -> Result<Arc<dyn EventStore>> {
    let file = Path::new(folder).join("store.db");
    // Many processes at once wait for each other.
    let options = Options::new().with_busy_timeout(Duration::from_secs(60));
    Ok(Arc::new(SqliteStore::open(file, options).await?))
}

fn processes(store: Arc<dyn EventStore>, folder: &str) -> Result<InstanceWorkerRuntime<OsProcess>> {
    let (program, folder) = (env::current_exe()?, PathBuf::from(folder));
    let platform = OsProcess::new(move |_| {
        let mut command = Command::new(&program);
        command.arg("instance").arg(&folder);
        command
    });
    let options = InstanceOptions::default()
        .with_lease(lease())
        .with_observe(Duration::from_millis(20));
    Ok(InstanceWorkerRuntime::new(store, platform, options))
}

/// Three layers: each node adds up what it is handed, and its own part.
fn nodes() -> Vec<GraphNode> {
    let part = |key: &str, after: &[&str]| {
        GraphNode::new(key, "part")
            .with_input("1")
            .after(after.iter().copied())
    };
    vec![
        part("a", &[]),
        part("b", &[]),
        part("c", &[]),
        part("d", &[]),
        part("e", &["a", "b"]),
        part("f", &["b", "c"]),
        part("g", &["c", "d"]),
        part("h", &["e", "f", "g"]),
    ]
}

/// Nodes that wait for each other, so that they have to run at the same time.
fn meeting() -> Vec<GraphNode> {
    let node = |key| GraphNode::new(key, "meet");
    ["metrics", "logs", "queries"].map(node).to_vec()
}

/// One that fails twice, one that is never done, one that always fails.
fn pressed() -> Vec<GraphNode> {
    vec![
        GraphNode::new("flaky", "flaky").with_retry(Retry::attempts(3)),
        GraphNode::new("endless", "wait").with_timeout(Duration::from_millis(300)),
        GraphNode::new("hopeless", "fail").with_retry(Retry::attempts(2)),
    ]
}

/// One that waits for ever beside one that fails, and one that never comes to its turn.
fn failing() -> Vec<GraphNode> {
    vec![
        GraphNode::new("endless", "wait"),
        GraphNode::new("hopeless", "fail"),
        GraphNode::new("last", "echo").after(["endless"]),
    ]
}

/// Runs nodes that need not complete, and says what became of each, and in how many attempts.
async fn policies(
    folder: &str,
    parent: ExecutionId,
    nodes: Vec<GraphNode>,
    fail_fast: bool,
) -> Result<String> {
    let store = open(folder).await?;
    let runtime = processes(Arc::clone(&store), folder)?;
    let registry = store.capabilities().branches;
    let registry = registry.ok_or("the store keeps no lineage")?;
    let mut options = GraphOptions::new(parent)
        .with_limit(LIMIT)
        .with_timer(Arc::new(TokioTimer));
    if fail_fast {
        options = options.with_on_failure(OnFailure::FailFast);
    }
    let outcome = execute_graph(&runtime, registry, nodes, options).await?;
    let nodes = outcome.nodes.iter();
    let told = nodes.map(|node| format!("{} {} {}", node.key, node.attempts, node.outcome));
    Ok(told.collect::<Vec<_>>().join("; "))
}

async fn graph(
    dispatcher: &dyn ExecutionDispatcher,
    store: &dyn EventStore,
    parent: ExecutionId,
    nodes: Vec<GraphNode>,
) -> Result<String> {
    let registry = store.capabilities().branches;
    let registry = registry.ok_or("the store keeps no lineage")?;
    let options = GraphOptions::new(parent).with_limit(LIMIT);
    let outcome = execute_graph(dispatcher, registry, nodes, options).await?;
    let mut outputs = Vec::new();
    for node in outcome.nodes {
        match node.outcome {
            NodeOutcome::Completed { output } => {
                outputs.push(String::from_utf8_lossy(&output).into_owned());
            }
            NodeOutcome::Error(error) => return Err(error),
            other => return Err(format!("node `{}` {other}", node.key).into()),
        }
    }
    Ok(outputs.join(" "))
}

fn text(outcome: std::result::Result<ExecutionOutcome, DispatchError>) -> Result<String> {
    match outcome? {
        ExecutionOutcome::Completed { output } => Ok(String::from_utf8_lossy(&output).into_owned()),
        other => Err(format!("{other:?}").into()),
    }
}

fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
