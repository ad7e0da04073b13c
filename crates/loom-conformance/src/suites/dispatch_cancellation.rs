//! Callers that stop waiting, and executions that are cancelled.

use std::sync::Arc;
use std::task::Poll;

use loom_spi::{CancelRequest, Cancellation, ExecutionId, ExecutionOutcome};

use super::dispatching::{completed, dispatched, log, request};
use crate::dispatcher::DispatchCx;
use crate::outcome::{Stop, Verdict, check, check_eq};
use crate::support::id;

crate::macros::suite! { ($) Dispatcher dispatch_cancellation as __dispatch_cancellation;
    dropping_a_dispatch_stops_waiting_and_not_the_execution,
    cancelling_ends_an_execution_for_everybody_who_waits_for_it,
    cancelling_what_has_ended_says_how_it_ended,
    cancelling_what_never_ran_says_so_and_writes_nothing,
}

/// Waits until the body of an execution has begun to run.
async fn begun(cx: &DispatchCx, id: &ExecutionId) {
    while cx.runs(id) == 0 {
        tokio::task::yield_now().await;
    }
}

async fn cancel(cx: &DispatchCx, id: &ExecutionId) -> Result<Cancellation, Stop> {
    let cancel = CancelRequest::new(id.clone(), "too late");
    let cancelled = cx.first.cancel(cancel).await;
    cancelled.map_err(|error| Stop::failed(super::dispatching::told(&error)))
}

async fn dropping_a_dispatch_stops_waiting_and_not_the_execution(cx: DispatchCx) -> Verdict {
    for round in 0..cx.effort.rounds {
        let id = id(format!("order-{round}"))?;
        let request = request(&id, "echo").with_input("7");
        {
            // Some rounds get further than others before they are dropped.
            let mut polls = 0;
            let mut dispatch = cx.first.dispatch(request.clone());
            std::future::poll_fn(|context| {
                polls += 1;
                match dispatch.as_mut().poll(context) {
                    Poll::Pending if polls <= round => {
                        context.waker().wake_by_ref();
                        Poll::Pending
                    }
                    _ => Poll::Ready(()),
                }
            })
            .await;
        }
        begun(&cx, &id).await;
        check_eq!(
            dispatched(&cx.first, request).await?,
            completed("7"),
            "the outcome"
        );
        check_eq!(cx.runs(&id), 1, "runs of its body");
    }
    Ok(())
}

async fn cancelling_ends_an_execution_for_everybody_who_waits_for_it(cx: DispatchCx) -> Verdict {
    let id = id("order-7")?;
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let (dispatcher, request) = (Arc::clone(&cx.first), request(&id, "wait"));
            tokio::spawn(async move { dispatched(&dispatcher, request).await })
        })
        .collect();
    begun(&cx, &id).await;
    check_eq!(
        cancel(&cx, &id).await?,
        Cancellation::Requested,
        "the answer"
    );
    for waiting in waiting {
        let outcome = waiting.await.map_err(Stop::failed)??;
        check!(
            matches!(&outcome, ExecutionOutcome::Cancelled { reason } if reason == "too late"),
            "expected it to be cancelled, got {outcome:?}"
        );
    }
    let (_, closed) = log(&cx, &id).await?;
    check!(closed, "the log of a cancelled execution is not closed");
    // Also for whoever asks later, elsewhere.
    let later = dispatched(&cx.second, request(&id, "wait")).await?;
    check!(
        matches!(later, ExecutionOutcome::Cancelled { .. }),
        "{later:?}"
    );
    check_eq!(cx.runs(&id), 1, "runs of its body");
    Ok(())
}

async fn cancelling_what_has_ended_says_how_it_ended(cx: DispatchCx) -> Verdict {
    let id = id("order-7")?;
    dispatched(&cx.first, request(&id, "echo").with_input("7")).await?;
    let before = log(&cx, &id).await?;
    let answer = cancel(&cx, &id).await?;
    check_eq!(
        answer,
        Cancellation::AlreadyFinished(completed("7")),
        "the answer"
    );
    check_eq!(log(&cx, &id).await?, before, "its log");
    Ok(())
}

async fn cancelling_what_never_ran_says_so_and_writes_nothing(cx: DispatchCx) -> Verdict {
    let id = id("order-7")?;
    check_eq!(
        cancel(&cx, &id).await?,
        Cancellation::NotRunning,
        "the answer"
    );
    check_eq!(log(&cx, &id).await?, (0, false), "its log");
    // Nor is it kept from running later.
    let outcome = dispatched(&cx.first, request(&id, "echo").with_input("7")).await?;
    check_eq!(outcome, completed("7"), "the outcome");
    Ok(())
}
