//! What ADR 0005 asks to be verified, and what becomes of branches that end badly.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::Ready;
use std::sync::Arc;

use loom_graph_executor::{GraphNode, GraphOptions, NodeOutcome};
use loom_spi::{Append, DispatchError, EventStore, NewEvent};
use loom_store_memory::MemoryStore;
use loom_store_sqlite::{Options, SqliteStore};
use loom_worker::{FlowContext, FlowError, LocalWorkerRuntime};

use crate::support::{Tally, children, id, kinds, run};

fn runtime(store: Arc<dyn EventStore>, tally: &Tally) -> LocalWorkerRuntime {
    let (analysed, reported) = (tally.clone(), tally.clone());
    LocalWorkerRuntime::builder(store)
        .flow("analyse", move |flow: FlowContext| {
            let tally = analysed.clone();
            async move {
                let finding: String = flow.input()?;
                let id = flow.id().clone();
                let analysed = flow.effect("analyse", |_| async move {
                    tally.count(id);
                    Ok::<_, Infallible>(format!("{finding}: fine"))
                });
                Ok(analysed.await?)
            }
        })
        .flow("report", move |flow: FlowContext| {
            let tally = reported.clone();
            async move {
                let mut report = Vec::new();
                for upstream in flow.upstream() {
                    report.push(flow.upstream_output::<String>(&upstream.key)?);
                }
                let id = flow.id().clone();
                let sent = flow.effect("send", |_| async move {
                    tally.count(id);
                    Ok::<_, Infallible>(report.join(", "))
                });
                Ok(sent.await?)
            }
        })
        .flow("panic", |_| -> Ready<Result<(), FlowError>> {
            panic!("disk full")
        })
        .build()
}

fn analysis(key: &str) -> GraphNode {
    GraphNode::new(key, "analyse").with_input(format!("\"{key}\""))
}

async fn verify_adr_0005(store: Arc<dyn EventStore>) {
    let tally = Tally::default();
    let runtime = runtime(Arc::clone(&store), &tally);
    let nodes = ["metrics", "logs", "queries"].map(analysis).to_vec();
    let options = || GraphOptions::new(id("incident-42"));
    let outcome = run(&runtime, &*store, nodes.clone(), options()).await;

    // It runs to completion.
    assert!(outcome.all_completed(), "{outcome:?}");
    let keys: Vec<_> = outcome.nodes.iter().map(|node| node.key.as_str()).collect();
    assert_eq!(keys, ["metrics", "logs", "queries"]);
    for node in &outcome.nodes {
        let expected = format!("\"{}: fine\"", node.key);
        assert!(matches!(&node.outcome, NodeOutcome::Completed { output } if *output == expected));
    }
    // Each node is an execution of its own, with a log of its own.
    let executions: BTreeSet<_> = outcome
        .nodes
        .iter()
        .map(|node| node.execution.to_string())
        .collect();
    assert_eq!(executions.len(), 3);
    for node in &outcome.nodes {
        let kinds = kinds(&*store, &node.execution).await;
        assert_eq!(kinds, ["loom.started", "loom.effect", "loom.completed"]);
    }
    // Each effect ran once.
    let once: BTreeMap<_, _> = executions
        .iter()
        .map(|execution| (execution.clone(), 1))
        .collect();
    assert_eq!(tally.counts(), once);
    // The registry enumerates exactly the three branches.
    let branches = children(&*store, "incident-42").await;
    assert_eq!(branches.len(), 3);
    assert_eq!(branches.into_iter().collect::<BTreeSet<_>>(), executions);

    // Running it again changes nothing.
    let again = run(&runtime, &*store, nodes, options()).await;
    assert!(again.all_completed());
    assert_eq!(tally.counts(), once);
    assert_eq!(children(&*store, "incident-42").await.len(), 3);
}

#[tokio::test]
async fn a_three_node_incident_graph_completes_as_three_executions_with_each_effect_once() {
    verify_adr_0005(Arc::new(MemoryStore::new())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_graph_runs_the_same_on_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("incident.db");
    let store = Arc::new(SqliteStore::create(&path, Options::new()).await.unwrap());
    verify_adr_0005(Arc::<SqliteStore>::clone(&store)).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_report_that_fans_in_is_handed_what_the_others_found() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let runtime = runtime(Arc::clone(&store), &Tally::default());
    let mut nodes = ["metrics", "logs", "queries"].map(analysis).to_vec();
    nodes.insert(
        0,
        GraphNode::new("report", "report").after(["queries", "metrics", "logs"]),
    );
    let outcome = run(
        &runtime,
        &*store,
        nodes,
        GraphOptions::new(id("incident-42")),
    )
    .await;
    let expected = r#""queries: fine, metrics: fine, logs: fine""#;
    assert!(
        matches!(&outcome.nodes[0].outcome, NodeOutcome::Completed { output } if output == expected),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn e3_one_of_five_branches_panics_and_the_report_behind_it_is_skipped() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let runtime = runtime(Arc::clone(&store), &Tally::default());
    let mut nodes = ["a", "b", "c", "d", "e"].map(analysis).to_vec();
    nodes[2].flow = "panic".into();
    nodes.push(GraphNode::new("report", "report").after(["a", "c"]));
    let outcome = run(
        &runtime,
        &*store,
        nodes,
        GraphOptions::new(id("incident-42")),
    )
    .await;
    let outcomes: Vec<_> = outcome
        .nodes
        .iter()
        .map(|node| node.outcome.to_string())
        .collect();
    let expected = [
        "completed",
        "completed",
        "panicked: disk full",
        "completed",
        "completed",
        "skipped: `c` did not complete",
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(
        kinds(&*store, &id("incident-42/c")).await,
        ["loom.started", "loom.failed"]
    );
    assert_eq!(children(&*store, "incident-42").await.len(), 5);
}

#[tokio::test]
async fn e6_an_unrelated_execution_under_a_childs_id_is_not_touched() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let runtime = runtime(Arc::clone(&store), &Tally::default());
    // One that no journal wrote, and one that is not a branch of this graph.
    let imported = NewEvent::new("permit.filed", "{}");
    store
        .append(Append::new(id("incident-42/logs"), 0, vec![imported]))
        .await
        .unwrap();
    let alone = loom_spi::DispatchRequest::new(id("incident-42/queries"), "analyse")
        .with_input("\"queries\"");
    loom_spi::ExecutionDispatcher::dispatch(&runtime, alone)
        .await
        .unwrap();

    let nodes = ["metrics", "logs", "queries"].map(analysis).to_vec();
    let outcome = run(
        &runtime,
        &*store,
        nodes,
        GraphOptions::new(id("incident-42")),
    )
    .await;
    assert!(outcome.nodes[0].outcome.is_completed());
    for (node, reason) in [
        (1, "permit.filed"),
        (2, "its parent is none, not `incident-42`"),
    ] {
        let NodeOutcome::Error(error) = &outcome.nodes[node].outcome else {
            panic!("expected IdTaken, got {:?}", outcome.nodes[node].outcome);
        };
        assert!(
            matches!(**error, DispatchError::IdTaken { .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert_eq!(
        kinds(&*store, &id("incident-42/logs")).await,
        ["permit.filed"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e5_the_results_of_500_branches_are_in_node_order() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let runtime = LocalWorkerRuntime::builder(Arc::clone(&store))
        .flow("index", |flow: FlowContext| async move {
            let index: usize = flow.input()?;
            // They end in another order than they begin in.
            for _ in 0..index % 17 {
                tokio::task::yield_now().await;
            }
            Ok(index)
        })
        .build();
    let nodes = (0..500)
        .map(|index| GraphNode::new(format!("n{index}"), "index").with_input(index.to_string()));
    let outcome = run(
        &runtime,
        &*store,
        nodes.collect(),
        GraphOptions::new(id("g")),
    )
    .await;
    for (index, node) in outcome.nodes.iter().enumerate() {
        assert!(
            matches!(&node.outcome, NodeOutcome::Completed { output } if *output == index.to_string())
        );
    }
}
