//! Which executions nodes are, where they run, and graphs that have changed.

use std::sync::Arc;

use loom_graph_executor::{
    GraphDifference, GraphError, GraphManifest, GraphNode, GraphOptions, NodeOutcome, execute_graph,
};
use loom_spi::{
    Append, BranchRegistry as _, DispatchError, EventStore as _, NewEvent, Parent, RecordLineage,
};
use loom_store_memory::MemoryStore;

use crate::support::{Prompt, children, id, options};

fn nodes() -> Vec<GraphNode> {
    vec![
        GraphNode::new("a", "echo").with_input("1"),
        GraphNode::new("b", "echo").after(["a"]),
        GraphNode::new("c", "echo"),
    ]
}

async fn begin(store: &MemoryStore, execution: &str) {
    let event = NewEvent::new("t", "1");
    store
        .append(Append::new(id(execution), 0, vec![event]))
        .await
        .unwrap();
}

fn looking_in(store: &Arc<MemoryStore>) -> GraphOptions {
    options().with_logs(Arc::<MemoryStore>::clone(store))
}

#[tokio::test]
async fn e6_an_unrelated_execution_under_a_childs_id_is_a_collision_and_no_lineage_is_left() {
    let (dispatcher, store) = (Prompt::default(), Arc::new(MemoryStore::new()));
    begin(&store, "incident-42/a").await;
    let outcome = execute_graph(&dispatcher, &*store, nodes(), looking_in(&store))
        .await
        .unwrap();
    let NodeOutcome::Error(error) = &outcome.nodes[0].outcome else {
        panic!("expected IdTaken, got {:?}", outcome.nodes[0].outcome);
    };
    assert!(
        matches!(**error, DispatchError::IdTaken { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("it is no branch"), "{error}");
    assert_eq!(
        dispatcher.count(),
        1,
        "only `c`: nothing was dispatched into it"
    );
    assert_eq!(
        children(&*store).await,
        [("incident-42/c".to_owned(), "c".to_owned())]
    );
    let link = store
        .parent(Parent::new(id("incident-42/a")))
        .await
        .unwrap();
    assert_eq!(link, None, "it is still nobody's branch");
}

#[tokio::test]
async fn e6_somebody_elses_branch_is_a_collision_before_its_log_is_and_after() {
    for has_log in [false, true] {
        let (dispatcher, store) = (Prompt::default(), Arc::new(MemoryStore::new()));
        let theirs = RecordLineage::new(id("other"), id("incident-42/a"), "theirs".into());
        store.record_lineage(theirs).await.unwrap();
        if has_log {
            begin(&store, "incident-42/a").await;
        }
        let outcome = execute_graph(&dispatcher, &*store, nodes(), looking_in(&store))
            .await
            .unwrap();
        let NodeOutcome::Error(error) = &outcome.nodes[0].outcome else {
            panic!("expected IdTaken, got {:?}", outcome.nodes[0].outcome);
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
    }
}

#[tokio::test]
async fn branches_that_an_earlier_run_began_are_no_collision() {
    let (dispatcher, store) = (Prompt::default(), Arc::new(MemoryStore::new()));
    for _ in 0..2 {
        let outcome = execute_graph(&dispatcher, &*store, nodes(), looking_in(&store))
            .await
            .unwrap();
        assert!(outcome.all_completed());
        for key in ["a", "b", "c"] {
            // The dispatcher of this test keeps no logs.
            if store
                .head(loom_spi::Head::new(id(&format!("incident-42/{key}"))))
                .await
                .unwrap()
                .is_none()
            {
                begin(&store, &format!("incident-42/{key}")).await;
            }
        }
    }
    assert_eq!(dispatcher.count(), 6);
}

#[tokio::test]
async fn e25_a_graph_that_has_changed_is_refused_naming_the_difference_and_nothing_is_dispatched() {
    let recorded: GraphManifest = GraphManifest::of(&nodes()).to_string().parse().unwrap();
    let run = async |nodes: Vec<GraphNode>| {
        let (dispatcher, registry) = (Prompt::default(), MemoryStore::new());
        let options = options().with_recorded(recorded.clone());
        let result = execute_graph(&dispatcher, &registry, nodes, options).await;
        (result, dispatcher.count(), children(&registry).await.len())
    };
    let (same, ..) = run(nodes()).await;
    assert!(same.unwrap().all_completed());
    let node = |key: &str| key.to_owned();
    type Change = fn(&mut Vec<GraphNode>);
    let changes: [(Change, GraphDifference); 5] = [
        (
            |nodes| nodes[0].input = "2".into(),
            GraphDifference::Input { node: node("a") },
        ),
        (
            |nodes| nodes[1].after.clear(),
            GraphDifference::After { node: node("b") },
        ),
        (
            |nodes| nodes[2].flow = "fail".into(),
            GraphDifference::Flow { node: node("c") },
        ),
        (
            |nodes| drop(nodes.pop()),
            GraphDifference::Gone { node: node("c") },
        ),
        (
            |nodes| nodes.push(GraphNode::new("d", "echo")),
            GraphDifference::New { node: node("d") },
        ),
    ];
    for (change, difference) in changes {
        let mut changed = nodes();
        change(&mut changed);
        let (result, dispatched, recorded) = run(changed).await;
        assert_eq!(result.unwrap_err(), GraphError::Changed { difference });
        assert_eq!((dispatched, recorded), (0, 0));
    }
}

#[tokio::test]
async fn each_node_runs_where_it_was_placed() {
    let (here, there) = (Prompt::default(), Arc::new(Prompt::default()));
    let registry = MemoryStore::new();
    let mut nodes = nodes();
    nodes[1] = nodes[1].clone().on(Arc::<Prompt>::clone(&there));
    let outcome = execute_graph(&here, &registry, nodes, options())
        .await
        .unwrap();
    assert!(outcome.all_completed());
    let ids = |prompt: &Prompt| -> Vec<_> {
        prompt
            .dispatched
            .lock()
            .unwrap()
            .iter()
            .map(|request| request.id.to_string())
            .collect()
    };
    assert_eq!(ids(&here), ["incident-42/a", "incident-42/c"]);
    assert_eq!(ids(&there), ["incident-42/b"]);
    let request = there.dispatched.lock().unwrap()[0].clone();
    assert_eq!(
        request.upstream[0].output, "1",
        "outputs are handed over from the one to the other"
    );
    assert_eq!(children(&registry).await.len(), 3);
}
