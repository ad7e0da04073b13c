//! Nodes whose output decides what follows.

use std::sync::{Arc, Mutex};

use loom_graph_executor::{GraphEvent, GraphNode, NodeOutcome, OnFailure, Retry, execute_graph};
use loom_spi::{BranchRegistry as _, Children};
use loom_store_memory::MemoryStore;
use std::time::Duration;

use crate::support::{Prompt, Running, Scripted, children, id, options, outcomes};

/// Its output is a number of nodes, which echo their numbers.
fn split(flow: &'static str) -> GraphNode {
    GraphNode::new("split", "echo")
        .with_input("3")
        .expand(move |output| {
            let count: u32 = std::str::from_utf8(output)?.parse()?;
            let node = |n: u32| GraphNode::new(format!("part {n}"), flow).with_input(n.to_string());
            Ok((0..count).map(node).collect())
        })
}

fn merge() -> GraphNode {
    GraphNode::new("merge", "echo").after(["split"])
}

#[tokio::test]
async fn a_nodes_output_decides_how_many_follow_and_its_dependents_are_handed_all_of_it() {
    let (dispatcher, registry) = (Prompt::default(), MemoryStore::new());
    let nodes = || vec![split("echo"), merge()];
    let outcome = execute_graph(&dispatcher, &registry, nodes(), options())
        .await
        .unwrap();
    assert!(outcome.all_completed());
    let made: Vec<_> = outcome.nodes[0]
        .branches
        .iter()
        .map(|n| n.execution.as_str())
        .collect();
    let expected = [
        "incident-42/split/part 0",
        "incident-42/split/part 1",
        "incident-42/split/part 2",
    ];
    assert_eq!(made, expected);
    let merged = dispatcher
        .dispatched
        .lock()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    let handed: Vec<_> = merged
        .upstream
        .iter()
        .map(|up| (up.key.as_str(), &up.output[..]))
        .collect();
    let expected: [(&str, &[u8]); 4] = [
        ("split", b"3"),
        ("split/part 0", b"0"),
        ("split/part 1", b"1"),
        ("split/part 2", b"2"),
    ];
    assert_eq!(handed, expected);
    // They are branches of the node, not of the graph.
    assert_eq!(children(&registry).await.len(), 2);
    let below = registry
        .children(Children::new(id("incident-42/split")))
        .await
        .unwrap();
    assert_eq!(below.len(), 3);

    // Run again, it asks for the same executions.
    let first: Vec<_> = dispatcher.dispatched.lock().unwrap().drain(..).collect();
    execute_graph(&dispatcher, &registry, nodes(), options())
        .await
        .unwrap();
    assert_eq!(*dispatcher.dispatched.lock().unwrap(), first);
}

#[tokio::test]
async fn the_parts_share_the_limit_of_the_graph_also_of_1() {
    for limit in [1, 2] {
        let script = Scripted::new();
        let nodes = vec![split("f"), GraphNode::new("other", "f")];
        let mut graph = Running::start(&script, nodes, options().with_limit(limit));
        let outcome = loop {
            if let Some(outcome) = graph.poll() {
                break outcome.unwrap();
            }
            let running = script.in_flight();
            assert!((1..=limit).contains(&running.len()), "{running:?}");
            script.complete(&running[0], "3");
        };
        assert!(outcome.all_completed());
        assert_eq!(script.most_in_flight(), limit);
        assert_eq!(script.requests().len(), 5);
    }
}

#[tokio::test]
async fn a_node_one_of_whose_parts_fails_has_not_completed_and_the_other_parts_have() {
    let (dispatcher, registry) = (Prompt::default(), MemoryStore::new());
    let mixed = GraphNode::new("split", "echo").expand(|_| {
        Ok(vec![
            GraphNode::new("good", "echo"),
            GraphNode::new("bad", "fail"),
        ])
    });
    let outcome = execute_graph(&dispatcher, &registry, vec![mixed, merge()], options())
        .await
        .unwrap();
    let expected = [
        "not expanded: its branch `bad` failed: no stock",
        "skipped: `split` did not complete",
    ];
    assert_eq!(outcomes(&outcome), expected);
    let parts: Vec<_> = outcome.nodes[0]
        .branches
        .iter()
        .map(|n| n.outcome.is_completed())
        .collect();
    assert_eq!(parts, [true, false]);
}

#[tokio::test]
async fn an_output_that_makes_no_graph_is_told_and_begins_nothing() {
    type Expansion = fn(&bytes::Bytes) -> Result<Vec<GraphNode>, loom_spi::BoxError>;
    let cases: [(Expansion, &str); 3] = [
        (
            |_| Err("seven is no list".into()),
            "its output makes no nodes: seven is no list",
        ),
        (
            |_| panic!("index out of bounds"),
            "its expansion panicked: index out of bounds",
        ),
        (
            |_| Ok(vec![GraphNode::new("a", "f"), GraphNode::new("a", "f")]),
            "its output makes no graph: nodes 0 and 1 have the same key `a`: expected each key once",
        ),
    ];
    for (expand, reason) in cases {
        let (dispatcher, registry) = (Prompt::default(), MemoryStore::new());
        let nodes = vec![GraphNode::new("split", "echo").expand(expand)];
        let outcome = execute_graph(&dispatcher, &registry, nodes, options())
            .await
            .unwrap();
        assert!(
            matches!(&outcome.nodes[0].outcome, NodeOutcome::Unexpanded { reason: found } if found == reason),
            "{outcome:?}"
        );
        assert_eq!(dispatcher.count(), 1);
    }
}

#[tokio::test]
async fn parts_can_be_split_again() {
    fn tree(key: &str, depth: u32) -> GraphNode {
        let node = GraphNode::new(key, "echo").with_input(depth.to_string());
        if depth == 0 {
            return node;
        }
        node.expand(move |_| Ok(vec![tree("l", depth - 1), tree("r", depth - 1)]))
    }
    let (dispatcher, registry) = (Prompt::default(), MemoryStore::new());
    let nodes = vec![
        tree("root", 3),
        GraphNode::new("sum", "echo").after(["root"]),
    ];
    let outcome = execute_graph(&dispatcher, &registry, nodes, options().with_limit(1))
        .await
        .unwrap();
    assert!(outcome.all_completed());
    assert_eq!(dispatcher.count(), 16);
    let dispatched = dispatcher.dispatched.lock().unwrap();
    let sum = dispatched.last().unwrap();
    let keys: Vec<_> = sum.upstream.iter().map(|up| up.key.as_str()).collect();
    assert_eq!(keys[..4], ["root", "root/l", "root/l/l", "root/l/l/l"]);
    assert_eq!(keys.len(), 15);
}

#[tokio::test]
async fn options_apply_inside_and_a_failure_elsewhere_stops_what_is_inside() {
    let script = Scripted::new();
    let retry = Retry::attempts(2).with_backoff(Duration::ZERO, Duration::ZERO);
    let fast = options()
        .with_on_failure(OnFailure::FailFast)
        .with_retry(retry);
    let other = GraphNode::new("other", "f").with_retry(Retry::attempts(1));
    let mut graph = Running::start(&script, vec![split("f"), other], fast);
    assert!(graph.poll().is_none());
    script.complete(&id("incident-42/split"), "2");
    assert!(graph.poll().is_none());
    script.fail(&id("incident-42/split/part 0"), "busy");
    assert!(graph.poll().is_none());
    let running = [
        "incident-42/other",
        "incident-42/split/part 0~2",
        "incident-42/split/part 1",
    ];
    assert_eq!(script.in_flight(), running.map(id));
    script.fail(&id("incident-42/other"), "no stock");
    let outcome = graph.poll().unwrap().unwrap();
    assert_eq!(script.in_flight(), []);
    let inside: Vec<_> = outcome.nodes[0]
        .branches
        .iter()
        .map(|node| &node.outcome)
        .collect();
    assert!(
        inside
            .iter()
            .all(|outcome| matches!(outcome, NodeOutcome::Cancelled { .. })),
        "{inside:?}"
    );
}

#[tokio::test]
async fn the_observer_hears_how_many_follow() {
    let (dispatcher, registry) = (Prompt::default(), MemoryStore::new());
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&log);
    let observed = options().with_observer(move |event| {
        if let GraphEvent::Expanded {
            index,
            key,
            branches,
        } = event
        {
            seen.lock()
                .unwrap()
                .push(format!("{index} {key} {branches}"));
        }
    });
    execute_graph(
        &dispatcher,
        &registry,
        vec![merge_first(), split("echo")],
        observed,
    )
    .await
    .unwrap();
    assert_eq!(*log.lock().unwrap(), ["1 split 3"]);
}

fn merge_first() -> GraphNode {
    GraphNode::new("first", "echo")
}
