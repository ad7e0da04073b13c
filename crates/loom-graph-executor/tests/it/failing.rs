//! Nodes that fail, and what that means for the others.

use std::sync::Arc;
use std::time::Duration;

use loom_graph_executor::{GraphNode, GraphOptions, NodeOutcome, OnFailure, Retry};
use loom_spi::{Append, EventStore as _, NewEvent};
use loom_store_memory::MemoryStore;

use crate::support::{Clock, Running, Scripted, children, id, options, outcomes};

fn node(key: &str, after: &[&str]) -> GraphNode {
    GraphNode::new(key, "f").after(after.iter().copied())
}

#[tokio::test]
async fn where_all_settle_one_failure_touches_only_what_waits_for_it() {
    let script = Scripted::new();
    let nodes = vec![
        node("a", &[]),
        node("b", &[]),
        node("c", &["a"]),
        node("d", &["b"]),
    ];
    let mut graph = Running::start(&script, nodes, options());
    assert!(graph.poll().is_none());
    script.fail(&id("incident-42/a"), "no stock");
    assert!(graph.poll().is_none());
    assert_eq!(script.asked_to_cancel(), []);
    script.complete(&id("incident-42/b"), "1");
    assert!(graph.poll().is_none());
    script.complete(&id("incident-42/d"), "1");
    let outcome = graph.poll().unwrap().unwrap();
    let expected = [
        "failed: no stock",
        "completed",
        "skipped: `a` did not complete",
        "completed",
    ];
    assert_eq!(outcomes(&outcome), expected);
    let attempts: Vec<_> = outcome.nodes.iter().map(|node| node.attempts).collect();
    assert_eq!(attempts, [1, 1, 0, 1]);
}

#[tokio::test]
async fn a_graph_that_fails_fast_cancels_what_runs_waits_for_it_and_begins_nothing_more() {
    let script = Scripted::new();
    script.can_cancel(false);
    let nodes = vec![
        node("a", &[]),
        node("b", &[]),
        node("c", &[]),
        node("d", &["a"]),
        node("e", &["b"]),
    ];
    let fast = options().with_limit(2).with_on_failure(OnFailure::FailFast);
    let mut graph = Running::start(&script, nodes, fast);
    assert!(graph.poll().is_none());
    script.fail(&id("incident-42/a"), "no stock");
    assert!(graph.poll().is_none(), "b still runs");
    let reason = "the graph fails fast: node `a` failed: no stock";
    assert_eq!(
        script.asked_to_cancel(),
        [("incident-42/b".into(), reason.into())]
    );
    // It was faster than the request: that is what its log says.
    script.complete(&id("incident-42/b"), "1");
    let outcome = graph.poll().unwrap().unwrap();
    let not_begun = format!("not begun: {reason}");
    let expected = [
        "failed: no stock",
        "completed",
        &not_begun,
        "skipped: `a` did not complete",
        &not_begun,
    ];
    assert_eq!(outcomes(&outcome), expected);
    assert_eq!(script.requests().len(), 2);
    assert_eq!(
        children(&script.registry).await.len(),
        2,
        "what was not begun is no branch"
    );
}

#[tokio::test]
async fn e8_a_branch_fails_while_its_sibling_waits_for_a_retry_fail_fast_and_nothing_is_left_running()
 {
    let (script, clock) = (Scripted::new(), Clock::new());
    let retry = Retry::attempts(5).with_backoff(Duration::from_secs(60), Duration::from_secs(60));
    let nodes = vec![
        node("waits", &[]).with_retry(retry),
        node("runs", &[]),
        node("fails", &[]),
    ];
    let fast = options()
        .with_on_failure(OnFailure::FailFast)
        .with_timer(clock.timer());
    let mut graph = Running::start(&script, nodes, fast);
    assert!(graph.poll().is_none());
    script.fail(&id("incident-42/waits"), "busy");
    assert!(graph.poll().is_none());
    assert_eq!(clock.waits().len(), 1, "it waits for its second attempt");
    script.fail(&id("incident-42/fails"), "no stock");
    let outcome = graph.poll().expect("no time has to pass").unwrap();
    let reason = "cancelled: the graph fails fast: node `fails` failed: no stock";
    assert_eq!(
        outcomes(&outcome),
        ["failed: busy", reason, "failed: no stock"]
    );
    assert_eq!(script.in_flight(), []);
    assert_eq!(clock.waits(), [], "nobody waits any more");
    assert_eq!(script.requests().len(), 3, "there was no second attempt");
    assert_eq!(outcome.nodes[0].attempts, 1);
    assert_eq!(outcome.nodes[0].last_execution(), id("incident-42/waits"));
}

#[tokio::test]
async fn a_graph_that_fails_fast_asks_until_the_dispatcher_can_cancel() {
    let (script, clock) = (Scripted::new(), Clock::new());
    script.can_cancel(false);
    let fast = options()
        .with_on_failure(OnFailure::FailFast)
        .with_timer(clock.timer());
    let mut graph = Running::start(&script, vec![node("a", &[]), node("b", &[])], fast);
    assert!(graph.poll().is_none());
    script.fail(&id("incident-42/a"), "no stock");
    for asked in 1..4 {
        assert!(graph.poll().is_none());
        assert_eq!(script.asked_to_cancel().len(), asked);
        clock.advance(Duration::from_secs(5));
    }
    script.can_cancel(true);
    let outcome = graph.poll().unwrap().unwrap();
    assert!(matches!(
        outcome.nodes[1].outcome,
        NodeOutcome::Cancelled { .. }
    ));
}

#[tokio::test]
async fn a_graph_is_stopped_from_outside_with_the_reason_given() {
    let script = Scripted::new();
    let (sender, receiver) = tokio::sync::watch::channel(String::new());
    let stopped = options().with_limit(1).cancel_when(move || {
        let mut receiver = receiver.clone();
        async move {
            receiver
                .wait_for(|reason| !reason.is_empty())
                .await
                .unwrap()
                .clone()
        }
    });
    let nodes = vec![node("a", &[]), node("b", &[]), node("c", &["a"])];
    let mut graph = Running::start(&script, nodes, stopped);
    assert!(graph.poll().is_none());
    sender.send("a false alarm".into()).unwrap();
    let outcome = graph.poll().unwrap().unwrap();
    let expected = [
        "cancelled: a false alarm",
        "not begun: a false alarm",
        "skipped: `a` did not complete",
    ];
    assert_eq!(outcomes(&outcome), expected);
}

fn fast() -> GraphOptions {
    options().with_on_failure(OnFailure::FailFast)
}

/// An earlier run began `c`, and had not begun `a` and `b`.
fn begun_before() -> Arc<Scripted> {
    let script = Scripted::new();
    script.remember();
    let mut graph = Running::start(&script, vec![node("c", &[])], fast());
    assert!(graph.poll().is_none());
    script
}

fn whole() -> Vec<GraphNode> {
    vec![node("a", &[]), node("b", &[]), node("c", &[])]
}

#[tokio::test]
async fn a_resumed_graph_that_fails_fast_begins_nothing_new_when_a_failure_is_recorded() {
    let script = begun_before();
    script.fail(&id("incident-42/c"), "no stock");
    let mut graph = Running::start(&script, whole(), fast());
    let outcome = graph.poll().unwrap().unwrap();
    let not_begun = "not begun: the graph fails fast: node `c` failed: no stock";
    assert_eq!(
        outcomes(&outcome),
        [not_begun, not_begun, "failed: no stock"]
    );
    assert_eq!(children(&script.registry).await.len(), 1);
}

#[tokio::test]
async fn a_resumed_graph_that_fails_fast_waits_for_what_it_cannot_look_up() {
    let script = begun_before();
    let mut graph = Running::start(&script, whole(), fast());
    assert!(graph.poll().is_none());
    assert_eq!(
        script.in_flight(),
        [id("incident-42/c")],
        "it may have failed"
    );
    script.complete(&id("incident-42/c"), "1");
    assert!(graph.poll().is_none());
    assert_eq!(
        script.in_flight(),
        [id("incident-42/a"), id("incident-42/b")]
    );
}

#[tokio::test]
async fn where_the_logs_say_that_it_runs_a_resumed_graph_does_not_wait_for_it() {
    let script = begun_before();
    let logs = Arc::new(MemoryStore::new());
    let begun = Append::new(id("incident-42/c"), 0, vec![NewEvent::new("begun", "")]);
    logs.append(begun).await.unwrap();
    let options = fast().with_logs(Arc::<MemoryStore>::clone(&logs));
    let mut graph = Running::start(&script, whole(), options.clone());
    assert!(graph.poll().is_none());
    assert_eq!(script.in_flight().len(), 3);
    drop(graph);

    // Now that log has ended, and nothing else is begun before it is known how.
    let script = begun_before();
    let ended = Append::new(
        id("incident-42/c"),
        1,
        vec![NewEvent::new("ended", "").terminal()],
    );
    logs.append(ended).await.unwrap();
    let mut graph = Running::start(&script, whole(), options);
    assert!(graph.poll().is_none());
    assert_eq!(script.in_flight(), [id("incident-42/c")]);
}

#[tokio::test]
async fn a_node_that_now_comes_after_a_new_one_does_not_keep_a_resumed_graph_from_going_on() {
    let script = begun_before();
    let nodes = vec![node("a", &[]), node("c", &["a"])];
    let mut graph = Running::start(&script, nodes, fast());
    assert!(graph.poll().is_none());
    assert_eq!(
        script.in_flight(),
        [id("incident-42/a"), id("incident-42/c")]
    );
    script.complete(&id("incident-42/a"), "1");
    assert!(graph.poll().is_none());
    script.complete(&id("incident-42/c"), "1");
    assert!(graph.poll().unwrap().unwrap().all_completed());
}
