//! What the tests of graphs share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures_util::TryStreamExt;
use loom_graph_executor::{GraphNode, GraphOptions, GraphOutcome, execute_graph};
use loom_spi::{BranchRegistry, Children, EventStore, EventStoreExt, ExecutionId};
use loom_worker::LocalWorkerRuntime;

pub(crate) fn id(text: &str) -> ExecutionId {
    ExecutionId::new(text).unwrap()
}

pub(crate) fn registry(store: &dyn EventStore) -> &dyn BranchRegistry {
    store.capabilities().branches.unwrap()
}

pub(crate) async fn run(
    runtime: &LocalWorkerRuntime,
    store: &dyn EventStore,
    nodes: Vec<GraphNode>,
    options: GraphOptions,
) -> GraphOutcome {
    execute_graph(runtime, registry(store), nodes, options)
        .await
        .unwrap()
}

pub(crate) async fn children(store: &dyn EventStore, parent: &str) -> Vec<String> {
    let children = registry(store)
        .children(Children::new(id(parent)))
        .await
        .unwrap();
    children
        .into_iter()
        .map(|branch| branch.child.to_string())
        .collect()
}

pub(crate) async fn kinds(store: &dyn EventStore, execution: &ExecutionId) -> Vec<String> {
    let events: Vec<_> = store.read_all(execution, 0).try_collect().await.unwrap();
    events.iter().map(|event| event.kind.to_string()).collect()
}

/// Counts how often each effect of each execution ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Arc<Mutex<BTreeMap<String, u32>>>);

impl Tally {
    pub(crate) fn count(&self, what: impl ToString) -> u32 {
        let mut counts = self.0.lock().unwrap();
        let count = counts.entry(what.to_string()).or_default();
        *count += 1;
        *count
    }

    pub(crate) fn counts(&self) -> BTreeMap<String, u32> {
        self.0.lock().unwrap().clone()
    }
}
