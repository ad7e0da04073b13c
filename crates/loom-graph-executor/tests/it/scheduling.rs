//! The order in which nodes run, for graphs of every shape.

use std::collections::HashSet;
use std::sync::Arc;

use loom_graph_executor::{GraphNode, NodeOutcome, execute_graph};
use loom_spi::{DispatchError, ExecutionOutcome, Failure};
use loom_store_memory::MemoryStore;
use proptest::prelude::*;

use crate::support::{Prompt, Running, Scripted, children, id, options};

/// A random graph without cycles, in a random order of nodes: for each node the nodes that it waits for.
fn dag(most: usize) -> impl Strategy<Value = Vec<Vec<usize>>> {
    (0..=most)
        .prop_flat_map(|nodes| {
            let edges = proptest::collection::vec(
                (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
                0..nodes * 2 + 1,
            );
            let order = Just((0..nodes).collect::<Vec<_>>()).prop_shuffle();
            (edges, order)
        })
        .prop_map(|(edges, order)| {
            let mut after = vec![Vec::new(); order.len()];
            for (from, to) in edges {
                if order.is_empty() {
                    continue;
                }
                let (from, to) = (from.index(order.len()), to.index(order.len()));
                // Edges go along the random order, so that there is no cycle.
                let (low, high) = (from.min(to), from.max(to));
                if low != high && !after[order[high]].contains(&order[low]) {
                    after[order[high]].push(order[low]);
                }
            }
            after
        })
}

fn nodes(after: &[Vec<usize>]) -> Vec<GraphNode> {
    let nodes = after.iter().enumerate().map(|(number, after)| {
        GraphNode::new(number.to_string(), "f").after(after.iter().map(ToString::to_string))
    });
    nodes.collect()
}

fn number(id: &loom_spi::ExecutionId) -> usize {
    id.as_str().rsplit_once('/').unwrap().1.parse().unwrap()
}

proptest! {
    #[test]
    fn upstream_comes_before_downstream_within_the_limit_and_each_node_once(
        after in dag(24),
        limit in 1_usize..6,
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 24),
        failing in proptest::collection::hash_set(0_usize..24, 0..4),
    ) {
        let script = Scripted::new();
        let mut graph = Running::start(&script, nodes(&after), options().with_limit(limit));
        let (mut completed, mut failed) = (HashSet::new(), HashSet::new());
        let mut picks = picks.into_iter();
        let outcome = loop {
            if let Some(outcome) = graph.poll() {
                break outcome.unwrap();
            }
            let running = script.in_flight();
            prop_assert!(!running.is_empty(), "nothing runs and nothing is done");
            // All that could run does.
            let begun: HashSet<_> = script.requests().iter().map(|request| number(&request.id)).collect();
            let could = (0..after.len()).filter(|node| {
                !begun.contains(node) && after[*node].iter().all(|up| completed.contains(up))
            });
            prop_assert!(running.len() == limit || could.count() == 0);
            for id in &running {
                prop_assert!(after[number(id)].iter().all(|up| completed.contains(up)));
            }
            let chosen = picks.next().unwrap().get(&running);
            if failing.contains(&number(chosen)) {
                failed.insert(number(chosen));
                script.answer(chosen, Ok(ExecutionOutcome::Failed(Failure::error("it fails"))));
            } else {
                completed.insert(number(chosen));
                script.complete(chosen, number(chosen).to_string());
            }
        };
        prop_assert!(script.most_in_flight() <= limit);
        let requests = script.requests();
        let distinct: HashSet<_> = requests.iter().map(|request| &request.id).collect();
        prop_assert_eq!(distinct.len(), requests.len());
        for request in &requests {
            let handed: Vec<_> = request.upstream.iter().map(|up| up.key.parse::<usize>().unwrap()).collect();
            prop_assert_eq!(&handed, &after[number(&request.id)]);
            prop_assert!(request.upstream.iter().all(|up| up.output == up.key));
        }
        prop_assert_eq!(outcome.nodes.len(), after.len());
        for (node, result) in outcome.nodes.iter().enumerate() {
            prop_assert_eq!(number(&result.execution), node);
            match &result.outcome {
                NodeOutcome::Completed { output } => {
                    prop_assert!(completed.contains(&node));
                    prop_assert_eq!(output, &node.to_string());
                }
                NodeOutcome::Failed { .. } => prop_assert!(failed.contains(&node)),
                NodeOutcome::Skipped { upstream } => {
                    // The first one, in the order declared, that did not complete.
                    let first = after[node].iter().find(|up| !completed.contains(up)).unwrap();
                    prop_assert_eq!(upstream, &first.to_string());
                }
                other => prop_assert!(false, "unexpected {other:?}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn e5_result_i_belongs_to_node_i_whatever_order_500_branches_end_in(seed in any::<u64>()) {
        let script = Scripted::new();
        let after = vec![Vec::new(); 500];
        let mut graph = Running::start(&script, nodes(&after), options().with_limit(500));
        assert!(graph.poll().is_none());
        let mut running = script.in_flight();
        let mut random = seed;
        while !running.is_empty() {
            // Knuth's linear congruential generator: any order will do.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let chosen = running.swap_remove(usize::try_from(random >> 33).unwrap() % running.len());
            script.complete(&chosen, number(&chosen).to_string());
        }
        let outcome = graph.poll().unwrap().unwrap();
        for (node, result) in outcome.nodes.iter().enumerate() {
            assert!(matches!(&result.outcome, NodeOutcome::Completed { output } if output == node.to_string().as_bytes()));
        }
    }
}

#[tokio::test]
async fn a_hundred_thousand_nodes_side_by_side_or_in_a_row_or_all_skipped_are_no_trouble() {
    const NODES: usize = 100_000;
    let side_by_side: Vec<_> = (0..NODES)
        .map(|n| GraphNode::new(n.to_string(), "echo"))
        .collect();
    let mut in_a_row = side_by_side.clone();
    for (before, node) in in_a_row.iter_mut().skip(1).enumerate() {
        node.after = vec![before.to_string()];
    }
    let mut all_skipped = in_a_row.clone();
    all_skipped[0].flow = "fail".into();
    for (nodes, completed) in [(side_by_side, NODES), (in_a_row, NODES), (all_skipped, 0)] {
        let (dispatcher, registry) = (Prompt::default(), MemoryStore::new());
        let outcome = execute_graph(&dispatcher, &registry, nodes, options())
            .await
            .unwrap();
        assert_eq!(outcome.nodes.len(), NODES);
        let found = outcome
            .nodes
            .iter()
            .filter(|node| node.outcome.is_completed())
            .count();
        assert_eq!(found, completed);
        assert_eq!(children(&registry).await.len(), completed.max(1));
    }
}

#[test]
fn one_branch_whose_dispatch_fails_does_not_hold_up_the_others() {
    let script = Scripted::new();
    let after = vec![vec![], vec![], vec![0]];
    let mut graph = Running::start(&script, nodes(&after), options());
    assert!(graph.poll().is_none());
    let (first, second) = (id("incident-42/0"), id("incident-42/1"));
    let source = "no room".into();
    script.answer(
        &first,
        Err(DispatchError::Runtime {
            id: first.clone(),
            source,
        }),
    );
    assert!(graph.poll().is_none());
    script.complete(&second, "1");
    let outcome = graph.poll().unwrap().unwrap();
    assert!(matches!(
        &outcome.nodes[0].outcome,
        NodeOutcome::Error(error) if matches!(**error, DispatchError::Runtime { .. })
    ));
    assert!(
        matches!(&outcome.nodes[2].outcome, NodeOutcome::Skipped { upstream } if upstream == "0")
    );
}

#[test]
fn a_graph_that_runs_can_be_sent_to_another_thread() {
    fn assert_send<T: Send>(value: T) -> T {
        value
    }
    let (script, registry) = (Arc::new(Prompt::default()), MemoryStore::new());
    drop(assert_send(execute_graph(
        &*script,
        &registry,
        vec![],
        options(),
    )));
}
