//! What becomes of the branches of a graph.

use std::sync::{Arc, Mutex};

use loom_graph_executor::{
    GraphEvent, GraphNode, NodeOutcome, NodeResult, child_id, execute_graph,
};
use loom_spi::{BranchRegistry, DispatchError, RecordLineage, Upstream};
use loom_store_memory::MemoryStore;

use crate::support::{Prompt, Running, Scripted, children, id, options};

fn node(key: &str, flow: &str, after: &[&str]) -> GraphNode {
    GraphNode::new(key, flow)
        .with_input(format!("\"{key}\""))
        .after(after.iter().copied())
}

async fn run(nodes: Vec<GraphNode>) -> (Vec<NodeResult>, Prompt, MemoryStore) {
    let (dispatcher, registry) = (Prompt::default(), MemoryStore::new());
    let outcome = execute_graph(&dispatcher, &registry, nodes, options())
        .await
        .unwrap();
    assert_eq!(outcome.parent, id("incident-42"));
    (outcome.nodes, dispatcher, registry)
}

fn outcomes(nodes: &[NodeResult]) -> Vec<String> {
    nodes
        .iter()
        .map(|node| format!("{} {}", node.key, node.outcome))
        .collect()
}

#[tokio::test]
async fn each_node_is_an_execution_of_its_own_and_the_registry_lists_exactly_those() {
    let nodes = ["metrics", "logs", "queries"]
        .map(|key| node(key, "echo", &[]))
        .to_vec();
    let (nodes, dispatcher, registry) = run(nodes).await;
    let executions: Vec<_> = nodes.iter().map(|node| node.execution.as_str()).collect();
    assert_eq!(
        executions,
        [
            "incident-42/metrics",
            "incident-42/logs",
            "incident-42/queries"
        ]
    );
    let expected: Vec<_> = nodes
        .iter()
        .map(|n| (n.execution.to_string(), n.key.clone()))
        .collect();
    assert_eq!(children(&registry).await, expected);
    assert_eq!(dispatcher.count(), 3);
    for request in dispatcher.dispatched.lock().unwrap().iter() {
        assert_eq!(request.parent, Some(id("incident-42")));
    }
}

#[tokio::test]
async fn e3_one_of_five_branches_panics_and_all_five_are_told() {
    for (flow, message) in [
        ("panic recorded", "out of bounds"),
        ("panic", "the dispatcher broke at incident-42/c"),
    ] {
        let mut nodes = ["a", "b", "c", "d", "e"]
            .map(|key| node(key, "echo", &[]))
            .to_vec();
        nodes[2].flow = flow.into();
        let (nodes, ..) = run(nodes).await;
        assert_eq!(nodes.len(), 5);
        assert_eq!(
            nodes
                .iter()
                .filter(|node| node.outcome.is_completed())
                .count(),
            4
        );
        assert!(
            matches!(&nodes[2].outcome, NodeOutcome::Panicked { message: found } if found == message),
            "{:?}",
            nodes[2].outcome
        );
    }
}

#[tokio::test]
async fn e4_a_branch_that_was_cancelled_is_cancelled_and_not_panicked() {
    let (nodes, ..) = run(vec![node("a", "cancel", &[])]).await;
    assert!(
        matches!(&nodes[0].outcome, NodeOutcome::Cancelled { reason } if reason == "by the user")
    );
}

#[tokio::test]
async fn a_node_is_handed_the_outputs_of_what_it_waits_for_in_the_order_declared() {
    let nodes = vec![
        node("report", "echo", &["logs", "metrics"]),
        node("metrics", "echo", &[]),
        node("logs", "echo", &[]),
    ];
    let (nodes, dispatcher, _) = run(nodes).await;
    assert_eq!(
        outcomes(&nodes),
        ["report completed", "metrics completed", "logs completed"]
    );
    let dispatched = dispatcher.dispatched.lock().unwrap();
    let report = dispatched.last().unwrap();
    assert_eq!(report.id, id("incident-42/report"));
    let expected = [
        Upstream::new("logs", "\"logs\"").with_execution(id("incident-42/logs")),
        Upstream::new("metrics", "\"metrics\"").with_execution(id("incident-42/metrics")),
    ];
    assert_eq!(report.upstream, expected);
    assert!(dispatched[0].upstream.is_empty());
}

#[tokio::test]
async fn nodes_behind_one_that_did_not_complete_are_skipped_naming_it_and_all_others_run() {
    let nodes = vec![
        node("broken", "fail", &[]),
        node("gone", "cancel", &[]),
        node("unknown", "no such flow", &[]),
        node("fine", "echo", &[]),
        node("behind", "echo", &["fine", "gone", "broken"]),
        node("far behind", "echo", &["behind"]),
        node("behind unknown", "echo", &["unknown"]),
        node("behind fine", "echo", &["fine"]),
    ];
    let (nodes, dispatcher, registry) = run(nodes).await;
    let expected = [
        "broken failed: no stock",
        "gone cancelled: by the user",
        "unknown not run to its end: cannot run execution `incident-42/unknown`: no flow `no such flow` is registered (known: echo)",
        "fine completed",
        "behind skipped: `gone` did not complete",
        "far behind skipped: `behind` did not complete",
        "behind unknown skipped: `unknown` did not complete",
        "behind fine completed",
    ];
    assert_eq!(outcomes(&nodes), expected);
    // What was skipped is no branch.
    assert_eq!(dispatcher.count(), 5);
    assert_eq!(children(&registry).await.len(), 5);
}

#[tokio::test]
async fn e6_graphs_that_use_the_same_keys_do_not_meet() {
    let keys = ["metrics", "logs"];
    let mut seen = std::collections::HashSet::new();
    for parent in ["incident-1", "incident-2", "incident-1/metrics"] {
        for key in keys {
            assert!(seen.insert(child_id(&id(parent), key).unwrap()));
        }
    }
}

#[tokio::test]
async fn e6_an_execution_that_is_somebody_elses_branch_is_not_dispatched_into() {
    let (dispatcher, registry) = (Prompt::default(), MemoryStore::new());
    let taken = RecordLineage::new(id("other"), id("incident-42/logs"), "theirs".into());
    registry.record_lineage(taken).await.unwrap();
    let nodes = ["metrics", "logs"]
        .map(|key| node(key, "echo", &[]))
        .to_vec();
    let outcome = execute_graph(&dispatcher, &registry, nodes, options())
        .await
        .unwrap();
    assert!(outcome.nodes[0].outcome.is_completed());
    let NodeOutcome::Error(error) = &outcome.nodes[1].outcome else {
        panic!("expected IdTaken, got {:?}", outcome.nodes[1].outcome);
    };
    assert!(
        matches!(**error, DispatchError::IdTaken { .. }),
        "{error:?}"
    );
    assert!(
        error
            .to_string()
            .contains("the branch `theirs` of execution `other`"),
        "{error}"
    );
    assert_eq!(dispatcher.count(), 1);
}

#[tokio::test]
async fn running_a_graph_again_asks_for_the_same_executions() {
    let (dispatcher, registry) = (Prompt::default(), MemoryStore::new());
    let nodes = || {
        vec![
            node("a", "echo", &[]),
            node("b/c", "echo", &["a"]),
            node(&"d".repeat(255), "echo", &["b/c"]),
        ]
    };
    let mut runs = Vec::new();
    for _ in 0..2 {
        let outcome = execute_graph(&dispatcher, &registry, nodes(), options())
            .await
            .unwrap();
        assert!(outcome.all_completed());
        runs.push(
            outcome
                .nodes
                .into_iter()
                .map(|node| node.execution)
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(runs[0], runs[1]);
    assert_eq!(children(&registry).await.len(), 3);
    let dispatched = dispatcher.dispatched.lock().unwrap();
    assert_eq!(dispatched[..3], dispatched[3..]);
}

#[tokio::test]
async fn the_join_is_a_barrier() {
    let script = Scripted::new();
    let nodes = ["a", "b", "c"].map(|key| node(key, "f", &[])).to_vec();
    let mut graph = Running::start(&script, nodes, options());
    for left in (1..=3).rev() {
        assert!(graph.poll().is_none(), "{left} branches are running");
        let running = script.in_flight();
        assert_eq!(running.len(), left);
        script.complete(&running[left - 1], "1");
    }
    assert!(graph.poll().unwrap().unwrap().all_completed());
}

#[tokio::test]
async fn dropping_the_join_starts_no_more_nodes() {
    let script = Scripted::new();
    let nodes = vec![node("a", "f", &[]), node("b", "f", &["a"])];
    let mut graph = Running::start(&script, nodes.clone(), options());
    assert!(graph.poll().is_none());
    drop(graph);
    script.complete(&id("incident-42/a"), "1");
    assert_eq!(script.requests().len(), 1);

    // Running it again joins what runs.
    let mut graph = Running::start(&script, nodes, options());
    for key in ["a", "b"] {
        assert!(graph.poll().is_none());
        script.complete(&id(&format!("incident-42/{key}")), "1");
    }
    assert!(graph.poll().unwrap().unwrap().all_completed());
}

#[tokio::test]
async fn the_observer_sees_each_node_start_and_settle_and_what_is_skipped_only_settle() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&log);
    let observed = options().with_limit(1).with_observer(move |event| {
        seen.lock().unwrap().push(match event {
            GraphEvent::Started {
                index,
                key,
                execution,
            } => format!("{index} {key} starts as {execution}"),
            GraphEvent::Settled {
                result,
                settled,
                total,
                ..
            } => format!("{} {} {settled}/{total}", result.key, result.outcome),
            other => format!("{other:?}"),
        });
    });
    let (dispatcher, registry) = (Prompt::default(), MemoryStore::new());
    let nodes = vec![
        node("c", "echo", &["b"]),
        node("a", "echo", &[]),
        node("b", "fail", &["a"]),
    ];
    execute_graph(&dispatcher, &registry, nodes, observed)
        .await
        .unwrap();
    let expected = [
        "1 a starts as incident-42/a",
        "a completed 1/3",
        "2 b starts as incident-42/b",
        "b failed: no stock 2/3",
        "c skipped: `b` did not complete 3/3",
    ];
    assert_eq!(*log.lock().unwrap(), expected);
}

#[tokio::test]
async fn trait_objects_will_do() {
    let (dispatcher, registry) = (Prompt::default(), MemoryStore::new());
    let (dispatcher, registry): (&dyn loom_spi::ExecutionDispatcher, &dyn BranchRegistry) =
        (&dispatcher, &registry);
    let outcome = execute_graph(
        dispatcher,
        registry,
        vec![node("a", "echo", &[])],
        options(),
    )
    .await;
    assert!(outcome.unwrap().all_completed());
}

#[tokio::test]
async fn the_results_of_a_graph_lie_in_the_memory_of_its_nodes() {
    let nodes: Vec<_> = (0..1000)
        .map(|n| node(&n.to_string(), "echo", &[]))
        .collect();
    let place = nodes.as_ptr() as usize;
    let (results, ..) = run(nodes).await;
    assert_eq!((results.as_ptr() as usize, results.len()), (place, 1000));
    assert_eq!(results[999].key, "999");
}
