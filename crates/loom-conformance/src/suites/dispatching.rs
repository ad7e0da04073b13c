//! Dispatching: an execution runs once, and its outcome is what is recorded.

use std::sync::Arc;

use loom_spi::{
    DispatchError, DispatchRequest, EventStoreExt as _, ExecutionDispatcher, ExecutionId,
    ExecutionOutcome, FailureKind, Head, Upstream,
};

use crate::dispatcher::DispatchCx;
use crate::outcome::{Stop, Verdict, check, check_eq};
use crate::support::{id, race};

crate::macros::suite! { ($) Dispatcher dispatching as __dispatching;
    what_completes_is_recorded_and_returned,
    what_fails_or_panics_is_an_outcome_and_no_error,
    what_has_ended_is_returned_and_not_run_again,
    concurrent_dispatches_of_one_id_run_its_body_once,
    two_dispatchers_of_one_id_run_its_body_once,
    another_flow_or_input_under_the_id_is_refused_and_nothing_is_written,
    executions_that_run_at_once_get_each_its_own_outcome,
    outputs_that_an_execution_builds_on_are_handed_to_it,
    a_flow_that_nobody_knows_is_an_error_and_no_outcome,
}

pub(super) fn request(id: &ExecutionId, flow: &str) -> DispatchRequest {
    DispatchRequest::new(id.clone(), flow)
}

pub(super) async fn dispatched(
    dispatcher: &Arc<dyn ExecutionDispatcher>,
    request: DispatchRequest,
) -> Result<ExecutionOutcome, Stop> {
    let outcome = dispatcher.dispatch(request).await;
    outcome.map_err(|error| Stop::failed(told(&error)))
}

pub(super) fn told(error: &DispatchError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

pub(super) fn completed(output: &str) -> ExecutionOutcome {
    ExecutionOutcome::Completed {
        output: output.to_owned().into(),
    }
}

/// How many events the log has, and whether it is closed.
pub(super) async fn log(cx: &DispatchCx, id: &ExecutionId) -> Result<(u64, bool), Stop> {
    let head = cx.store.head(Head::new(id.clone())).await?;
    Ok(head.map_or((0, false), |head| (head.next_sequence, head.is_closed())))
}

async fn what_completes_is_recorded_and_returned(cx: DispatchCx) -> Verdict {
    let id = id("order-7")?;
    let outcome = dispatched(&cx.first, request(&id, "echo").with_input("7")).await?;
    check_eq!(outcome, completed("7"), "the outcome");
    check_eq!(cx.runs(&id), 1, "runs of its body");
    let (_, closed) = log(&cx, &id).await?;
    check!(
        closed,
        "the log of an execution that has ended is not closed"
    );
    Ok(())
}

async fn what_fails_or_panics_is_an_outcome_and_no_error(cx: DispatchCx) -> Verdict {
    for (flow, kind, message) in [
        ("fail", FailureKind::Error, "as told"),
        ("panic", FailureKind::Panicked, "out of paper"),
    ] {
        let id = id(flow)?;
        match dispatched(&cx.first, request(&id, flow)).await? {
            ExecutionOutcome::Failed(failure) => {
                check_eq!(failure.kind, kind, "the kind of `{flow}`");
                check!(
                    failure.message.contains(message),
                    "`{flow}` says `{}`",
                    failure.message
                );
            }
            other => return Err(Stop::failed(format_args!("`{flow}` came to {other:?}"))),
        }
        let (_, closed) = log(&cx, &id).await?;
        check!(closed, "the log of `{flow}` is not closed");
    }
    Ok(())
}

async fn what_has_ended_is_returned_and_not_run_again(cx: DispatchCx) -> Verdict {
    let id = id("order-7")?;
    let request = request(&id, "echo").with_input("7");
    let outcome = dispatched(&cx.first, request.clone()).await?;
    let before = log(&cx, &id).await?;
    for dispatcher in [&cx.first, &cx.second] {
        let again = dispatched(dispatcher, request.clone()).await?;
        check_eq!(again, outcome, "the outcome, asked for again");
    }
    check_eq!(cx.runs(&id), 1, "runs of its body");
    check_eq!(log(&cx, &id).await?, before, "its log");
    Ok(())
}

/// Dispatches one id from several tasks at once, each on the dispatcher that `on` picks.
async fn raced(cx: &DispatchCx, on: impl Fn(usize) -> usize) -> Verdict {
    for round in 0..cx.effort.rounds.min(3) {
        let id = id(format!("order-{round}"))?;
        let outcomes = race(cx.effort.racers, |racer| {
            let dispatchers = [&cx.first, &cx.second];
            let dispatcher = Arc::clone(dispatchers[on(racer)]);
            let request = request(&id, "echo").with_input("7");
            async move { dispatcher.dispatch(request).await }
        });
        for outcome in outcomes.await? {
            let outcome = outcome.map_err(|error| Stop::failed(told(&error)))?;
            check_eq!(outcome, completed("7"), "the outcome for each of them");
        }
        check_eq!(cx.runs(&id), 1, "runs of its body");
    }
    Ok(())
}

async fn concurrent_dispatches_of_one_id_run_its_body_once(cx: DispatchCx) -> Verdict {
    raced(&cx, |_| 0).await
}

async fn two_dispatchers_of_one_id_run_its_body_once(cx: DispatchCx) -> Verdict {
    raced(&cx, |racer| racer % 2).await
}

async fn another_flow_or_input_under_the_id_is_refused_and_nothing_is_written(
    cx: DispatchCx,
) -> Verdict {
    let id = id("order-7")?;
    dispatched(&cx.first, request(&id, "echo").with_input("7")).await?;
    let before = log(&cx, &id).await?;
    for other in [
        request(&id, "echo").with_input("8"),
        request(&id, "sum").with_input("7"),
    ] {
        for dispatcher in [&cx.first, &cx.second] {
            match dispatcher.dispatch(other.clone()).await {
                Err(DispatchError::IdTaken { .. }) => {}
                found => {
                    return Err(Stop::failed(format_args!(
                        "expected a refusal because the id is taken, got {found:?}"
                    )));
                }
            }
        }
    }
    check_eq!(log(&cx, &id).await?, before, "its log");
    Ok(())
}

async fn executions_that_run_at_once_get_each_its_own_outcome(cx: DispatchCx) -> Verdict {
    let racers = cx.effort.racers;
    let outcomes = race(racers, |racer| {
        let dispatcher = Arc::clone(&cx.first);
        async move {
            let id = ExecutionId::new(format!("order-{racer}"));
            let id = id.map_err(Stop::from)?;
            let request = request(&id, "echo").with_input(racer.to_string());
            Ok::<_, Stop>((racer, dispatched(&dispatcher, request).await?))
        }
    });
    for outcome in outcomes.await? {
        let (racer, outcome) = outcome?;
        check_eq!(
            outcome,
            completed(&racer.to_string()),
            "the outcome of {racer}"
        );
    }
    Ok(())
}

async fn outputs_that_an_execution_builds_on_are_handed_to_it(cx: DispatchCx) -> Verdict {
    let mut upstream = Vec::new();
    for (key, number) in [("a", "4"), ("b", "5")] {
        let id = id(key)?;
        dispatched(&cx.first, request(&id, "echo").with_input(number)).await?;
        upstream.push(Upstream::new(key, number).with_execution(id));
    }
    let id = id("sum")?;
    let sum = request(&id, "sum").with_upstream(upstream);
    check_eq!(dispatched(&cx.first, sum).await?, completed("9"), "the sum");
    Ok(())
}

async fn a_flow_that_nobody_knows_is_an_error_and_no_outcome(cx: DispatchCx) -> Verdict {
    let id = id("order-7")?;
    let found = cx.first.dispatch(request(&id, "no such flow")).await;
    check!(found.is_err(), "expected an error, got {found:?}");
    if cx.store.exists(&id).await? {
        let (_, closed) = log(&cx, &id).await?;
        check!(!closed, "its log says that it has ended");
    }
    Ok(())
}
