//! One run of one execution.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, FutureExt as _, select};
use loom_journal::{ExecutionJournal, JournalError, JournalOptions, read_outcome};
use loom_spi::{EventStore, Failure};
use serde_json::value::RawValue;

use crate::FlowContext;
use crate::flow::Flow;
use crate::running::{RunResult, Running};

/// How a flow ended, before that is recorded.
enum End {
    Returned(Box<RawValue>),
    Failed(Failure),
    Cancelled(String),
}

/// Runs an execution from its log and records how it ended.
pub(crate) async fn execute(
    store: &Arc<dyn EventStore>,
    options: &JournalOptions,
    flow: &Flow,
    run: &Arc<Running>,
) -> RunResult {
    let result = run_journaled(store, options, flow, run).await;
    // Whoever took it over may have ended it: the log is what counts.
    if let Err(JournalError::TakenOver { .. }) = &result
        && let Ok(Some(outcome)) = read_outcome(&**store, &run.request.id).await
    {
        return Ok(outcome);
    }
    result
}

async fn run_journaled(
    store: &Arc<dyn EventStore>,
    options: &JournalOptions,
    flow: &Flow,
    run: &Arc<Running>,
) -> RunResult {
    let journal = ExecutionJournal::open(Arc::clone(store), &run.request, options.clone()).await?;
    if let Some(outcome) = journal.outcome() {
        return Ok(outcome.clone());
    }
    match run_flow(&journal, flow, run).await {
        End::Returned(output) => match journal.complete(&output).await {
            Err(too_large @ JournalError::TooLarge { .. }) => {
                journal.fail(Failure::error(too_large.to_string())).await
            }
            completed => completed,
        },
        End::Failed(failure) => journal.fail(failure).await,
        End::Cancelled(reason) => journal.cancel(reason).await,
    }
}

async fn run_flow(journal: &ExecutionJournal, flow: &Flow, run: &Arc<Running>) -> End {
    let context = FlowContext::new(journal.clone(), Arc::clone(run));
    let cancelled = pin!(run.cancelled());
    let body = AssertUnwindSafe(async move { flow(context).await })
        .catch_unwind()
        .boxed();
    match select(cancelled, body).await {
        Either::Left((reason, body)) => {
            // What a flow does when it is dropped may panic, and changes nothing.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(body)));
            End::Cancelled(reason)
        }
        Either::Right((Ok(Ok(output)), _)) => End::Returned(output),
        Either::Right((Ok(Err(error)), _)) => End::Failed(Failure::error(error.to_string())),
        Either::Right((Err(panic), _)) => End::Failed(Failure::panicked(panic_message(&*panic))),
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&'static str>() {
        return text;
    }
    match panic.downcast_ref::<String>() {
        Some(text) => text,
        None => "a panic without a message",
    }
}
