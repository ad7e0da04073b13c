//! Two runtimes that want the same execution.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use loom_journal::JournalOptions;
use loom_spi::{CancelRequest, DispatchError, ExecutionDispatcher, ExecutionOutcome};
use loom_store_memory::{ManualClock, MemoryStore};
use loom_worker::{FlowContext, LocalWorkerRuntime, WhenLeased};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::support::{Counter, completed, id, kinds, request};

const LEASE: Duration = Duration::from_secs(30);

/// A runtime on a store, whose one flow has an effect that waits for a permit.
struct Worker {
    runtime: LocalWorkerRuntime,
    runs: Counter,
    begun: Arc<Notify>,
    gate: Arc<Semaphore>,
}

fn worker(store: &Arc<MemoryStore>, name: &str, when: WhenLeased, take_over: bool) -> Worker {
    let (runs, begun) = (Counter::default(), Arc::new(Notify::new()));
    let gate = Arc::new(Semaphore::new(0));
    let (count, tell, wait) = (runs.clone(), Arc::clone(&begun), Arc::clone(&gate));
    let options = JournalOptions::default()
        .with_lease(LEASE)
        .with_holder(name)
        .with_take_over(take_over);
    let runtime = LocalWorkerRuntime::builder(Arc::<MemoryStore>::clone(store))
        .flow("gated", move |flow: FlowContext| {
            let (count, tell, wait) = (count.clone(), Arc::clone(&tell), Arc::clone(&wait));
            async move {
                let effect = flow.effect("step", |_| async move {
                    count.tick();
                    tell.notify_one();
                    wait.acquire().await.map(SemaphorePermit::forget)
                });
                Ok(effect.await?)
            }
        })
        .journal_options(options)
        .when_leased(when)
        .build();
    Worker {
        runtime,
        runs,
        begun,
        gate,
    }
}

type Dispatched = tokio::task::JoinHandle<Result<ExecutionOutcome, DispatchError>>;

impl Worker {
    fn dispatch(&self) -> Dispatched {
        let runtime = self.runtime.clone();
        tokio::spawn(async move { runtime.dispatch(request("gated")).await })
    }
}

#[tokio::test(start_paused = true)]
async fn e24_a_second_runtime_joins_the_one_that_runs_the_execution() {
    let store = Arc::new(MemoryStore::new());
    let first = worker(&store, "first", WhenLeased::Wait, false);
    let second = worker(&store, "second", WhenLeased::Wait, false);
    let running = first.dispatch();
    first.begun.notified().await;
    let joined = second.dispatch();
    // Longer than any pause of the one that waits, and shorter than the lease.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!joined.is_finished());
    first.gate.add_permits(1);
    assert_eq!(running.await.unwrap().unwrap(), completed("null"));
    assert_eq!(joined.await.unwrap().unwrap(), completed("null"));
    assert_eq!([first.runs.count(), second.runs.count()], [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn e24_a_lease_is_kept_while_a_flow_waits_and_lapses_with_its_runtime() {
    let clock = ManualClock::new();
    let store = Arc::new(MemoryStore::builder().clock(clock.clone()).build());
    let first = worker(&store, "first", WhenLeased::Wait, false);
    let dead = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .worker_threads(1)
        .build()
        .unwrap();
    let runtime = first.runtime.clone();
    dead.spawn(async move { runtime.dispatch(request("gated")).await });
    first.begun.notified().await;
    let second = worker(&store, "second", WhenLeased::Wait, false);
    second.gate.add_permits(1);
    let waits = second.dispatch();
    tokio::time::sleep(LEASE / 2).await;
    assert_eq!(second.runs.count(), 0);
    // Its threads are gone, as in a process that died: nobody renews or releases.
    dead.shutdown_background();
    clock.advance(LEASE);
    assert_eq!(waits.await.unwrap().unwrap(), completed("null"));
    assert_eq!(second.runs.count(), 1);
    assert_eq!(
        kinds(&*store).await,
        ["loom.started", "loom.effect", "loom.completed"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_for_as_long_as_a_flow_takes() {
    // By tokio's clock, which stands still until somebody waits for it.
    #[derive(Debug)]
    struct TokioClock(tokio::time::Instant);
    impl loom_store_memory::Clock for TokioClock {
        fn now(&self) -> Duration {
            self.0.elapsed()
        }
    }
    let clock = TokioClock(tokio::time::Instant::now());
    let store = Arc::new(MemoryStore::builder().clock(clock).build());
    let first = worker(&store, "first", WhenLeased::Wait, false);
    let second = worker(&store, "second", WhenLeased::Refuse, false);
    let running = first.dispatch();
    first.begun.notified().await;
    for _ in 0..10 {
        tokio::time::sleep(LEASE).await;
        let error = second.dispatch().await.unwrap().unwrap_err();
        assert!(matches!(error, DispatchError::Leased { .. }), "{error:?}");
    }
    first.gate.add_permits(1);
    assert_eq!(running.await.unwrap().unwrap(), completed("null"));
    assert_eq!(second.runs.count(), 0);
}

#[tokio::test]
async fn a_runtime_that_does_not_wait_says_who_runs_the_execution() {
    let store = Arc::new(MemoryStore::new());
    let first = worker(&store, "first", WhenLeased::Wait, false);
    let second = worker(&store, "second", WhenLeased::Refuse, false);
    let running = first.dispatch();
    first.begun.notified().await;
    let error = second.dispatch().await.unwrap().unwrap_err();
    let DispatchError::Leased {
        holder, remaining, ..
    } = &error
    else {
        panic!("expected Leased, got {error:?}");
    };
    assert_eq!(holder, "first");
    assert!(*remaining <= LEASE);
    first.gate.add_permits(1);
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn e12_a_runtime_that_is_taken_over_drops_the_flow_without_being_asked() {
    let store = Arc::new(MemoryStore::new());
    let first = worker(&store, "first", WhenLeased::Wait, false);
    let second = worker(&store, "second", WhenLeased::Wait, true);
    let running = first.dispatch();
    first.begun.notified().await;
    let other = second.dispatch();
    second.begun.notified().await;
    // The first one never gets its permit: it hears of it when it renews its lease.
    let error = running.await.unwrap().unwrap_err();
    assert!(
        matches!(error, DispatchError::TakenOver { .. }),
        "{error:?}"
    );
    assert_eq!(first.runtime.running(), 0);
    second.gate.add_permits(1);
    assert_eq!(other.await.unwrap().unwrap(), completed("null"));
}

#[tokio::test]
async fn two_runtimes_of_one_process_keep_each_other_out() {
    let store = Arc::new(MemoryStore::new());
    let build = |when| {
        LocalWorkerRuntime::builder(Arc::<MemoryStore>::clone(&store))
            .flow("wait", |_| async {
                pending::<()>().await;
                Ok(())
            })
            .when_leased(when)
            .build()
    };
    let first = build(WhenLeased::Wait);
    tokio::spawn({
        let first = first.clone();
        async move { first.dispatch(request("wait")).await }
    });
    while kinds_or_none(&store).await.is_empty() {
        tokio::task::yield_now().await;
    }
    let error = build(WhenLeased::Refuse)
        .dispatch(request("wait"))
        .await
        .unwrap_err();
    assert!(matches!(error, DispatchError::Leased { .. }), "{error:?}");
}

async fn kinds_or_none(store: &Arc<MemoryStore>) -> Vec<String> {
    use loom_spi::EventStoreExt as _;
    if store.exists(&id("order-7")).await.unwrap() {
        kinds(&**store).await
    } else {
        Vec::new()
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_is_shut_down_records_nothing_and_leaves_the_rest_to_any_other_at_once() {
    let store = Arc::new(MemoryStore::new());
    let first = worker(&store, "first", WhenLeased::Wait, false);
    let running = first.dispatch();
    first.begun.notified().await;
    let second = worker(&store, "second", WhenLeased::Wait, false);
    let waits = second.dispatch();
    first.runtime.shut_down().await;
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(error, DispatchError::Runtime { .. }), "{error:?}");
    assert_eq!(kinds(&*store).await, ["loom.started"]);
    second.gate.add_permits(1);
    assert_eq!(waits.await.unwrap().unwrap(), completed("null"));
    assert_eq!(first.runs.count() + second.runs.count(), 2);
}

#[tokio::test]
async fn cancelling_an_execution_that_is_waited_for_takes_it_over_and_cancels_it() {
    let store = Arc::new(MemoryStore::new());
    let first = worker(&store, "first", WhenLeased::Wait, false);
    let second = worker(&store, "second", WhenLeased::Wait, false);
    let running = first.dispatch();
    first.begun.notified().await;
    let joined = second.dispatch();
    while second.runtime.running() == 0 {
        tokio::task::yield_now().await;
    }
    let cancel = CancelRequest::new(id("order-7"), "too late");
    second.runtime.cancel(cancel).await.unwrap();
    let cancelled = ExecutionOutcome::Cancelled {
        reason: "too late".into(),
    };
    assert_eq!(joined.await.unwrap().unwrap(), cancelled);
    first.gate.add_permits(1);
    assert_eq!(running.await.unwrap().unwrap(), cancelled);
}
