//! Graphs beside what one would use for the same fan-out.

mod nodes;
mod peers;
mod replay;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loom_graph_executor::{GraphNode, GraphOptions, execute_graph};
use loom_spi::{BranchRegistry, EventStore, ExecutionDispatcher, ExecutionId};
use loom_store_memory::MemoryStore;
use loom_worker::LocalWorkerRuntime;
use tokio::runtime::{Builder, Runtime};

use self::nodes::{Noop, graph, join_set};
use crate::report::{Row, Target};
use crate::stores::{self, Store};
use crate::timing::{Ratio, pair};
use crate::{Failure, Outcome, Settings};

const SUITE: &str = "graph";
/// Nodes in flight.
const LIMIT: usize = 64;
/// Rounds of what takes long. Odd, so that the median is one of them.
pub(crate) const FEW: usize = 5;

/// Every comparison of the suite.
pub(crate) fn run(settings: &Settings) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    if settings.wants("own") {
        outcome.add(own()?);
    }
    if settings.wants("peers") {
        outcome.add(peers::rows(settings)?.into());
    }
    if settings.wants("large") {
        outcome.add(peers::large(settings)?.into());
    }
    Ok(outcome)
}

/// Beside Tokio and ourselves.
fn own() -> Result<Outcome, Failure> {
    let runtime = stores::runtime()?;
    let mut outcome = Outcome::default();
    // First, while nothing has been freed that could be used again.
    outcome.add(vec![memory(&runtime)?].into());
    for nodes in [10_000, 100_000] {
        outcome.add(vec![bare(&runtime, nodes), in_memory(&runtime, nodes)].into());
    }
    outcome.add(vec![through_a_runtime(&runtime, 10_000)?, two_threads()?].into());
    outcome.add(durable()?.into());
    outcome.add(replay::rows(&runtime)?.into());
    Ok(outcome)
}

/// Runs `nodes` and says whether all completed.
async fn execute(
    dispatcher: &impl ExecutionDispatcher,
    registry: &dyn BranchRegistry,
    parent: &str,
    nodes: Vec<GraphNode>,
) -> Result<(), Failure> {
    let options = GraphOptions::new(ExecutionId::new(parent)?).with_limit(LIMIT);
    let outcome = execute_graph(dispatcher, registry, nodes, options).await?;
    let completed = outcome.all_completed();
    black_box(outcome);
    if completed {
        Ok(())
    } else {
        Err("a no-op node did not complete".into())
    }
}

fn each(time: Duration, nodes: usize) -> String {
    format!("{:.0} ns", time.as_secs_f64() * 1e9 / nodes as f64)
}

/// The executor with a dispatcher that does not spawn and a registry that remembers nothing.
fn bare(runtime: &Runtime, nodes: usize) -> Row {
    let timed = pair(
        || {
            runtime
                .block_on(execute(&Noop, &Noop, "g", graph(nodes)))
                .is_ok()
        },
        || runtime.block_on(join_set(nodes)),
    );
    against_join_set(
        format!("{nodes} no-op nodes, the executor alone"),
        &timed,
        nodes,
        0.5,
    )
}

/// The same with lineage in memory.
fn in_memory(runtime: &Runtime, nodes: usize) -> Row {
    let timed = pair(
        || {
            let registry = MemoryStore::new();
            runtime
                .block_on(execute(&Noop, &registry, "g", graph(nodes)))
                .is_ok()
        },
        || runtime.block_on(join_set(nodes)),
    );
    against_join_set(
        format!("{nodes} no-op nodes, lineage in memory"),
        &timed,
        nodes,
        0.5,
    )
}

/// Through a worker runtime: a task and a journal for each node.
fn through_a_runtime(runtime: &Runtime, nodes: usize) -> Result<Row, Failure> {
    let mut failed = None;
    let timed = pair(
        || {
            let store = Arc::new(MemoryStore::new());
            if let Err(error) = runtime.block_on(journaled(&store, &*store, "g", nodes)) {
                failed = Some(error);
            }
        },
        || runtime.block_on(join_set(nodes)),
    );
    match failed {
        Some(error) => Err(error),
        None => Ok(against_join_set(
            format!("{nodes} no-op nodes, local runtime, journals in memory"),
            &timed,
            nodes,
            3.0,
        )),
    }
}

async fn journaled<S: EventStore>(
    store: &Arc<S>,
    registry: &dyn BranchRegistry,
    parent: &str,
    nodes: usize,
) -> Result<(), Failure> {
    let runtime = LocalWorkerRuntime::builder(Arc::<S>::clone(store))
        .flow("noop", |_| async { Ok(()) })
        .build();
    execute(&runtime, registry, parent, graph(nodes)).await
}

fn against_join_set(what: String, timed: &crate::timing::Paired, nodes: usize, most: f64) -> Row {
    let note = format!(
        "{} against {} a node; a graph is made, run and dropped",
        each(timed.ours, nodes),
        each(timed.theirs, nodes)
    );
    let against = format!("tokio JoinSet bounded to {LIMIT}");
    Row::new(
        SUITE,
        what,
        against,
        timed.ratio,
        Some(Target::AtMost(most)),
        note,
    )
}

/// CPU-bound nodes through the local runtime, on two worker threads and on one.
fn two_threads() -> Result<Row, Failure> {
    const NODES: usize = 400;
    let on = |threads| -> Result<Duration, Failure> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .build()?;
        let store = Arc::new(MemoryStore::new());
        let worker = LocalWorkerRuntime::builder(Arc::<MemoryStore>::clone(&store))
            .flow("noop", |_| async {
                Ok(black_box((0..400_000_u64).map(black_box).sum::<u64>()))
            })
            .build();
        let start = Instant::now();
        runtime.block_on(execute(&worker, &*store, "g", graph(NODES)))?;
        Ok(start.elapsed())
    };
    let mut ratios = Vec::new();
    for _ in 0..FEW {
        ratios.push(on(1)?.as_secs_f64() / on(2)?.as_secs_f64());
    }
    Ok(Row::new(
        SUITE,
        format!("speed of {NODES} CPU-bound nodes on two worker threads"),
        "one worker thread",
        Ratio::of(ratios),
        Some(Target::AtLeast(1.8)),
        "local runtime, journals in memory; needs two idle cores",
    ))
}

/// How much the process grows by while a graph runs, beyond its nodes and results.
fn memory(runtime: &Runtime) -> Result<Row, Failure> {
    const NODES: usize = 100_000;
    let before = resident()?;
    let nodes = graph(NODES);
    let made = resident()?;
    let mut most = 0;
    runtime.block_on(async {
        let options = GraphOptions::new(ExecutionId::new("g")?).with_limit(LIMIT);
        let outcome = execute_graph(&Noop, &Noop, nodes, options).await?;
        most = resident()?;
        drop(outcome);
        Ok::<_, Failure>(())
    })?;
    let bytes = |from: usize, to: usize| to.saturating_sub(from) as f64 / NODES as f64;
    let (graph, results) = (bytes(before, made), bytes(made, most));
    let note = format!("{graph:.0} bytes a node for the graph, {results:.0} more when it has run");
    Ok(Row::new(
        SUITE,
        format!("memory of a graph of {NODES} nodes with its results, limit {LIMIT}"),
        "the graph alone",
        Ratio::exact((graph + results) / graph.max(1.0)),
        None,
        note,
    ))
}

/// Bytes of the process that are in memory. Linux only.
fn resident() -> Result<usize, Failure> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: usize = text.split(' ').nth(1).ok_or("no resident pages")?.parse()?;
    Ok(pages * 4096)
}

/// Graphs whose every node is a synced log on SQLite.
fn durable() -> Result<Vec<Row>, Failure> {
    let runtime = stores::runtime()?;
    let folder = stores::folder()?;
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for round in 0..FEW {
        small.push(on_sqlite(&runtime, folder.path(), round, 1_000)?);
        large.push(on_sqlite(&runtime, folder.path(), round, 10_000)?);
    }
    let per_node = |times: &[Duration], nodes: usize| {
        let median = crate::timing::median(times.iter().map(Duration::as_secs_f64));
        Duration::from_secs_f64(median / nodes as f64)
    };
    let ratios = small
        .iter()
        .zip(&large)
        .map(|(small, large)| large.as_secs_f64() / 10.0 / small.as_secs_f64());
    let note = format!(
        "synchronous=FULL; {:.0} µs and {:.0} µs a node",
        per_node(&large, 10_000).as_secs_f64() * 1e6,
        per_node(&small, 1_000).as_secs_f64() * 1e6
    );
    let rows = vec![Row::new(
        SUITE,
        "time of a node in a durable graph of 10,000, SQLite",
        "in one of 1,000",
        Ratio::of(ratios),
        Some(Target::AtMost(1.25)),
        note,
    )];
    Ok(rows)
}

fn on_sqlite(
    runtime: &Runtime,
    folder: &Path,
    round: usize,
    nodes: usize,
) -> Result<Duration, Failure> {
    let store = runtime.block_on(stores::sqlite(folder, &format!("{nodes}-{round}.db")))?;
    on_store(runtime, &store, nodes)
}

/// How long a graph takes whose lineage and journals are in a store.
pub(crate) fn on_store(
    runtime: &Runtime,
    store: &Store,
    nodes: usize,
) -> Result<Duration, Failure> {
    let registry = store
        .capabilities()
        .branches
        .ok_or("the store keeps no lineage")?;
    let worker = LocalWorkerRuntime::builder(Arc::clone(store))
        .flow("noop", |_| async { Ok(()) })
        .build();
    let start = Instant::now();
    runtime.block_on(execute(&worker, registry, "g", graph(nodes)))?;
    Ok(start.elapsed())
}
