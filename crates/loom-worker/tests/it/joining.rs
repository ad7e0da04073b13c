//! Several callers of one execution.

use std::sync::Arc;

use loom_journal::JournalOptions;
use loom_spi::{DispatchError, EventStore, ExecutionDispatcher, Head};
use loom_store_memory::MemoryStore;
use loom_worker::{FlowContext, LocalWorkerRuntime};
use tokio::sync::{Notify, Semaphore};

use crate::support::{Counter, completed, id, kinds, request};

/// A flow that counts its runs, says that it has begun, and waits until it may end.
struct Gated {
    runtime: LocalWorkerRuntime,
    store: Arc<MemoryStore>,
    runs: Counter,
    begun: Arc<Notify>,
    gate: Arc<Semaphore>,
}

fn gated() -> Gated {
    let store = Arc::new(MemoryStore::new());
    let (runs, begun, gate) = (
        Counter::default(),
        Arc::new(Notify::new()),
        Arc::new(Semaphore::new(0)),
    );
    let (count, tell, wait) = (runs.clone(), Arc::clone(&begun), Arc::clone(&gate));
    let runtime = LocalWorkerRuntime::builder(Arc::<MemoryStore>::clone(&store))
        .flow("gated", move |flow: FlowContext| {
            let (count, tell, wait) = (count.clone(), Arc::clone(&tell), Arc::clone(&wait));
            async move {
                count.tick();
                tell.notify_one();
                let _permit = wait.acquire().await?;
                Ok(flow.input::<Option<u32>>()?)
            }
        })
        .flow("other", |_| async { Ok(()) })
        .build();
    Gated {
        runtime,
        store,
        runs,
        begun,
        gate,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn e11_eight_concurrent_dispatches_run_the_body_once_and_get_equal_outcomes() {
    for _ in 0..50 {
        let Gated {
            runtime,
            store,
            runs,
            gate,
            ..
        } = gated();
        let dispatches: Vec<_> = (0..8)
            .map(|_| {
                let runtime = runtime.clone();
                tokio::spawn(
                    async move { runtime.dispatch(request("gated").with_input("5")).await },
                )
            })
            .collect();
        gate.add_permits(1);
        for dispatch in dispatches {
            assert_eq!(dispatch.await.unwrap().unwrap(), completed("5"));
        }
        assert_eq!(runs.count(), 1);
        assert_eq!(kinds(&*store).await, ["loom.started", "loom.completed"]);
        assert_eq!(runtime.running(), 0);
    }
}

#[tokio::test]
async fn dropping_a_dispatch_stops_waiting_and_not_the_execution() {
    let Gated {
        runtime,
        runs,
        begun,
        gate,
        ..
    } = gated();
    tokio::select! {
        biased;
        result = runtime.dispatch(request("gated")) => panic!("it waits: {result:?}"),
        () = begun.notified() => {}
    }
    assert_eq!(runtime.running(), 1);
    gate.add_permits(1);
    assert_eq!(
        runtime.dispatch(request("gated")).await.unwrap(),
        completed("null")
    );
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_running_execution_is_not_joined_by_who_wants_something_else() {
    let Gated {
        runtime,
        store,
        begun,
        gate,
        ..
    } = gated();
    let running = runtime.clone();
    let first =
        tokio::spawn(async move { running.dispatch(request("gated").with_input("5")).await });
    begun.notified().await;
    for other in [
        request("gated").with_input("6"),
        request("other").with_input("5"),
        request("gated").with_input("5").with_parent(id("batch-3")),
    ] {
        let error = runtime.dispatch(other).await.unwrap_err();
        assert!(matches!(error, DispatchError::IdTaken { .. }), "{error:?}");
    }
    gate.add_permits(1);
    assert_eq!(first.await.unwrap().unwrap(), completed("5"));
    // Nor afterwards.
    let error = runtime
        .dispatch(request("gated").with_input("6"))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, DispatchError::IdTaken { reason, .. } if reason.contains("its input is `5`, not `6`")),
        "{error:?}"
    );
    assert_eq!(kinds(&*store).await, ["loom.started", "loom.completed"]);
}

#[tokio::test]
async fn of_two_that_begin_one_id_for_different_things_one_runs_and_the_other_is_told() {
    let Gated { runtime, gate, .. } = gated();
    gate.add_permits(2);
    let (five, six) = tokio::join!(
        runtime.dispatch(request("gated").with_input("5")),
        runtime.dispatch(request("gated").with_input("6")),
    );
    assert_eq!(five.unwrap(), completed("5"));
    assert!(matches!(six, Err(DispatchError::IdTaken { .. })), "{six:?}");
}

#[tokio::test]
async fn a_second_runtime_that_takes_the_execution_over_on_purpose_runs_it_and_the_first_one_is_told()
 {
    let first = gated();
    let dispatch = {
        let runtime = first.runtime.clone();
        tokio::spawn(async move { runtime.dispatch(request("gated")).await })
    };
    first.begun.notified().await;
    let gate = Arc::new(Semaphore::new(0));
    let (begun, wait) = (Arc::new(Notify::new()), Arc::clone(&gate));
    let tell = Arc::clone(&begun);
    let second = LocalWorkerRuntime::builder(Arc::<MemoryStore>::clone(&first.store))
        .flow("gated", move |_| {
            let (tell, wait) = (Arc::clone(&tell), Arc::clone(&wait));
            async move {
                tell.notify_one();
                let _permit = wait.acquire().await?;
                Ok("second")
            }
        })
        .journal_options(JournalOptions::default().with_take_over(true))
        .build();
    let other = tokio::spawn(async move { second.dispatch(request("gated")).await });
    begun.notified().await;
    // The first one ends while the second one runs.
    first.gate.add_permits(1);
    let error = dispatch.await.unwrap().unwrap_err();
    assert!(
        matches!(error, DispatchError::TakenOver { .. }),
        "{error:?}"
    );
    gate.add_permits(1);
    assert_eq!(other.await.unwrap().unwrap(), completed("\"second\""));
}

#[tokio::test]
async fn a_runtime_that_was_overtaken_to_the_end_reports_what_the_log_says() {
    let first = gated();
    let dispatch = {
        let runtime = first.runtime.clone();
        tokio::spawn(async move { runtime.dispatch(request("gated")).await })
    };
    first.begun.notified().await;
    let second = LocalWorkerRuntime::builder(Arc::<MemoryStore>::clone(&first.store))
        .flow("gated", |_| async { Ok("second") })
        .journal_options(JournalOptions::default().with_take_over(true))
        .build();
    let outcome = second.dispatch(request("gated")).await.unwrap();
    assert_eq!(outcome, completed("\"second\""));
    first.gate.add_permits(1);
    assert_eq!(dispatch.await.unwrap().unwrap(), outcome);
}

#[test]
fn who_waits_for_an_execution_whose_async_runtime_shuts_down_is_told() {
    let Gated {
        runtime,
        store,
        begun,
        ..
    } = gated();
    let worker = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    let dispatcher = runtime.clone();
    worker.spawn(async move { dispatcher.dispatch(request("gated")).await });
    let caller = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    caller.block_on(begun.notified());
    let joined = caller.block_on(async {
        // Polled first, so that it has joined when the other runtime goes.
        let join = runtime.dispatch(request("gated"));
        let stop = async { worker.shutdown_background() };
        tokio::join!(biased; join, stop).0
    });
    let error = joined.unwrap_err();
    assert!(matches!(error, DispatchError::Runtime { .. }), "{error:?}");
    assert!(error.to_string().contains("order-7"));
    assert_eq!(runtime.running(), 0);
    // The log is open, and it can be resumed.
    let head = caller
        .block_on(store.head(Head::new(id("order-7"))))
        .unwrap()
        .unwrap();
    assert!(!head.is_closed());
}
