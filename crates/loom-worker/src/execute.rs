//! One run of one execution.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::{BoxFuture, CatchUnwind, Either, FutureExt as _, select};
use loom_journal::{ExecutionJournal, JournalError, JournalOptions, read_outcome};
use loom_spi::{EventStore, Failure};
use serde_json::value::RawValue;

use crate::FlowContext;
use crate::error::RunError;
use crate::flow::{Flow, FlowResult};
use crate::keeper::LeaseKeeper;
use crate::open::{WhenLeased, open_when_free};
use crate::running::{Interruption, Ran, Running};

/// With what executions are run.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) options: JournalOptions,
    pub(crate) when_leased: WhenLeased,
}

/// How a flow ended, before that is recorded.
enum End {
    Returned(Box<RawValue>),
    Failed(Failure),
    Cancelled(String),
    TakenOver(JournalError),
    Stopped,
}

impl From<Interruption> for End {
    fn from(interruption: Interruption) -> Self {
        match interruption {
            Interruption::Cancelled(reason) => Self::Cancelled(reason),
            Interruption::Stopped => Self::Stopped,
        }
    }
}

/// Runs an execution from its log and records how it ended.
pub(crate) async fn execute(setting: &Setting, flow: &Flow, run: &Arc<Running>) -> Ran {
    let journal = match open(setting, run).await {
        Ok(Some(journal)) => journal,
        Ok(None) => return Ran::Stopped,
        Err(error) => return Ran::To(Err(error.into())),
    };
    if let Some(outcome) = journal.outcome() {
        return Ran::To(Ok(outcome.clone()));
    }
    let ran = record(&journal, run_flow(&journal, flow, run).await).await;
    match &ran {
        Ran::To(Ok(_)) => return ran,
        // Whoever took it over may have ended it: the log is what counts.
        Ran::To(Err(RunError::Journal(JournalError::TakenOver { .. }))) => {
            if let Ok(Some(outcome)) = read_outcome(&*setting.store, journal.id()).await {
                return Ran::To(Ok(outcome));
            }
        }
        // So that whoever resumes it need not wait. If this fails the lease lapses.
        _ => drop(journal.release().await),
    }
    ran
}

/// Opens the execution, if need be after another worker; `None` when this one is stopped meanwhile.
pub(crate) async fn open(
    setting: &Setting,
    run: &Arc<Running>,
) -> Result<Option<ExecutionJournal>, JournalError> {
    let (store, options) = (&setting.store, &setting.options);
    match ExecutionJournal::open(Arc::clone(store), &run.request, options).await {
        Err(JournalError::Leased { .. }) if setting.when_leased == WhenLeased::Wait => {
            // Seldom, so it takes no room in every run.
            Box::pin(open_after_another(setting, run)).await
        }
        opened => opened.map(Some),
    }
}

async fn open_after_another(
    setting: &Setting,
    run: &Arc<Running>,
) -> Result<Option<ExecutionJournal>, JournalError> {
    let (store, options) = (&setting.store, &setting.options);
    let opened = pin!(open_when_free(store, &run.request, options));
    match select(pin!(run.interrupted()), opened).await {
        // Whoever runs it is told by being fenced out.
        Either::Left((Interruption::Cancelled(_), _)) => {
            let options = options.clone().with_take_over(true);
            let opened = ExecutionJournal::open(Arc::clone(store), &run.request, options).await;
            opened.map(Some)
        }
        Either::Left((Interruption::Stopped, _)) => Ok(None),
        Either::Right((opened, _)) => opened.map(Some),
    }
}

async fn record(journal: &ExecutionJournal, end: End) -> Ran {
    let recorded = match end {
        End::Returned(output) => match journal.complete(&output).await {
            Err(too_large @ JournalError::TooLarge { .. }) => {
                journal.fail(Failure::error(too_large.to_string())).await
            }
            completed => completed,
        },
        End::Failed(failure) => journal.fail(failure).await,
        End::Cancelled(reason) => journal.cancel(reason).await,
        End::TakenOver(error) => Err(error),
        End::Stopped => return Ran::Stopped,
    };
    Ran::To(recorded.map_err(Into::into))
}

/// What a flow came to, or its panic.
type Ended = Result<FlowResult, Box<dyn Any + Send>>;

async fn run_flow(journal: &ExecutionJournal, flow: &Flow, run: &Arc<Running>) -> End {
    if let Some(interruption) = run.interruption() {
        return interruption.into();
    }
    let context = FlowContext::new(journal.clone(), Arc::clone(run));
    let mut body = match catch_unwind(AssertUnwindSafe(|| flow(context))) {
        Ok(body) => AssertUnwindSafe(body).catch_unwind(),
        Err(panic) => return ended_by_itself(Err(panic)),
    };
    // One that never waits needs nobody to watch over it.
    if let Poll::Ready(ended) = poll_fn(|cx| Poll::Ready(body.poll_unpin(cx))).await {
        return ended_by_itself(ended);
    }
    Box::pin(watch_over(journal, body, run)).await
}

/// A flow that is running.
type Body = CatchUnwind<AssertUnwindSafe<BoxFuture<'static, FlowResult>>>;

async fn watch_over(journal: &ExecutionJournal, body: Body, run: &Running) -> End {
    let mut keeper = LeaseKeeper::start(journal);
    let disturbed = async {
        match select(pin!(run.interrupted()), pin!(keeper.lost())).await {
            Either::Left((interruption, _)) => interruption.into(),
            Either::Right((error, _)) => End::TakenOver(error),
        }
    };
    match select(pin!(disturbed), body).await {
        Either::Left((end, body)) => {
            drop_quietly(body);
            end
        }
        Either::Right((ended, _)) => ended_by_itself(ended),
    }
}

/// What a flow does when it is dropped may panic, and changes nothing.
fn drop_quietly(body: Body) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(body)));
}

fn ended_by_itself(ended: Ended) -> End {
    match ended {
        Ok(Ok(output)) => End::Returned(output),
        Ok(Err(error)) => End::Failed(Failure::error(error.to_string())),
        Err(panic) => End::Failed(Failure::panicked(panic_message(&*panic))),
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
