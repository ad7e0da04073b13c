//! Cancelling a flow with everything that it has begun.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use loom_graph_executor::{
    CancelReport, GraphNode, GraphOptions, NodeOutcome, OnFailure, TokioTimer, cancel_descendants,
    cancel_tree, execute_graph,
};
use loom_journal::read_outcome;
use loom_spi::{
    DispatchError, DispatchRequest, EventStore, ExecutionDispatcher, ExecutionId, ExecutionOutcome,
    RecordLineage,
};
use loom_store_memory::MemoryStore;
use loom_worker::{FlowContext, FlowError, LocalWorkerRuntime};
use tokio::sync::Semaphore;

use crate::support::{id, registry};

/// Flows of which the inner ones run graphs and the leaves wait for ever, each giving a permit when it does.
fn runtime(store: Arc<dyn EventStore>, waiting: &Arc<Semaphore>) -> LocalWorkerRuntime {
    let own = Arc::new(OnceLock::<LocalWorkerRuntime>::new());
    let (handle, logs, waiting) = (Arc::clone(&own), Arc::clone(&store), Arc::clone(waiting));
    let runtime = LocalWorkerRuntime::builder(store)
        .flow("tree", move |flow: FlowContext| {
            let (handle, logs, waiting) =
                (Arc::clone(&handle), Arc::clone(&logs), Arc::clone(&waiting));
            async move {
                let depth: u32 = flow.input()?;
                if depth == 0 {
                    waiting.add_permits(1);
                    return std::future::pending().await;
                }
                let runtime = handle.get().ok_or_else(|| FlowError::new("no runtime"))?;
                let node = |key| GraphNode::new(key, "tree").with_input((depth - 1).to_string());
                let options = GraphOptions::new(flow.id().clone());
                let nodes = vec![node("left"), node("right")];
                execute_graph(runtime, registry(&*logs), nodes, options).await?;
                Ok(())
            }
        })
        .flow("quick", |_| async { Ok(()) })
        .build();
    own.set(runtime.clone()).unwrap();
    runtime
}

struct World {
    store: Arc<dyn EventStore>,
    runtime: LocalWorkerRuntime,
    waiting: Arc<Semaphore>,
}

impl World {
    fn new() -> Self {
        let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
        let waiting = Arc::new(Semaphore::new(0));
        let runtime = runtime(Arc::clone(&store), &waiting);
        Self {
            store,
            runtime,
            waiting,
        }
    }

    /// Begins a tree of `2^depth` leaves, and waits until all of them wait.
    async fn grow(&self, root: &str, depth: u32) -> tokio::task::JoinHandle<ExecutionOutcome> {
        let request = DispatchRequest::new(id(root), "tree").with_input(depth.to_string());
        let runtime = self.runtime.clone();
        let running = tokio::spawn(async move { runtime.dispatch(request).await.unwrap() });
        self.waiting
            .acquire_many(2_u32.pow(depth))
            .await
            .unwrap()
            .forget();
        running
    }

    async fn outcome(&self, execution: &str) -> Option<ExecutionOutcome> {
        read_outcome(&*self.store, &id(execution)).await.unwrap()
    }

    async fn cancel(&self, root: &str) -> CancelReport {
        let registry = registry(&*self.store);
        cancel_tree(
            &[&self.runtime],
            registry,
            &id(root),
            "a false alarm",
            &TokioTimer,
        )
        .await
        .unwrap()
    }
}

fn cancelled() -> Option<ExecutionOutcome> {
    Some(ExecutionOutcome::Cancelled {
        reason: "a false alarm".into(),
    })
}

fn sorted(mut ids: Vec<ExecutionId>) -> Vec<String> {
    ids.sort();
    ids.into_iter().map(|id| id.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn e10_the_parent_is_cancelled_three_levels_up_and_every_descendant_ends_and_nobody_else() {
    let world = World::new();
    let running = world.grow("incident-4", 3).await;
    // Its id begins like one of a descendant.
    let other = world.grow("incident-4/left/unrelated", 0).await;
    let similar = world.grow("incident-42", 1).await;
    assert_eq!(world.runtime.running(), 15 + 1 + 3);

    let report = world.cancel("incident-4").await;
    assert_eq!(report.ended.len(), 15, "{report:?}");
    assert!(
        report.finished.is_empty() && report.not_running.is_empty() && report.failed.is_empty()
    );
    assert_eq!(Some(running.await.unwrap()), cancelled());
    for execution in report.ended {
        assert_eq!(
            world.outcome(execution.as_str()).await,
            cancelled(),
            "{execution}"
        );
    }
    assert_eq!(world.runtime.running(), 4);
    for execution in [
        "incident-4/left/unrelated",
        "incident-42",
        "incident-42/left",
    ] {
        assert_eq!(world.outcome(execution).await, None, "{execution} goes on");
    }
    drop((other, similar));
}

#[tokio::test(start_paused = true)]
async fn descendants_alone_are_cancelled_and_their_parent_hears_of_it_from_the_join() {
    let world = World::new();
    let running = world.grow("root", 2).await;
    let registry = registry(&*world.store);
    let report = cancel_descendants(
        &[&world.runtime],
        registry,
        &id("root"),
        "a false alarm",
        &TokioTimer,
    )
    .await
    .unwrap();
    let expected = [
        "root/left",
        "root/left/left",
        "root/left/right",
        "root/right",
        "root/right/left",
        "root/right/right",
    ];
    assert_eq!(sorted(report.ended), expected);
    // The flow looks at no outcome, so it completes.
    assert!(running.await.unwrap().is_completed());
}

#[tokio::test(start_paused = true)]
async fn what_had_ended_or_was_never_begun_is_reported_as_that() {
    let world = World::new();
    let quick = DispatchRequest::new(id("root/quick"), "quick");
    world.runtime.dispatch(quick).await.unwrap();
    for child in ["root/quick", "root/never"] {
        let edge = RecordLineage::new(id("root"), id(child), child.into());
        registry(&*world.store).record_lineage(edge).await.unwrap();
    }
    let report = world.cancel("root").await;
    assert_eq!(sorted(report.finished), ["root/quick"]);
    assert_eq!(sorted(report.not_running), ["root", "root/never"]);
    assert_eq!(sorted(report.ended), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_tree_over_two_runtimes_is_cancelled_on_both() {
    let (here, there) = (World::new(), World::new());
    let nodes = vec![
        GraphNode::new("here", "tree").with_input("0"),
        GraphNode::new("there", "tree")
            .with_input("0")
            .on(Arc::new(there.runtime.clone())),
    ];
    let (runtime, store) = (here.runtime.clone(), Arc::clone(&here.store));
    let graph = tokio::spawn(async move {
        let options = GraphOptions::new(id("g"));
        execute_graph(&runtime, registry(&*store), nodes, options)
            .await
            .unwrap()
    });
    for world in [&here, &there] {
        world.waiting.acquire().await.unwrap().forget();
    }
    let registry = registry(&*here.store);
    let both: [&dyn ExecutionDispatcher; 2] = [&here.runtime, &there.runtime];
    let report = cancel_tree(&both, registry, &id("g"), "a false alarm", &TokioTimer)
        .await
        .unwrap();
    assert_eq!(sorted(report.ended), ["g/here", "g/there"]);
    assert_eq!(there.outcome("g/there").await, cancelled());
    assert_eq!(
        here.outcome("g/there").await,
        None,
        "its log is where it ran"
    );
    let outcome = graph.await.unwrap();
    assert!(
        outcome
            .nodes
            .iter()
            .all(|node| matches!(node.outcome, NodeOutcome::Cancelled { .. }))
    );
}

#[tokio::test(start_paused = true)]
async fn e8_a_graph_that_fails_fast_leaves_nothing_running_in_the_runtime() {
    let world = World::new();
    let nodes = vec![
        GraphNode::new("waits", "tree").with_input("0"),
        GraphNode::new("fails", "tree").with_input("\"no number\""),
        GraphNode::new("slow", "tree")
            .with_input("0")
            .with_timeout(Duration::from_secs(3600)),
    ];
    let options = GraphOptions::new(id("g"))
        .with_on_failure(OnFailure::FailFast)
        .with_timer(Arc::new(TokioTimer));
    let outcome = execute_graph(&world.runtime, registry(&*world.store), nodes, options)
        .await
        .unwrap();
    assert!(
        matches!(outcome.nodes[1].outcome, NodeOutcome::Failed { .. }),
        "{outcome:?}"
    );
    assert_eq!(world.runtime.running(), 0);
    for node in &outcome.nodes {
        let recorded = world.outcome(node.execution.as_str()).await;
        match &node.outcome {
            NodeOutcome::NotBegun { .. } => assert_eq!(recorded, None),
            _ => assert!(recorded.is_some(), "{node:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn e10_descendants_that_nobody_runs_any_more_end_too_and_are_not_resumed() {
    let world = World::new();
    let running = world.grow("incident-4", 2).await;
    let other = world.grow("incident-42", 0).await;
    running.abort();
    other.abort();
    // Their worker is gone; what it ran has logs that have not ended.
    world.runtime.shut_down().await;
    assert_eq!(world.runtime.running(), 0);
    assert_eq!(world.outcome("incident-4/left/right").await, None);

    let report = world.cancel("incident-4").await;
    let all = [
        "incident-4",
        "incident-4/left",
        "incident-4/left/left",
        "incident-4/left/right",
        "incident-4/right",
        "incident-4/right/left",
        "incident-4/right/right",
    ];
    assert_eq!(sorted(report.ended), all);
    assert!(report.not_running.is_empty() && report.failed.is_empty());
    for execution in all {
        assert_eq!(world.outcome(execution).await, cancelled(), "{execution}");
    }
    assert_eq!(world.outcome("incident-42").await, None);

    let again = DispatchRequest::new(id("incident-4"), "tree").with_input("2");
    assert_eq!(
        Some(world.runtime.dispatch(again).await.unwrap()),
        cancelled()
    );
    assert_eq!(world.runtime.running(), 0);
    assert_eq!(sorted(world.cancel("incident-4").await.finished), all);
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_elsewhere_runs_is_left_to_it_and_named() {
    let world = World::new();
    let running = world.grow("incident-4", 1).await;
    // Another process, which knows the store alone.
    let elsewhere = LocalWorkerRuntime::builder(Arc::clone(&world.store)).build();
    let registry = registry(&*world.store);
    let root = id("incident-4");
    let report = cancel_tree(&[&elsewhere], registry, &root, "a false alarm", &TokioTimer)
        .await
        .unwrap();
    let leased = |(id, error): (ExecutionId, DispatchError)| match error {
        DispatchError::Leased { .. } => id,
        other => panic!("expected Leased, got {other:?}"),
    };
    let failed = report.failed.into_iter().map(leased).collect();
    let all = ["incident-4", "incident-4/left", "incident-4/right"];
    // What it has begun and will begin is its own.
    assert_eq!(sorted(failed), ["incident-4"]);
    assert!(report.ended.is_empty() && report.not_running.is_empty());
    assert_eq!(world.runtime.running(), 3);
    assert_eq!(world.outcome("incident-4/left").await, None);
    let both: [&dyn ExecutionDispatcher; 2] = [&elsewhere, &world.runtime];
    let report = cancel_tree(&both, registry, &root, "a false alarm", &TokioTimer)
        .await
        .unwrap();
    assert_eq!(sorted(report.ended), all);
    assert_eq!(Some(running.await.unwrap()), cancelled());
}
