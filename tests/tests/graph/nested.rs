//! Graphs in nodes of graphs.

use std::sync::{Arc, OnceLock};

use loom_graph_executor::{GraphNode, GraphOptions, Limit, NodeOutcome, execute_graph};
use loom_spi::{EventStore, ExecutionId};
use loom_store_memory::MemoryStore;
use loom_worker::{FlowContext, FlowError, LocalWorkerRuntime};

use crate::support::{children, id, registry, run};

/// A flow that fans out into two of itself until it is `input` levels deep, and adds up the leaves.
fn tree(store: Arc<dyn EventStore>, limit: usize) -> LocalWorkerRuntime {
    let own = Arc::new(OnceLock::<LocalWorkerRuntime>::new());
    let (handle, logs) = (Arc::clone(&own), Arc::clone(&store));
    let runtime = LocalWorkerRuntime::builder(store)
        .flow("tree", move |flow: FlowContext| {
            let (handle, logs) = (Arc::clone(&handle), Arc::clone(&logs));
            async move {
                let depth: u32 = flow.input()?;
                if depth == 0 {
                    return Ok(1_u64);
                }
                let runtime = handle.get().ok_or_else(|| FlowError::new("no runtime"))?;
                let node = |key| GraphNode::new(key, "tree").with_input((depth - 1).to_string());
                let options = GraphOptions::new(flow.id().clone()).with_limit(limit);
                let nodes = vec![node("left-hand branch"), node("right-hand branch")];
                let outcome = execute_graph(runtime, registry(&*logs), nodes, options).await?;
                let mut leaves = 0;
                for node in outcome.nodes {
                    match node.outcome {
                        NodeOutcome::Completed { output } => {
                            leaves += serde_json::from_slice::<u64>(&output)?;
                        }
                        other => return Err(FlowError::new(format!("{}: {other}", node.key))),
                    }
                }
                Ok(leaves)
            }
        })
        .build();
    own.set(runtime.clone()).unwrap();
    runtime
}

#[tokio::test]
async fn graphs_in_graphs_each_with_a_limit_of_1_complete() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let runtime = tree(Arc::clone(&store), 1);
    let root = vec![GraphNode::new("root", "tree").with_input("5")];
    let outcome = run(
        &runtime,
        &*store,
        root,
        GraphOptions::new(id("forest")).with_limit(1),
    )
    .await;
    assert!(
        matches!(&outcome.nodes[0].outcome, NodeOutcome::Completed { output } if output == "32"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn e26_ids_of_nested_graphs_stay_within_the_limit_and_are_the_same_on_resume() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let parent = "f".repeat(230);
    let mut runs = Vec::new();
    for _ in 0..2 {
        let runtime = tree(Arc::clone(&store), 64);
        let root = vec![GraphNode::new("root", "tree").with_input("4")];
        let outcome = run(&runtime, &*store, root, GraphOptions::new(id(&parent))).await;
        assert!(outcome.all_completed(), "{outcome:?}");
        let mut level = children(&*store, &parent).await;
        let mut all = Vec::new();
        while !level.is_empty() {
            let mut next = Vec::new();
            for execution in &level {
                next.extend(children(&*store, execution).await);
            }
            all.extend(std::mem::replace(&mut level, next));
        }
        assert_eq!(all.len(), 31);
        assert!(all.iter().all(|id| id.len() <= ExecutionId::MAX_BYTES));
        runs.push(all);
    }
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test]
async fn e2_graphs_in_nodes_of_graphs_share_a_limit_of_1_and_complete() {
    let limit = Limit::new(1);
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let own = Arc::new(OnceLock::<LocalWorkerRuntime>::new());
    let (handle, logs, shared) = (Arc::clone(&own), Arc::clone(&store), limit.clone());
    let runtime = LocalWorkerRuntime::builder(Arc::clone(&store))
        .flow("tree", move |flow: FlowContext| {
            let (handle, logs, shared) = (Arc::clone(&handle), Arc::clone(&logs), shared.clone());
            async move {
                let depth: u32 = flow.input()?;
                if depth == 0 {
                    return Ok(1_u64);
                }
                let runtime = handle.get().ok_or_else(|| FlowError::new("no runtime"))?;
                let node = |key| GraphNode::new(key, "tree").with_input((depth - 1).to_string());
                let options = GraphOptions::new(flow.id().clone()).with_shared_limit(&shared);
                let nodes = vec![node("l"), node("r")];
                let outcome = execute_graph(runtime, registry(&*logs), nodes, options).await?;
                Ok(outcome.nodes.len() as u64)
            }
        })
        .build();
    own.set(runtime.clone()).unwrap();
    let options = GraphOptions::new(id("forest")).with_shared_limit(&limit);
    let root = vec![GraphNode::new("root", "tree").with_input("6")];
    assert!(run(&runtime, &*store, root, options).await.all_completed());
    assert_eq!(limit.taken(), 0);
}
