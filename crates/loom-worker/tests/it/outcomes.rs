//! How flows end, and what the log says of it.

use std::sync::Arc;

use loom_spi::{
    Append, DispatchError, DispatchRequest, EventStore, ExecutionDispatcher, ExecutionOutcome,
    Failure, Limits, NewEvent, Upstream,
};
use loom_store_memory::MemoryStore;
use loom_worker::{FlowContext, FlowError, LocalWorkerRuntime};

use crate::support::{Counter, completed, id, kinds, request};

#[tokio::test]
async fn a_flow_gets_its_input_and_upstream_and_its_result_becomes_the_output() {
    let runtime = LocalWorkerRuntime::builder(Arc::new(MemoryStore::new()))
        .flow("sum", |flow: FlowContext| async move {
            assert_eq!(flow.id(), &id("order-7"));
            assert_eq!(flow.parent(), Some(&id("batch-3")));
            assert_eq!(flow.input_text(), b"[1,2]");
            let own: Vec<u32> = flow.input()?;
            let stock: u32 = flow.upstream_output("stock")?;
            assert_eq!(flow.upstream().len(), 1);
            Ok(own.iter().sum::<u32>() + stock)
        })
        .build();
    let request = request("sum")
        .with_input("[1,2]")
        .with_parent(id("batch-3"))
        .with_upstream(vec![Upstream::new("stock", "39")]);
    assert_eq!(runtime.dispatch(request).await.unwrap(), completed("42"));
    assert_eq!(runtime.running(), 0);
}

#[tokio::test]
async fn what_does_not_fit_the_flow_is_its_failure_and_says_what() {
    let runtime = LocalWorkerRuntime::builder(Arc::new(MemoryStore::new()))
        .flow("number", |flow: FlowContext| async move {
            Ok(flow.input::<u32>()?)
        })
        .flow("upstream", |flow: FlowContext| async move {
            Ok(flow.upstream_output::<u32>("logs")?)
        })
        .flow("nothing", |flow: FlowContext| async move {
            Ok(flow.input::<Option<u32>>()?)
        })
        .build();
    let failure = |outcome| match outcome {
        ExecutionOutcome::Failed(failure) => failure.message,
        other => panic!("expected Failed, got {other:?}"),
    };
    let text = DispatchRequest::new(id("a"), "number").with_input("\"x\"");
    let message = failure(runtime.dispatch(text).await.unwrap());
    assert!(
        message.starts_with("the input is not what the flow expects: invalid type"),
        "{message}"
    );
    assert_eq!(message.matches("invalid type").count(), 1, "{message}");
    let other = DispatchRequest::new(id("b"), "upstream")
        .with_upstream(vec![Upstream::new("metrics", "1")]);
    let message = failure(runtime.dispatch(other).await.unwrap());
    assert_eq!(message, "there is no upstream `logs` (there are: metrics)");
    let nothing = DispatchRequest::new(id("c"), "nothing");
    assert_eq!(runtime.dispatch(nothing).await.unwrap(), completed("null"));
}

#[tokio::test]
async fn an_error_of_the_flow_is_recorded_with_its_causes() {
    let store = Arc::new(MemoryStore::new());
    let runtime = LocalWorkerRuntime::builder(Arc::<MemoryStore>::clone(&store))
        .flow("fail", |flow: FlowContext| async move {
            let shipped = flow.effect("ship", |_| async { Err::<(), _>("no truck") });
            Ok(shipped.await?)
        })
        .build();
    let outcome = runtime.dispatch(request("fail")).await.unwrap();
    let message = "effect `ship` of execution `order-7` failed (sequence 1): no truck";
    assert_eq!(outcome, ExecutionOutcome::Failed(Failure::error(message)));
    assert_eq!(
        kinds(&*store).await,
        ["loom.started", "loom.effect", "loom.failed"]
    );
}

#[tokio::test]
async fn e3_a_panic_is_recorded_as_such_with_its_message_and_spares_the_others() {
    let store = Arc::new(MemoryStore::new());
    let runtime = LocalWorkerRuntime::builder(Arc::<MemoryStore>::clone(&store))
        .flow("panic", |flow: FlowContext| async move {
            let number: u32 = flow.input()?;
            if number == 2 {
                panic!("broke at {number}");
            }
            Ok(number)
        })
        // Before it has a future to run.
        .flow(
            "panic at once",
            |_: FlowContext| -> std::future::Ready<Result<(), FlowError>> { panic!("at once") },
        )
        .flow("panic in an effect", |flow: FlowContext| async move {
            let effect = flow.effect("boom", |_| async move {
                std::panic::panic_any(7_u8);
                #[allow(unreachable_code)]
                Ok::<(), std::io::Error>(())
            });
            Ok(effect.await?)
        })
        .build();
    let dispatches = (0..5).map(|number: u32| {
        let request = DispatchRequest::new(id(&format!("n{number}")), "panic");
        runtime.dispatch(request.with_input(number.to_string()))
    });
    let outcomes = futures_util::future::join_all(dispatches).await;
    for (number, outcome) in outcomes.into_iter().enumerate() {
        let expected = match number {
            2 => ExecutionOutcome::Failed(Failure::panicked("broke at 2")),
            _ => completed(&number.to_string()),
        };
        assert_eq!(outcome.unwrap(), expected);
    }
    for (flow, message) in [
        ("panic at once", "at once"),
        ("panic in an effect", "a panic without a message"),
    ] {
        let outcome = runtime
            .dispatch(DispatchRequest::new(id(flow), flow))
            .await
            .unwrap();
        assert_eq!(
            outcome,
            ExecutionOutcome::Failed(Failure::panicked(message))
        );
    }
    let recorded = loom_journal::read_outcome(&*store, &id("n2"))
        .await
        .unwrap();
    assert_eq!(
        recorded,
        Some(ExecutionOutcome::Failed(Failure::panicked("broke at 2")))
    );
}

#[tokio::test]
async fn e16_an_output_over_the_limit_is_a_recorded_failure() {
    let limits = Limits::default().with_max_payload_bytes(512);
    let store = MemoryStore::builder().limits(limits).build();
    let runtime = LocalWorkerRuntime::builder(Arc::new(store))
        .flow("large", |_| async { Ok("x".repeat(1000)) })
        .build();
    let outcome = runtime.dispatch(request("large")).await.unwrap();
    let ExecutionOutcome::Failed(failure) = outcome else {
        panic!("expected Failed, got {outcome:?}");
    };
    assert!(
        failure.message.contains("takes at most 512"),
        "{}",
        failure.message
    );
}

#[tokio::test]
async fn an_execution_that_has_ended_is_not_run_again_here_or_elsewhere() {
    let store = Arc::new(MemoryStore::new());
    let runs = Counter::default();
    for _ in 0..2 {
        let counter = runs.clone();
        let runtime = LocalWorkerRuntime::builder(Arc::<MemoryStore>::clone(&store))
            .flow("count", move |_| {
                let runs = counter.tick();
                async move { Ok(runs) }
            })
            .build();
        for _ in 0..2 {
            assert_eq!(
                runtime.dispatch(request("count")).await.unwrap(),
                completed("1")
            );
        }
    }
    assert_eq!(runs.count(), 1);
    // Also by a runtime that does not know the flow.
    let stranger = LocalWorkerRuntime::builder(store).build();
    assert_eq!(
        stranger.dispatch(request("count")).await.unwrap(),
        completed("1")
    );
}

#[tokio::test]
async fn requests_that_can_never_run_are_refused_and_write_nothing() {
    let store = Arc::new(MemoryStore::new());
    let runtime = LocalWorkerRuntime::builder(Arc::<MemoryStore>::clone(&store))
        .flow("a", |_| async { Ok(()) })
        .flow("b", |_| async { Ok(()) })
        .build();
    let error = runtime.dispatch(request("c")).await.unwrap_err();
    assert!(
        matches!(&error, DispatchError::UnknownFlow { known, .. } if known == "a, b"),
        "{error:?}"
    );
    for flow in ["a", "c"] {
        let error = runtime
            .dispatch(request(flow).with_input("{"))
            .await
            .unwrap_err();
        assert!(
            matches!(&error, DispatchError::InvalidRequest { .. }),
            "{error:?}"
        );
    }
    assert!(
        store
            .head(loom_spi::Head::new(id("order-7")))
            .await
            .unwrap()
            .is_none()
    );

    let imported = NewEvent::new("permit.filed", "{}");
    store
        .append(Append::new(id("order-7"), 0, vec![imported]))
        .await
        .unwrap();
    for flow in ["a", "c"] {
        let error = runtime.dispatch(request(flow)).await.unwrap_err();
        assert!(
            matches!(&error, DispatchError::IdTaken { reason, .. } if reason.contains("permit.filed")),
            "{error:?}"
        );
    }
    assert_eq!(kinds(&*store).await, ["permit.filed"]);
}

#[test]
fn outside_an_async_runtime_dispatching_is_an_error_and_no_panic() {
    use futures_util::FutureExt;
    let runtime = LocalWorkerRuntime::builder(Arc::new(MemoryStore::new()))
        .flow("a", |_| async { Ok(()) })
        .build();
    let error = runtime
        .dispatch(request("a"))
        .now_or_never()
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, DispatchError::Runtime { .. }), "{error:?}");
}
