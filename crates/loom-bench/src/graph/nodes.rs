//! Nodes that do nothing, and tasks that do nothing.

use std::hint::black_box;

use async_trait::async_trait;
use loom_graph_executor::GraphNode;
use loom_spi::{
    Branch, BranchRegistry, CancelRequest, Cancellation, Children, DispatchError, DispatchRequest,
    ExecutionDispatcher, ExecutionOutcome, Forget, Parent, ParentLink, RecordLineage, StoreError,
};
use tokio::task::JoinSet;

use super::LIMIT;

/// Runs nothing, at once, spawns nothing, and remembers nothing.
#[derive(Debug)]
pub(super) struct Noop;

#[async_trait]
impl ExecutionDispatcher for Noop {
    async fn dispatch(&self, request: DispatchRequest) -> Result<ExecutionOutcome, DispatchError> {
        black_box(request);
        let output = b"null".as_slice().into();
        Ok(ExecutionOutcome::Completed { output })
    }

    async fn cancel(&self, _: CancelRequest) -> Result<Cancellation, DispatchError> {
        Ok(Cancellation::NotRunning)
    }
}

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

pub(super) fn graph(nodes: usize) -> Vec<GraphNode> {
    (0..nodes)
        .map(|node| GraphNode::new(node.to_string(), "noop"))
        .collect()
}

/// As many tasks that do nothing, spawned, with no more than the limit at a time.
pub(super) async fn join_set(tasks: usize) {
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
