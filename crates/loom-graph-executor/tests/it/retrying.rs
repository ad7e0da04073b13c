//! Nodes that are tried again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use loom_graph_executor::{
    GraphError, GraphEvent, GraphNode, GraphOptions, NodeOutcome, Retry, execute_graph,
};
use loom_spi::{
    BranchRegistry as _, Children, DispatchError, ExecutionOutcome, Failure, Operation, StoreError,
    StoreErrorKind,
};
use loom_store_memory::MemoryStore;

use crate::support::{Clock, Prompt, Running, Scripted, children, id, options, outcomes};

const MINUTE: Duration = Duration::from_secs(60);

fn retry(attempts: u32) -> Retry {
    Retry::attempts(attempts).with_backoff(MINUTE, 8 * MINUTE)
}

fn tried(clock: &Arc<Clock>, attempts: u32) -> GraphOptions {
    options()
        .with_timer(clock.timer())
        .with_retry(retry(attempts))
}

fn node(key: &str) -> GraphNode {
    GraphNode::new(key, "f").with_input(format!("\"{key}\""))
}

#[tokio::test]
async fn each_attempt_is_an_execution_of_its_own_and_a_branch_of_the_first() {
    let (script, clock) = (Scripted::new(), Clock::new());
    let nodes = vec![node("a"), GraphNode::new("b", "f").after(["a"])];
    let mut graph = Running::start(&script, nodes, tried(&clock, 3));
    for (attempt, execution) in ["incident-42/a", "incident-42/a~2", "incident-42/a~3"]
        .iter()
        .enumerate()
    {
        assert!(graph.poll().is_none());
        assert_eq!(script.in_flight(), [id(execution)]);
        if attempt < 2 {
            script.fail(&id(execution), "busy");
            assert!(graph.poll().is_none());
            // It waits, for no longer than the policy says, and then comes back.
            let failed = u32::try_from(attempt).unwrap() + 1;
            assert_eq!(
                clock.waits(),
                [retry(3).delay(&id("incident-42/a"), failed)]
            );
            assert!(clock.waits()[0] <= retry(3).longest_delay(failed));
            assert_eq!(script.in_flight(), []);
            clock.advance(clock.waits()[0]);
        }
    }
    script.complete(&id("incident-42/a~3"), "7");
    assert!(graph.poll().is_none());
    script.complete(&id("incident-42/b"), "8");
    let outcome = graph.poll().unwrap().unwrap();
    assert!(outcome.all_completed());
    let node = &outcome.nodes[0];
    assert_eq!((node.attempts, &node.execution), (3, &id("incident-42/a")));
    assert_eq!(node.last_execution(), id("incident-42/a~3"));

    // The registry still enumerates exactly the branches, and the attempts below their first.
    let branches: Vec<_> = children(&script.registry)
        .await
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    assert_eq!(branches, ["incident-42/a", "incident-42/b"]);
    let attempts = script
        .registry
        .children(Children::new(id("incident-42/a")))
        .await
        .unwrap();
    let attempts: Vec<_> = attempts
        .iter()
        .map(|b| (b.child.as_str(), b.label.as_str()))
        .collect();
    assert_eq!(
        attempts,
        [
            ("incident-42/a~2", "attempt 2"),
            ("incident-42/a~3", "attempt 3")
        ]
    );
    // All are given the same, and each says of whom it is a branch.
    let requests = script.requests();
    assert!(
        requests[..3]
            .iter()
            .all(|request| request.input == "\"a\"" && request.flow == "f")
    );
    assert_eq!(requests[2].parent, Some(id("incident-42/a")));
    assert_eq!(requests[3].upstream[0].output, "7");
}

#[tokio::test]
async fn the_last_failure_stands_when_no_attempt_is_left() {
    let (script, clock) = (Scripted::new(), Clock::new());
    let mut graph = Running::start(&script, vec![node("a")], tried(&clock, 2));
    assert!(graph.poll().is_none());
    script.fail(&id("incident-42/a"), "first");
    assert!(graph.poll().is_none());
    clock.advance(MINUTE);
    assert!(graph.poll().is_none());
    let panicked = Failure::panicked("second");
    script.answer(
        &id("incident-42/a~2"),
        Ok(ExecutionOutcome::Failed(panicked)),
    );
    let outcome = graph.poll().unwrap().unwrap();
    assert_eq!(outcomes(&outcome), ["panicked: second"]);
    assert_eq!(outcome.nodes[0].attempts, 2);
    assert_eq!(outcome.nodes[0].last_execution(), id("incident-42/a~2"));
}

#[tokio::test]
async fn a_graph_that_is_run_again_goes_on_at_the_attempt_at_which_it_was() {
    let (script, clock) = (Scripted::new(), Clock::new());
    script.remember();
    let mut graph = Running::start(&script, vec![node("a")], tried(&clock, 4));
    for execution in ["incident-42/a", "incident-42/a~2"] {
        assert!(graph.poll().is_none());
        script.fail(&id(execution), "busy");
        assert!(graph.poll().is_none());
        clock.advance(8 * MINUTE);
    }
    assert!(graph.poll().is_none());
    assert_eq!(script.in_flight(), [id("incident-42/a~3")]);
    // The process dies, and the third attempt ends while nobody looks.
    drop(graph);
    script.fail(&id("incident-42/a~3"), "busy");
    let before = script.requests().len();

    let mut graph = Running::start(&script, vec![node("a")], tried(&clock, 4));
    assert!(graph.poll().is_none());
    let asked: Vec<_> = script.requests()[before..]
        .iter()
        .map(|r| r.id.to_string())
        .collect();
    // Recorded attempts are neither run again nor waited for.
    assert_eq!(
        asked,
        ["incident-42/a", "incident-42/a~2", "incident-42/a~3"]
    );
    assert_eq!(clock.waits().len(), 1, "the fourth is new, so it waits");
    clock.advance(8 * MINUTE);
    assert!(graph.poll().is_none());
    script.complete(&id("incident-42/a~4"), "1");
    let outcome = graph.poll().unwrap().unwrap();
    assert_eq!(
        (outcome.nodes[0].attempts, outcome.all_completed()),
        (4, true)
    );
}

#[tokio::test]
async fn what_was_cancelled_or_can_never_run_is_not_tried_again() {
    let (dispatcher, registry) = (Prompt::default(), MemoryStore::new());
    let nodes = vec![
        GraphNode::new("a", "cancel"),
        GraphNode::new("b", "no such flow"),
    ];
    let retry = Retry::attempts(9).with_backoff(Duration::ZERO, Duration::ZERO);
    let outcome = execute_graph(&dispatcher, &registry, nodes, options().with_retry(retry))
        .await
        .unwrap();
    let attempts: Vec<_> = outcome.nodes.iter().map(|node| node.attempts).collect();
    assert_eq!((attempts, dispatcher.count()), (vec![1, 1], 2));
}

#[tokio::test]
async fn an_execution_whose_outcome_was_not_learnt_is_dispatched_again_under_its_own_id() {
    let (script, clock) = (Scripted::new(), Clock::new());
    let mut graph = Running::start(&script, vec![node("a")], tried(&clock, 3));
    let execution = id("incident-42/a");
    let kind = StoreErrorKind::Unavailable {
        reason: "no route".into(),
        outcome_known: false,
    };
    let lost = DispatchError::Store {
        id: execution.clone(),
        source: StoreError::new(Operation::Append, kind),
    };
    let taken = DispatchError::TakenOver {
        id: execution.clone(),
        source: "fenced".into(),
    };
    for error in [lost, taken] {
        assert!(graph.poll().is_none());
        script.answer(&execution, Err(error));
        assert!(graph.poll().is_none());
        clock.advance(8 * MINUTE);
    }
    assert!(graph.poll().is_none());
    script.complete(&execution, "1");
    let outcome = graph.poll().unwrap().unwrap();
    assert_eq!(
        (outcome.nodes[0].attempts, outcome.nodes[0].last_execution()),
        (3, execution)
    );
    assert!(outcome.all_completed());
}

#[tokio::test]
async fn a_dispatcher_that_panics_is_asked_again_for_the_same_execution() {
    let (dispatcher, registry) = (Prompt::default(), MemoryStore::new());
    let retry = Retry::attempts(3).with_backoff(Duration::ZERO, Duration::ZERO);
    let nodes = vec![GraphNode::new("a", "panic")];
    let outcome = execute_graph(&dispatcher, &registry, nodes, options().with_retry(retry))
        .await
        .unwrap();
    assert!(matches!(
        outcome.nodes[0].outcome,
        NodeOutcome::Panicked { .. }
    ));
    let asked = dispatcher
        .dispatched
        .lock()
        .unwrap()
        .iter()
        .map(|r| r.id.clone())
        .collect::<Vec<_>>();
    assert_eq!(
        asked,
        [
            id("incident-42/a"),
            id("incident-42/a"),
            id("incident-42/a")
        ]
    );
}

#[tokio::test]
async fn a_node_that_waits_takes_up_no_place() {
    let (script, clock) = (Scripted::new(), Clock::new());
    let nodes = vec![node("a"), node("b")];
    let mut graph = Running::start(&script, nodes, tried(&clock, 2).with_limit(1));
    assert!(graph.poll().is_none());
    script.fail(&id("incident-42/a"), "busy");
    assert!(graph.poll().is_none());
    assert_eq!(script.in_flight(), [id("incident-42/b")]);
    clock.advance(MINUTE);
    assert!(graph.poll().is_none());
    assert_eq!(
        script.in_flight(),
        [id("incident-42/b")],
        "and then it waits for one"
    );
    script.complete(&id("incident-42/b"), "1");
    assert!(graph.poll().is_none());
    script.complete(&id("incident-42/a~2"), "1");
    assert!(graph.poll().unwrap().unwrap().all_completed());
}

#[tokio::test]
async fn the_observer_hears_of_each_attempt_that_is_followed_by_another() {
    let (dispatcher, registry) = (Prompt::default(), MemoryStore::new());
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&log);
    let observed = options().with_observer(move |event| {
        seen.lock().unwrap().push(match event {
            GraphEvent::Started { key, .. } => format!("{key} starts"),
            GraphEvent::Retrying {
                key,
                attempt,
                outcome,
                delay,
                next,
                ..
            } => {
                format!("{key} attempt {attempt} {outcome}, after {delay:?} {next}")
            }
            GraphEvent::Settled { result, .. } => {
                format!("{} {} at {}", result.key, result.outcome, result.attempts)
            }
            other => format!("{other:?}"),
        });
    });
    let retry = Retry::attempts(2).with_backoff(Duration::ZERO, Duration::ZERO);
    let nodes = vec![GraphNode::new("a", "fail").with_retry(retry)];
    execute_graph(&dispatcher, &registry, nodes, observed)
        .await
        .unwrap();
    let expected = [
        "a starts",
        "a attempt 1 failed: no stock, after 0ns incident-42/a~2",
        "a failed: no stock at 2",
    ];
    assert_eq!(*log.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_graph_that_could_never_try_or_never_wait_is_refused() {
    let (dispatcher, registry) = (Prompt::default(), MemoryStore::new());
    let run = |node, options| execute_graph(&dispatcher, &registry, vec![node], options);
    let zero = run(node("a").with_retry(Retry::attempts(0)), options())
        .await
        .unwrap_err();
    assert_eq!(zero, GraphError::ZeroAttempts { node: "a".into() });
    for node in [
        node("a").with_retry(retry(2)),
        node("a").with_timeout(MINUTE),
    ] {
        let refused = run(node, options()).await.unwrap_err();
        assert_eq!(refused, GraphError::NoTimer { node: "a".into() });
    }
    assert_eq!(
        (dispatcher.count(), children(&registry).await.len()),
        (0, 0)
    );
}
