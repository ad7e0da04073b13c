//! Cancelling executions.

use std::future::pending;
use std::sync::Arc;

use loom_spi::{CancelRequest, Cancellation, DispatchError, ExecutionDispatcher, ExecutionOutcome};
use loom_store_memory::MemoryStore;
use loom_worker::{FlowContext, FlowError, LocalWorkerRuntime};
use tokio::sync::{Notify, oneshot};

use crate::support::{SwitchStore, completed, id, kinds, request};

fn cancel(reason: &str) -> CancelRequest {
    CancelRequest::new(id("order-7"), reason)
}

fn cancelled(reason: &str) -> ExecutionOutcome {
    ExecutionOutcome::Cancelled {
        reason: reason.into(),
    }
}

/// Tells when it is dropped.
struct DropNotice(Option<oneshot::Sender<&'static str>>);

impl Drop for DropNotice {
    fn drop(&mut self) {
        if let Some(sender) = self.0.take() {
            sender.send("dropped").ok();
        }
    }
}

#[tokio::test]
async fn e4_a_cancelled_flow_is_dropped_where_it_stands_and_recorded_as_cancelled() {
    let store = Arc::new(MemoryStore::new());
    let begun = Arc::new(Notify::new());
    let (notice, dropped) = oneshot::channel();
    let notice = Arc::new(std::sync::Mutex::new(Some(notice)));
    let (tell, given) = (Arc::clone(&begun), Arc::clone(&notice));
    let runtime = LocalWorkerRuntime::builder(Arc::<MemoryStore>::clone(&store))
        .flow("wait", move |flow: FlowContext| {
            let (tell, given) = (Arc::clone(&tell), Arc::clone(&given));
            async move {
                let _notice = DropNotice(given.lock().unwrap().take());
                let effect = flow.effect("long", |_| async move {
                    tell.notify_one();
                    pending::<Result<(), std::io::Error>>().await
                });
                effect.await?;
                Ok(())
            }
        })
        .build();
    let dispatcher = runtime.clone();
    let dispatch = tokio::spawn(async move { dispatcher.dispatch(request("wait")).await });
    begun.notified().await;
    assert_eq!(
        runtime.cancel(cancel("by the user")).await.unwrap(),
        Cancellation::Requested
    );
    assert_eq!(dispatch.await.unwrap().unwrap(), cancelled("by the user"));
    assert_eq!(dropped.await.unwrap(), "dropped");
    assert_eq!(kinds(&*store).await, ["loom.started", "loom.cancelled"]);

    // It is over, for everybody.
    assert_eq!(
        runtime.dispatch(request("wait")).await.unwrap(),
        cancelled("by the user")
    );
    let late = runtime.cancel(cancel("again")).await.unwrap();
    assert_eq!(
        late,
        Cancellation::AlreadyFinished(cancelled("by the user"))
    );
}

#[tokio::test]
async fn the_first_of_two_reasons_counts() {
    let runtime = LocalWorkerRuntime::builder(Arc::new(MemoryStore::new()))
        .flow("wait", |_| pending::<Result<(), _>>())
        .build();
    let (outcome, ()) = tokio::join!(biased; runtime.dispatch(request("wait")), async {
        for reason in ["first", "second"] {
            let asked = runtime.cancel(cancel(reason)).await.unwrap();
            assert_eq!(asked, Cancellation::Requested);
        }
    });
    assert_eq!(outcome.unwrap(), cancelled("first"));
}

#[tokio::test]
async fn what_does_not_run_here_is_not_cancelled() {
    let runtime = LocalWorkerRuntime::builder(Arc::new(MemoryStore::new()))
        .flow("quick", |_| async { Ok(1) })
        .build();
    assert_eq!(
        runtime.cancel(cancel("early")).await.unwrap(),
        Cancellation::NotRunning
    );
    // And not kept from running later.
    assert_eq!(
        runtime.dispatch(request("quick")).await.unwrap(),
        completed("1")
    );
    let late = runtime.cancel(cancel("late")).await.unwrap();
    assert_eq!(late, Cancellation::AlreadyFinished(completed("1")));
}

#[tokio::test]
async fn tasks_that_a_flow_started_hear_of_it() {
    let (told, heard) = oneshot::channel();
    let told = Arc::new(std::sync::Mutex::new(Some(told)));
    let begun = Arc::new(Notify::new());
    let tell = Arc::clone(&begun);
    let runtime = LocalWorkerRuntime::builder(Arc::new(MemoryStore::new()))
        .flow("parent", move |flow: FlowContext| {
            assert!(!flow.is_cancelled());
            let (cancelled, told) = (flow.cancelled(), told.lock().unwrap().take());
            tokio::spawn(async move {
                let reason = cancelled.await;
                if let Some(told) = told {
                    told.send((reason, flow.is_cancelled())).ok();
                }
            });
            tell.notify_one();
            pending::<Result<(), _>>()
        })
        .build();
    let dispatcher = runtime.clone();
    let dispatch = tokio::spawn(async move { dispatcher.dispatch(request("parent")).await });
    begun.notified().await;
    runtime.cancel(cancel("stop")).await.unwrap();
    assert_eq!(heard.await.unwrap(), ("stop".to_owned(), true));
    assert_eq!(dispatch.await.unwrap().unwrap(), cancelled("stop"));
}

#[tokio::test]
async fn a_flow_that_panics_while_it_is_dropped_is_cancelled_all_the_same() {
    struct Grenade;
    impl Drop for Grenade {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("in drop"));
        }
    }
    let begun = Arc::new(Notify::new());
    let tell = Arc::clone(&begun);
    let runtime = LocalWorkerRuntime::builder(Arc::new(MemoryStore::new()))
        .flow("wait", move |_| {
            let tell = Arc::clone(&tell);
            async move {
                let _grenade = Grenade;
                tell.notify_one();
                pending::<Result<(), FlowError>>().await
            }
        })
        .build();
    let dispatcher = runtime.clone();
    let dispatch = tokio::spawn(async move { dispatcher.dispatch(request("wait")).await });
    begun.notified().await;
    runtime.cancel(cancel("stop")).await.unwrap();
    assert_eq!(dispatch.await.unwrap().unwrap(), cancelled("stop"));
}

#[tokio::test]
async fn a_cancellation_that_cannot_be_recorded_is_an_error_and_the_execution_stays_open() {
    let store = SwitchStore::new();
    let begun = Arc::new(Notify::new());
    let tell = Arc::clone(&begun);
    let runtime = LocalWorkerRuntime::builder(Arc::<SwitchStore>::clone(&store))
        .flow("wait", move |_| {
            tell.notify_one();
            pending::<Result<(), _>>()
        })
        .build();
    let dispatcher = runtime.clone();
    let dispatch = tokio::spawn(async move { dispatcher.dispatch(request("wait")).await });
    begun.notified().await;
    store.switch(false);
    runtime.cancel(cancel("stop")).await.unwrap();
    let error = dispatch.await.unwrap().unwrap_err();
    assert!(matches!(error, DispatchError::Store { .. }), "{error:?}");
    assert_eq!(kinds(&*store).await, ["loom.started"]);
}
