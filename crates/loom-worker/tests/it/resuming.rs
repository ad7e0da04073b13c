//! Executions whose run broke off.

use std::convert::Infallible;
use std::sync::Arc;

use loom_journal::JournalError;
use loom_spi::{DispatchError, ExecutionDispatcher};
use loom_worker::{FlowContext, FlowError, LocalWorkerRuntime};

use crate::support::{Counter, SwitchStore, completed, kinds, request};

#[tokio::test]
async fn an_execution_whose_store_went_away_is_neither_completed_nor_failed_and_resumes() {
    let (store, first, second) = (SwitchStore::new(), Counter::default(), Counter::default());
    let (one, two, switch) = (first.clone(), second.clone(), Arc::clone(&store));
    let runtime = LocalWorkerRuntime::builder(Arc::<SwitchStore>::clone(&store))
        .flow("order", move |flow: FlowContext| {
            let (one, two, switch) = (one.clone(), two.clone(), Arc::clone(&switch));
            async move {
                let a: u32 = flow
                    .effect("a", |_| async move { Ok::<_, Infallible>(one.tick()) })
                    .await?;
                let b = flow.effect("b", |_| async move {
                    let runs = two.tick();
                    // The store goes away while the effect runs, the first time.
                    switch.switch(runs > 1);
                    Ok::<_, Infallible>(runs)
                });
                Ok(a + b.await?)
            }
        })
        .build();
    let error = runtime.dispatch(request("order")).await.unwrap_err();
    let DispatchError::Store { source, .. } = &error else {
        panic!("expected Store, got {error:?}");
    };
    assert!(source.to_string().contains("switched off"), "{source}");
    assert_eq!(kinds(&*store).await, ["loom.started", "loom.effect"]);

    store.switch(true);
    assert_eq!(
        runtime.dispatch(request("order")).await.unwrap(),
        completed("3")
    );
    assert_eq!((first.count(), second.count()), (1, 2));
}

#[tokio::test]
async fn a_flow_that_swallows_the_journals_error_does_not_complete() {
    let store = SwitchStore::new();
    let switch = Arc::clone(&store);
    let runtime = LocalWorkerRuntime::builder(Arc::<SwitchStore>::clone(&store))
        .flow("careless", move |flow: FlowContext| {
            let switch = Arc::clone(&switch);
            async move {
                switch.switch(false);
                let noted: Result<u8, JournalError> =
                    flow.effect("a", |_| async { Ok::<_, Infallible>(1) }).await;
                switch.switch(true);
                Ok(noted.unwrap_or(0))
            }
        })
        .build();
    let error = runtime.dispatch(request("careless")).await.unwrap_err();
    assert!(matches!(error, DispatchError::Store { .. }), "{error:?}");
    assert_eq!(kinds(&*store).await, ["loom.started"]);
}

#[tokio::test]
async fn e23_a_flow_that_was_changed_is_refused_and_the_old_one_can_go_on() {
    let store = SwitchStore::new();
    let runtime = |key: &'static str| {
        let switch = Arc::clone(&store);
        LocalWorkerRuntime::builder(Arc::<SwitchStore>::clone(&store))
            .flow("order", move |flow: FlowContext| {
                let switch = Arc::clone(&switch);
                async move {
                    let charged = flow
                        .effect(key, |_| async { Ok::<_, Infallible>(1_u32) })
                        .await?;
                    // The first run breaks off here.
                    switch.switch(false);
                    Ok::<u32, FlowError>(charged)
                }
            })
            .build()
    };
    runtime("charge")
        .dispatch(request("order"))
        .await
        .unwrap_err();
    store.switch(true);
    let error = runtime("refund")
        .dispatch(request("order"))
        .await
        .unwrap_err();
    let DispatchError::Runtime { source, .. } = &error else {
        panic!("expected Runtime, got {error:?}");
    };
    let cause = source.downcast_ref::<JournalError>();
    assert!(
        matches!(cause, Some(JournalError::NonDeterminism { recorded, .. }) if recorded == "charge"),
        "{source:?}"
    );
    assert_eq!(kinds(&*store).await, ["loom.started", "loom.effect"]);
}
