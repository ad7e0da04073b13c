//! Graphs that share a limit.

use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use loom_graph_executor::{GraphError, GraphNode, GraphOptions, Limit, execute_graph};
use loom_spi::{
    CancelRequest, Cancellation, DispatchError, DispatchRequest, ExecutionDispatcher,
    ExecutionOutcome,
};
use loom_store_memory::MemoryStore;

use crate::support::{Running, Scripted, id, options};

/// A node of depth n runs graphs of two of depth n - 1. Counts the nodes that work at a time.
#[derive(Debug)]
struct Trees {
    registry: MemoryStore,
    limit: OnceLock<Limit>,
    working: AtomicUsize,
    most: AtomicUsize,
    /// How many graphs a node runs at the same time.
    graphs: usize,
}

impl Trees {
    fn new(limit: &Limit, graphs: usize) -> Self {
        let cell = OnceLock::new();
        cell.set(limit.clone()).unwrap();
        Self {
            registry: MemoryStore::new(),
            limit: cell,
            working: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            graphs,
        }
    }

    async fn work(&self) {
        let working = self.working.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(working, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.working.fetch_sub(1, Ordering::SeqCst);
    }

    /// Runs all the graphs of one node.
    fn graphs(
        &self,
        parent: loom_spi::ExecutionId,
        depth: u32,
    ) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        let graph = move |number: usize| {
            let node = |n: usize| {
                GraphNode::new(format!("{number}.{n}"), "tree").with_input(depth.to_string())
            };
            let nodes = (0..2).map(node).collect();
            let options =
                GraphOptions::new(parent.clone()).with_shared_limit(self.limit.get().unwrap());
            execute_graph(self, &self.registry, nodes, options)
        };
        Box::pin(async move {
            let outcomes = futures_util::future::join_all((0..self.graphs).map(graph)).await;
            outcomes
                .into_iter()
                .all(|outcome| outcome.unwrap().all_completed())
        })
    }
}

#[async_trait]
impl ExecutionDispatcher for Trees {
    async fn dispatch(&self, request: DispatchRequest) -> Result<ExecutionOutcome, DispatchError> {
        let depth: u32 = std::str::from_utf8(&request.input)
            .unwrap()
            .parse()
            .unwrap();
        self.work().await;
        if depth > 0 {
            assert!(self.graphs(request.id, depth - 1).await);
            self.work().await;
        }
        Ok(ExecutionOutcome::Completed {
            output: request.input,
        })
    }

    async fn cancel(&self, _: CancelRequest) -> Result<Cancellation, DispatchError> {
        Ok(Cancellation::NotRunning)
    }
}

#[tokio::test]
async fn e2_a_graph_inside_a_node_of_a_graph_completes_with_a_shared_limit_of_1() {
    for places in [1, 2, 5] {
        let limit = Limit::new(places);
        let trees = Trees::new(&limit, 1);
        assert!(trees.graphs(id("forest"), 4).await);
        let most = trees.most.load(Ordering::SeqCst);
        assert!(
            most <= places,
            "{most} nodes worked at a time, and {places} may"
        );
        assert!(places > 2 || most == places, "all places are used");
        assert_eq!(limit.taken(), 0, "every place was given back");
    }
}

#[tokio::test]
async fn several_graphs_in_one_node_lend_its_place_once() {
    let limit = Limit::new(1);
    let trees = Trees::new(&limit, 2);
    assert!(trees.graphs(id("a"), 2).await);
    assert_eq!((trees.most.load(Ordering::SeqCst), limit.taken()), (1, 0));
}

#[tokio::test]
async fn who_joins_a_node_that_waits_for_its_inner_graph_takes_no_place_from_that() {
    let script = Scripted::new();
    let limit = Limit::new(1);
    let graph = |parent: &str| {
        let options = GraphOptions::new(id(parent)).with_shared_limit(&limit);
        Running::start(&script, vec![GraphNode::new("n", "f")], options)
    };
    // Two callers run the same graph, and its node runs a graph.
    let (mut one, mut inside, mut other) = (graph("g"), graph("g/n"), graph("g"));
    assert!(one.poll().is_none());
    assert!(inside.poll().is_none());
    assert_eq!(limit.taken(), 1);
    assert!(other.poll().is_none(), "it waits for a place");
    script.complete(&id("g/n/n"), "1");
    assert!(inside.poll().unwrap().unwrap().all_completed());
    assert_eq!(limit.taken(), 1);
    drop(one);
    assert!(other.poll().is_none());
    script.complete(&id("g/n"), "1");
    assert!(other.poll().unwrap().unwrap().all_completed());
    assert_eq!(limit.taken(), 0);
}

#[tokio::test]
async fn two_graphs_take_turns_and_none_takes_more_than_there_is() {
    let script = Scripted::new();
    let limit = Limit::new(2);
    let graph = |parent: &str| {
        let nodes = (0..3).map(|n| GraphNode::new(n.to_string(), "f")).collect();
        let options = GraphOptions::new(id(parent)).with_shared_limit(&limit);
        Running::start(&script, nodes, options)
    };
    let (mut one, mut other) = (graph("one"), graph("other"));
    assert!(one.poll().is_none() && other.poll().is_none());
    assert_eq!(script.in_flight(), [id("one/0"), id("one/1")]);
    // It asked for a third place before the other graph asked for its first.
    script.complete(&id("one/0"), "1");
    assert!(other.poll().is_none() && one.poll().is_none() && other.poll().is_none());
    assert_eq!(script.in_flight(), [id("one/1"), id("one/2")]);
    script.complete(&id("one/1"), "1");
    assert!(one.poll().is_none() && other.poll().is_none());
    assert_eq!(script.in_flight(), [id("one/2"), id("other/0")]);
    // A graph that is dropped gives its places back, to whoever waits.
    drop(one);
    assert!(other.poll().is_none());
    let running = script.in_flight();
    assert_eq!(running, [id("one/2"), id("other/0"), id("other/1")]);
    assert_eq!(limit.taken(), 2);
    for node in ["other/0", "other/1"] {
        script.complete(&id(node), "1");
    }
    assert!(other.poll().is_none());
    script.complete(&id("other/2"), "1");
    assert!(other.poll().unwrap().unwrap().all_completed());
    assert_eq!(limit.taken(), 0);
}

#[tokio::test]
async fn a_graph_that_waits_for_a_place_and_is_dropped_does_not_hold_up_the_next() {
    let script = Scripted::new();
    let limit = Limit::new(1);
    let graph = |parent: &str| {
        let options = GraphOptions::new(id(parent)).with_shared_limit(&limit);
        Running::start(&script, vec![GraphNode::new("n", "f")], options)
    };
    let (mut first, mut dropped, mut last) = (graph("first"), graph("dropped"), graph("last"));
    assert!(first.poll().is_none() && dropped.poll().is_none() && last.poll().is_none());
    drop(dropped);
    script.complete(&id("first/n"), "1");
    assert!(first.poll().is_some());
    assert!(last.poll().is_none());
    assert_eq!(script.in_flight(), [id("last/n")]);
    assert_eq!(limit.taken(), 1);
}

#[tokio::test]
async fn a_node_whose_inner_graph_is_dropped_goes_on_and_gives_back_what_it_took() {
    let script = Scripted::new();
    let limit = Limit::new(1);
    let nodes = || vec![GraphNode::new("n", "f")];
    let outer = GraphOptions::new(id("outer")).with_shared_limit(&limit);
    let mut outer = Running::start(&script, nodes(), outer);
    assert!(outer.poll().is_none());
    let inside = GraphOptions::new(id("outer/n")).with_shared_limit(&limit);
    let mut inside = Running::start(&script, nodes(), inside);
    assert!(inside.poll().is_none());
    assert_eq!(script.in_flight(), [id("outer/n"), id("outer/n/n")]);
    assert_eq!(
        limit.taken(),
        1,
        "the outer node waits, the inner one works"
    );
    drop(inside);
    assert_eq!(limit.taken(), 1, "the outer one works");
    script.complete(&id("outer/n"), "1");
    assert!(outer.poll().unwrap().unwrap().all_completed());
    assert_eq!(limit.taken(), 0);
}

#[tokio::test]
async fn a_shared_limit_of_0_is_an_error() {
    let (script, none) = (Scripted::new(), Limit::new(0));
    let nodes = vec![GraphNode::new("n", "f")];
    let run = execute_graph(
        &*script,
        &script.registry,
        nodes,
        options().with_shared_limit(&none),
    );
    assert_eq!(run.await.unwrap_err(), GraphError::ZeroLimit);
}
