//! Graphs whose parent is a flow: what stands in its log decides what is run again.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use loom_graph_executor::{GraphManifest, GraphNode, GraphOptions, NodeOutcome, execute_graph};
use loom_journal::JournalOptions;
use loom_spi::{
    Append, DispatchError, DispatchRequest, EventStore, ExecutionDispatcher as _, ExecutionOutcome,
    NewEvent, Parent,
};
use loom_store_memory::MemoryStore;
use loom_worker::{FlowContext, FlowError, LocalWorkerRuntime};

use crate::support::{Tally, children, id, kinds, registry, run};

/// A flow that runs `nodes` and stops before it ends: its log stays open, as after a crash.
fn runtime(
    store: &Arc<dyn EventStore>,
    tally: &Tally,
    nodes: Vec<GraphNode>,
) -> LocalWorkerRuntime {
    let own = Arc::new(OnceLock::<LocalWorkerRuntime>::new());
    let (handle, logs, tally) = (Arc::clone(&own), Arc::clone(store), tally.clone());
    let runtime = LocalWorkerRuntime::builder(Arc::clone(store))
        // The process that had it is known to have died: nobody waits for its lease to lapse.
        .journal_options(JournalOptions::default().with_take_over(true))
        .flow("parent", move |flow: FlowContext| {
            let (handle, logs, nodes) = (Arc::clone(&handle), Arc::clone(&logs), nodes.clone());
            async move {
                let runtime = handle.get().ok_or_else(|| FlowError::new("no runtime"))?;
                let now = GraphManifest::of(&nodes).to_string();
                let recorded: String = flow
                    .effect("graph", |_| async move { Ok::<_, Infallible>(now) })
                    .await?;
                let options = GraphOptions::new(flow.id().clone()).with_recorded(recorded.parse()?);
                let outcome = execute_graph(runtime, registry(&*logs), nodes, options).await?;
                assert!(outcome.all_completed());
                // Where the machine fails.
                std::future::pending::<()>().await;
                Ok(())
            }
        })
        .flow("node", move |flow: FlowContext| {
            tally.count(flow.id());
            async { Ok(1) }
        })
        .build();
    own.set(runtime.clone()).unwrap();
    runtime
}

#[test]
fn e25_a_flow_whose_graph_has_changed_since_its_log_was_begun_is_refused_naming_the_difference() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let tally = Tally::default();
    let nodes = |input: &'static str| {
        let first = GraphNode::new("a", "node").with_input(input);
        vec![first, GraphNode::new("b", "node").after(["a"])]
    };
    let parent = || DispatchRequest::new(id("g"), "parent");
    // Each process ends with its async runtime.
    let process = || {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
    };
    process().block_on(async {
        let runtime = runtime(&store, &tally, nodes("1"));
        let mut dispatched = runtime.dispatch(parent());
        while tally.counts().len() < 2 {
            tokio::select! {
                biased;
                outcome = &mut dispatched => panic!("it never ends: {outcome:?}"),
                () = tokio::task::yield_now() => {}
            }
        }
    });
    let before = tally.counts();
    process().block_on(async {
        let runtime = runtime(&store, &tally, nodes("2"));
        let outcome = runtime.dispatch(parent()).await.unwrap();
        let ExecutionOutcome::Failed(failure) = outcome else {
            panic!("expected a refusal: {outcome:?}");
        };
        assert!(
            failure
                .message
                .contains("the input of node `a` has changed"),
            "{failure}"
        );
    });
    assert_eq!(tally.counts(), before, "nothing ran");
}

#[tokio::test]
async fn e6_an_unrelated_log_under_a_childs_id_is_left_alone_and_gets_no_parent() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let event = NewEvent::new("permit.filed", "1");
    store
        .append(Append::new(id("g/a"), 0, vec![event]))
        .await
        .unwrap();
    let runtime = runtime(&store, &Tally::default(), Vec::new());
    let nodes = vec![GraphNode::new("a", "node"), GraphNode::new("b", "node")];
    let options = GraphOptions::new(id("g")).with_logs(Arc::clone(&store));
    let outcome = run(&runtime, &*store, nodes, options).await;
    assert!(matches!(
        &outcome.nodes[0].outcome,
        NodeOutcome::Error(error) if matches!(**error, DispatchError::IdTaken { .. })
    ));
    assert!(outcome.nodes[1].outcome.is_completed());
    assert_eq!(children(&*store, "g").await, ["g/b"]);
    let link = registry(&*store)
        .parent(Parent::new(id("g/a")))
        .await
        .unwrap();
    assert_eq!(link, None);
    assert_eq!(kinds(&*store, &id("g/a")).await, ["permit.filed"]);
}
