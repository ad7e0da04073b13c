//! A graph of no-op nodes, 64 at a time, against a bounded Tokio `JoinSet` of no-op tasks.
//!
//! `cargo bench -p loom-graph-executor`

#![allow(
    clippy::expect_used,
    reason = "a benchmark without a runtime cannot go on"
)]

use std::hint::black_box;

use async_trait::async_trait;
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use loom_graph_executor::{GraphNode, GraphOptions, GraphOutcome, execute_graph};
use loom_spi::{
    Branch, BranchRegistry, CancelRequest, Cancellation, Children, DispatchError, DispatchRequest,
    ExecutionDispatcher, ExecutionId, ExecutionOutcome, Forget, Parent, ParentLink, RecordLineage,
    StoreError,
};
use loom_store_memory::MemoryStore;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

const LIMIT: usize = 64;

/// Runs nothing, at once, and spawns nothing.
#[derive(Debug)]
struct Noop;

#[async_trait]
impl ExecutionDispatcher for Noop {
    async fn dispatch(&self, request: DispatchRequest) -> Result<ExecutionOutcome, DispatchError> {
        black_box(request);
        let output = bytes::Bytes::from_static(b"null");
        Ok(ExecutionOutcome::Completed { output })
    }

    async fn cancel(&self, _: CancelRequest) -> Result<Cancellation, DispatchError> {
        Ok(Cancellation::NotRunning)
    }
}

/// Remembers nothing: what is left is the executor alone.
#[async_trait]
impl BranchRegistry for Noop {
    async fn record_lineage(&self, request: RecordLineage) -> Result<(), StoreError> {
        black_box(request);
        Ok(())
    }

    async fn children(&self, _: Children) -> Result<Vec<Branch>, StoreError> {
        Ok(Vec::new())
    }

    async fn parent(&self, _: Parent) -> Result<Option<ParentLink>, StoreError> {
        Ok(None)
    }

    async fn forget(&self, _: Forget) -> Result<u64, StoreError> {
        Ok(0)
    }
}

async fn join_set(tasks: usize) {
    let mut set = JoinSet::new();
    for task in 0..tasks {
        if set.len() == LIMIT {
            black_box(set.join_next().await);
        }
        set.spawn(async move { black_box(task) });
    }
    while let Some(result) = set.join_next().await {
        black_box(result).ok();
    }
}

fn graph(nodes: usize) -> Vec<GraphNode> {
    (0..nodes)
        .map(|node| GraphNode::new(node.to_string(), "noop"))
        .collect()
}

async fn run<R: BranchRegistry>(registry: R, nodes: Vec<GraphNode>) -> Option<GraphOutcome> {
    let parent = ExecutionId::new("incident-42").ok()?;
    let options = GraphOptions::new(parent).with_limit(LIMIT);
    execute_graph(&Noop, &registry, nodes, options).await.ok()
}

fn fan_out(c: &mut Criterion) {
    let runtime = runtime();
    for nodes in [10_000, 100_000] {
        let mut group = c.benchmark_group(format!("{nodes} no-op nodes"));
        group
            .throughput(Throughput::Elements(nodes as u64))
            .sample_size(20);
        group.bench_function(BenchmarkId::new("tokio JoinSet", LIMIT), |b| {
            b.to_async(&runtime).iter(|| join_set(nodes));
        });
        // The cheapest way to spawn, for comparison: from one of the worker threads.
        group.bench_function(BenchmarkId::new("tokio JoinSet, on a worker", LIMIT), |b| {
            b.to_async(&runtime).iter(|| tokio::spawn(join_set(nodes)));
        });
        group.bench_function(
            BenchmarkId::new("execute_graph, executor alone", LIMIT),
            |b| {
                let run = |nodes| run(Noop, nodes);
                b.to_async(&runtime)
                    .iter_batched(|| graph(nodes), run, BatchSize::LargeInput);
            },
        );
        group.bench_function(
            BenchmarkId::new("execute_graph, memory registry", LIMIT),
            |b| {
                let setup = || (MemoryStore::new(), graph(nodes));
                let run = |(registry, nodes)| run(registry, nodes);
                b.to_async(&runtime)
                    .iter_batched(setup, run, BatchSize::LargeInput);
            },
        );
        group.finish();
    }
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).build().expect("a runtime")
}

criterion_group!(benches, fan_out);
criterion_main!(benches);
