//! Graphs that can never run are refused before anything happens.

use loom_graph_executor::{GraphError, GraphNode, InvalidNodeKey, execute_graph};
use loom_store_memory::MemoryStore;

use crate::support::{Prompt, children, options};

async fn refused(nodes: Vec<GraphNode>) -> GraphError {
    let (dispatcher, registry) = (Prompt::default(), MemoryStore::new());
    let error = execute_graph(&dispatcher, &registry, nodes, options())
        .await
        .unwrap_err();
    assert_eq!(dispatcher.count(), 0);
    assert_eq!(children(&registry).await, []);
    error
}

fn node(key: &str, after: &[&str]) -> GraphNode {
    GraphNode::new(key, "echo").after(after.iter().copied())
}

#[tokio::test]
async fn e1_a_limit_of_0_is_an_error_and_an_empty_graph_is_none() {
    let (dispatcher, registry) = (Prompt::default(), MemoryStore::new());
    let nodes = vec![node("a", &[])];
    let none = execute_graph(&dispatcher, &registry, nodes, options().with_limit(0)).await;
    assert_eq!(none.unwrap_err(), GraphError::ZeroLimit);
    assert_eq!(dispatcher.count(), 0);

    let empty = execute_graph(&dispatcher, &registry, vec![], options())
        .await
        .unwrap();
    assert!(empty.nodes.is_empty() && empty.all_completed());
}

#[tokio::test]
async fn e7_a_key_that_two_nodes_have_is_named_with_both_places() {
    let error = refused(vec![node("a", &[]), node("b", &[]), node("a", &[])]).await;
    let key = "a".to_owned();
    assert_eq!(
        error,
        GraphError::DuplicateKey {
            key,
            first: 0,
            second: 2
        }
    );
}

#[tokio::test]
async fn e7_an_upstream_that_is_not_there_or_named_twice_is_named() {
    let error = refused(vec![node("a", &[]), node("b", &["a", "c"])]).await;
    let (node_key, after) = ("b".to_owned(), "c".to_owned());
    assert_eq!(
        error,
        GraphError::UnknownUpstream {
            node: node_key,
            after
        }
    );

    let error = refused(vec![node("a", &[]), node("b", &["a", "a"])]).await;
    assert_eq!(
        error.to_string(),
        "node `b` comes after `a` twice: expected each upstream once"
    );
}

#[tokio::test]
async fn e7_a_cycle_names_its_nodes_and_only_those() {
    let error = refused(vec![node("a", &["a"])]).await;
    assert_eq!(
        error,
        GraphError::Cycle {
            nodes: vec!["a".into()]
        }
    );
    assert!(error.to_string().ends_with("`a` after `a`"), "{error}");

    // `before` leads into it and `beyond` hangs on it; neither is part of it.
    let nodes = vec![
        node("beyond", &["c"]),
        node("before", &[]),
        node("a", &["before", "b"]),
        node("b", &["c"]),
        node("c", &["a"]),
    ];
    let GraphError::Cycle { nodes } = refused(nodes).await else {
        panic!("expected a cycle");
    };
    let mut sorted = nodes.clone();
    sorted.sort();
    assert_eq!(sorted, ["a", "b", "c"]);
    // Each comes after the next one.
    let next = |key: &str| match key {
        "a" => "b",
        "b" => "c",
        _ => "a",
    };
    for (place, key) in nodes.iter().enumerate() {
        assert_eq!(nodes[(place + 1) % nodes.len()], next(key));
    }
}

#[tokio::test]
async fn keys_that_cannot_be_recorded_are_refused() {
    for (key, source) in [
        (String::new(), InvalidNodeKey::Empty),
        ("k".repeat(256), InvalidNodeKey::TooLong { bytes: 256 }),
        (
            "a\0".into(),
            InvalidNodeKey::ControlCharacter {
                offset: 1,
                found: '\0',
            },
        ),
    ] {
        let error = refused(vec![node("a", &[]), node(&key, &[])]).await;
        assert_eq!(
            error,
            GraphError::InvalidKey {
                index: 1,
                key,
                source
            }
        );
    }
}
