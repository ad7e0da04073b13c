//! Nodes that take too long.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use loom_graph_executor::{GraphEvent, GraphNode, NodeOutcome, Retry};

use crate::support::{Clock, Running, Scripted, id, options, outcomes};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn an_attempt_that_takes_too_long_is_cancelled_and_told_apart_from_one_that_was_called_off() {
    let (script, clock) = (Scripted::new(), Clock::new());
    let nodes = vec![
        GraphNode::new("slow", "f").with_timeout(2 * SECOND),
        GraphNode::new("called off", "f"),
        GraphNode::new("after", "f").after(["slow"]),
    ];
    let timed = options()
        .with_timer(clock.timer())
        .with_timeout(60 * SECOND);
    let mut graph = Running::start(&script, nodes, timed);
    assert!(graph.poll().is_none());
    clock.advance(SECOND);
    assert!(graph.poll().is_none());
    assert_eq!(script.asked_to_cancel(), []);
    clock.advance(SECOND);
    assert!(graph.poll().is_none());
    let asked = [("incident-42/slow".into(), "timed out after 2000 ms".into())];
    assert_eq!(script.asked_to_cancel(), asked);
    let reason = "by the user".into();
    let cancelled = loom_spi::ExecutionOutcome::Cancelled { reason };
    script.answer(&id("incident-42/called off"), Ok(cancelled));
    let outcome = graph.poll().unwrap().unwrap();
    let expected = [
        "timed out after 2s",
        "cancelled: by the user",
        "skipped: `slow` did not complete",
    ];
    assert_eq!(outcomes(&outcome), expected);
}

#[tokio::test]
async fn a_timed_out_attempt_is_tried_again_once_it_has_ended_and_again_after_a_crash() {
    let (script, clock) = (Scripted::new(), Clock::new());
    script.remember();
    let nodes = || vec![GraphNode::new("slow", "f").with_timeout(SECOND)];
    let retry = Retry::attempts(3).with_backoff(Duration::ZERO, Duration::ZERO);
    let timed = || options().with_timer(clock.timer()).with_retry(retry);
    script.can_cancel(false);
    let mut graph = Running::start(&script, nodes(), timed());
    assert!(graph.poll().is_none());
    clock.advance(SECOND);
    assert!(graph.poll().is_none());
    assert_eq!(
        script.in_flight(),
        [id("incident-42/slow")],
        "two attempts never run at a time"
    );
    script.can_cancel(true);
    clock.advance(SECOND);
    assert!(graph.poll().is_none());
    assert_eq!(script.in_flight(), [id("incident-42/slow~2")]);
    drop(graph);

    let mut graph = Running::start(&script, nodes(), timed());
    assert!(graph.poll().is_none());
    assert_eq!(
        script.in_flight(),
        [id("incident-42/slow~2")],
        "the first is recorded as timed out"
    );
    script.complete(&id("incident-42/slow~2"), "1");
    let outcome = graph.poll().unwrap().unwrap();
    assert_eq!(
        (outcome.all_completed(), outcome.nodes[0].attempts),
        (true, 2)
    );
}

#[tokio::test]
async fn one_that_completes_before_it_could_be_cancelled_has_completed() {
    let (script, clock) = (Scripted::new(), Clock::new());
    script.can_cancel(false);
    let nodes = vec![GraphNode::new("slow", "f").with_timeout(SECOND)];
    let mut graph = Running::start(&script, nodes, options().with_timer(clock.timer()));
    assert!(graph.poll().is_none());
    clock.advance(SECOND);
    assert!(graph.poll().is_none());
    script.complete(&id("incident-42/slow"), "late");
    let outcome = graph.poll().unwrap().unwrap();
    assert!(
        matches!(&outcome.nodes[0].outcome, NodeOutcome::Completed { output } if output == "late")
    );
}

#[tokio::test]
async fn a_dispatcher_that_cannot_cancel_is_asked_at_growing_intervals_while_the_join_waits() {
    let (script, clock) = (Scripted::new(), Clock::new());
    script.can_cancel(false);
    let nodes = vec![GraphNode::new("slow", "f").with_timeout(SECOND)];
    let mut graph = Running::start(&script, nodes, options().with_timer(clock.timer()));
    assert!(graph.poll().is_none());
    clock.advance(SECOND);
    let mut pauses = Vec::new();
    for _ in 0..12 {
        assert!(graph.poll().is_none());
        let [pause] = clock.waits()[..] else {
            panic!("one wait: {:?}", clock.waits())
        };
        pauses.push(pause);
        clock.advance(pause);
    }
    assert!(pauses.is_sorted() && pauses[0] < pauses[5], "{pauses:?}");
    assert_eq!(pauses.last(), Some(&(5 * SECOND)));
    script.can_cancel(true);
    assert!(matches!(
        graph.poll().unwrap().unwrap().nodes[0].outcome,
        NodeOutcome::TimedOut { after } if after == SECOND
    ));
}

#[tokio::test]
async fn the_observer_hears_that_an_attempt_is_out_of_time() {
    let (script, clock) = (Scripted::new(), Clock::new());
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&log);
    let observed = options()
        .with_timer(clock.timer())
        .with_observer(move |event| {
            seen.lock().unwrap().push(match event {
                GraphEvent::Started { key, .. } => format!("{key} starts"),
                GraphEvent::TimedOut { key, .. } => format!("{key} is out of time"),
                GraphEvent::Settled { result, .. } => format!("{} {}", result.key, result.outcome),
                other => format!("{other:?}"),
            });
        });
    let nodes = vec![GraphNode::new("slow", "f").with_timeout(SECOND)];
    let mut graph = Running::start(&script, nodes, observed);
    assert!(graph.poll().is_none());
    clock.advance(SECOND);
    assert!(graph.poll().is_some());
    assert_eq!(
        *log.lock().unwrap(),
        [
            "slow starts",
            "slow is out of time",
            "slow timed out after 1s"
        ]
    );
}
