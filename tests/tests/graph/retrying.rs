//! Retries and timeouts on real logs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use loom_graph_executor::{GraphNode, GraphOptions, NodeOutcome, Retry, TokioTimer};
use loom_spi::EventStore;
use loom_store_memory::MemoryStore;
use loom_worker::{FlowContext, FlowError, LocalWorkerRuntime};

use crate::support::{Tally, children, id, kinds, run};

/// `flaky` fails until its count of runs reaches its input; `hangs` does not end before that.
fn runtime(store: Arc<dyn EventStore>, tally: &Tally) -> LocalWorkerRuntime {
    let (failing, hanging) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let tally = tally.clone();
    LocalWorkerRuntime::builder(store)
        .flow("flaky", move |flow: FlowContext| {
            let (runs, tally) = (failing.fetch_add(1, Ordering::SeqCst) + 1, tally.clone());
            async move {
                tally.count(flow.id());
                match flow.input::<u32>()? {
                    enough if runs >= enough => Ok(runs),
                    _ => Err(FlowError::new(format!("run {runs} fails"))),
                }
            }
        })
        .flow("hangs", move |flow: FlowContext| {
            let runs = hanging.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                if runs < flow.input()? {
                    std::future::pending::<()>().await;
                }
                Ok(runs)
            }
        })
        .build()
}

fn options(attempts: u32) -> GraphOptions {
    let retry =
        Retry::attempts(attempts).with_backoff(Duration::from_secs(60), Duration::from_secs(600));
    GraphOptions::new(id("g"))
        .with_retry(retry)
        .with_timer(Arc::new(TokioTimer))
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_a_log_of_its_own_and_a_run_with_more_attempts_goes_on_after_them() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let tally = Tally::default();
    let nodes = || vec![GraphNode::new("a", "flaky").with_input("4")];
    let runtime = runtime(Arc::clone(&store), &tally);
    let outcome = run(&runtime, &*store, nodes(), options(2)).await;
    assert!(
        matches!(&outcome.nodes[0].outcome, NodeOutcome::Failed { message } if message == "run 2 fails")
    );
    assert_eq!(outcome.nodes[0].last_execution(), id("g/a~2"));

    let outcome = run(&runtime, &*store, nodes(), options(5)).await;
    assert!(outcome.all_completed(), "{outcome:?}");
    assert_eq!(outcome.nodes[0].attempts, 4);
    for (execution, ended) in [
        ("g/a", "failed"),
        ("g/a~2", "failed"),
        ("g/a~3", "failed"),
        ("g/a~4", "completed"),
    ] {
        let kinds = kinds(&*store, &id(execution)).await;
        assert_eq!(
            kinds,
            ["loom.started".to_owned(), format!("loom.{ended}")],
            "{execution}"
        );
    }
    assert!(
        tally.counts().values().all(|count| *count == 1),
        "none ran twice: {:?}",
        tally.counts()
    );
    assert_eq!(
        children(&*store, "g").await,
        ["g/a"],
        "exactly the branches"
    );
    assert_eq!(children(&*store, "g/a").await, ["g/a~2", "g/a~3", "g/a~4"]);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_hangs_is_cancelled_in_its_log_and_the_next_one_completes() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let runtime = runtime(Arc::clone(&store), &Tally::default());
    let nodes = vec![
        GraphNode::new("a", "hangs")
            .with_input("3")
            .with_timeout(Duration::from_secs(30)),
    ];
    let outcome = run(&runtime, &*store, nodes, options(3)).await;
    assert!(
        matches!(&outcome.nodes[0].outcome, NodeOutcome::Completed { output } if output == "3")
    );
    assert_eq!(
        kinds(&*store, &id("g/a")).await,
        ["loom.started", "loom.cancelled"]
    );
    assert_eq!(
        kinds(&*store, &id("g/a~3")).await,
        ["loom.started", "loom.completed"]
    );
    assert_eq!(runtime.running(), 0);
}
