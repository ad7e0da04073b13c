//! Runs cases.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use loom_spi::BoxError;
use tokio::runtime::{Builder, Runtime};

use crate::case::{Case, Run};
use crate::context::{Cx, RegistryCx, Spares};
use crate::dispatcher::{DispatchCx, DispatcherFactory};
use crate::factory::{RegistryFactory, StoreFactory, Subject};
use crate::outcome::{Stop, Verdict};
use crate::{CaseReport, Effort, Outcome, cases, dispatcher_cases, registry_cases};

/// How long a runtime may take to end after its case: what hangs longer is left behind.
const WIND_DOWN: Duration = Duration::from_secs(5);

/// Runs every case against the stores of a factory, as many at a time as there are processors, and returns
/// the reports in the order of [`cases`]. `progress` hears of each case when it ends.
///
/// Blocks. May be called from anywhere: the cases run in threads and runtimes of their own.
pub fn run_store(
    factory: Arc<dyn StoreFactory>,
    progress: impl FnMut(&CaseReport),
) -> Vec<CaseReport> {
    run_cases(factory, &cases(), progress)
}

/// Runs some of the [`cases`] against the stores of a factory, as [`run_store`] does with all.
pub fn run_cases(
    factory: Arc<dyn StoreFactory>,
    cases: &[Case],
    progress: impl FnMut(&CaseReport),
) -> Vec<CaseReport> {
    run_all(cases, &|case| run_case(&factory, case), progress)
}

/// Runs every case of a branch registry that stands alone, as [`run_store`] does for a store.
pub fn run_registry(
    factory: Arc<dyn RegistryFactory>,
    progress: impl FnMut(&CaseReport),
) -> Vec<CaseReport> {
    let run = |case: &Case| run_registry_case(&factory, case);
    run_all(&registry_cases(), &run, progress)
}

/// Runs one case against a new store. A panic, in the case or in the store, is a failure.
///
/// Blocks. May be called from anywhere.
#[must_use]
pub fn run_case(factory: &Arc<dyn StoreFactory>, case: &Case) -> CaseReport {
    let body = attempt(Arc::clone(factory), *case);
    report(case, &factory.effort(), body, |outcome| match outcome {
        Outcome::Skipped { missing } if factory.promises().contains(&missing) => Outcome::Failed {
            message: format!("the factory promises {missing}, but it is missing"),
        },
        outcome => outcome,
    })
}

/// Runs one case of [`registry_cases`] against a new registry; any other case fails.
///
/// Blocks. May be called from anywhere.
#[must_use]
pub fn run_registry_case(factory: &Arc<dyn RegistryFactory>, case: &Case) -> CaseReport {
    let body = attempt_registry(Arc::clone(factory), *case);
    report(case, &factory.effort(), body, |outcome| outcome)
}

/// Runs every case of a dispatcher, as [`run_store`] does for a store.
pub fn run_dispatcher(
    factory: Arc<dyn DispatcherFactory>,
    progress: impl FnMut(&CaseReport),
) -> Vec<CaseReport> {
    let run = |case: &Case| run_dispatcher_case(&factory, case);
    run_all(&dispatcher_cases(), &run, progress)
}

/// Runs one case of [`dispatcher_cases`] against new dispatchers; any other case fails.
///
/// Blocks. May be called from anywhere.
#[must_use]
pub fn run_dispatcher_case(factory: &Arc<dyn DispatcherFactory>, case: &Case) -> CaseReport {
    let body = attempt_dispatcher(Arc::clone(factory), *case);
    report(case, &factory.effort(), body, |outcome| outcome)
}

async fn attempt_dispatcher(factory: Arc<dyn DispatcherFactory>, case: Case) -> Outcome {
    let Run::Dispatcher(run) = case.run else {
        return failed("the case is not about a dispatcher".to_owned());
    };
    let effort = factory.effort();
    match guarded(async move { factory.create().await }).await {
        Ok(subject) => judged(run(DispatchCx::new(subject, effort))).await,
        Err(message) => failed(format!("the dispatchers could not be made: {message}")),
    }
}

/// Makes a store, runs the case, cleans up.
async fn attempt(factory: Arc<dyn StoreFactory>, case: Case) -> Outcome {
    let spares = Spares::new(Arc::clone(&factory));
    let made = guarded(async move { factory.create().await }).await;
    let Subject {
        store,
        hooks,
        close,
    } = match made {
        Ok(subject) => subject,
        Err(message) => return failed(format!("the store could not be made: {message}")),
    };
    spares.closes().extend(close);
    let mut outcome = verdict(case.run, Cx::new(store, hooks, Arc::clone(&spares))).await;
    let closes = std::mem::take(&mut *spares.closes());
    for close in closes {
        let closed = guarded(async move { close().await }).await;
        outcome = match (closed, outcome) {
            (Err(message), Outcome::Passed) => failed(format!("closing the store: {message}")),
            (_, outcome) => outcome,
        };
    }
    outcome
}

async fn verdict(run: Run, cx: Cx) -> Outcome {
    match run {
        Run::Store(run) => judged(run(cx)).await,
        Run::Registry(run) => match cx.registry() {
            Ok(registry) => judged(run(RegistryCx::new(registry, *cx.effort()))).await,
            Err(stop) => stopped(stop),
        },
        Run::Dispatcher(_) => failed("the case needs a dispatcher, not a store".to_owned()),
    }
}

async fn attempt_registry(factory: Arc<dyn RegistryFactory>, case: Case) -> Outcome {
    let Run::Registry(run) = case.run else {
        return failed("the case needs an event store, not only a registry".to_owned());
    };
    let effort = factory.effort();
    match guarded(async move { factory.create().await }).await {
        Ok(registry) => judged(run(RegistryCx::new(registry, effort))).await,
        Err(message) => failed(format!("the registry could not be made: {message}")),
    }
}

/// Runs the body of a case, and turns a panic into a failure.
async fn judged(body: impl Future<Output = Verdict> + Send + 'static) -> Outcome {
    match tokio::spawn(body).await {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(stop)) => stopped(stop),
        Err(ended) => failed(panic_message(ended)),
    }
}

/// Runs something of the factory's, and turns an error or a panic into text.
async fn guarded<T: Send + 'static>(
    body: impl Future<Output = Result<T, BoxError>> + Send + 'static,
) -> Result<T, String> {
    match tokio::spawn(body).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(ended) => Err(panic_message(ended)),
    }
}

fn stopped(stop: Stop) -> Outcome {
    match stop {
        Stop::Failed(message) => Outcome::Failed { message },
        Stop::Skipped(missing) => Outcome::Skipped { missing },
    }
}

fn failed(message: String) -> Outcome {
    Outcome::Failed { message }
}

fn panic_message(ended: tokio::task::JoinError) -> String {
    match ended.try_into_panic() {
        Ok(payload) => format!("panicked: {}", text_of(&*payload)),
        Err(ended) => ended.to_string(),
    }
}

fn text_of(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "without a message"
    }
}

fn report(
    case: &Case,
    effort: &Effort,
    body: impl Future<Output = Outcome> + Send + 'static,
    judge: impl FnOnce(Outcome) -> Outcome,
) -> CaseReport {
    let start = Instant::now();
    let outcome = judge(in_runtime(effort.deadline, body));
    CaseReport {
        group: case.group(),
        name: case.name(),
        outcome,
        took: start.elapsed(),
    }
}

/// Runs a case in a runtime of its own, in a thread of its own, so that it may be called inside another
/// runtime.
fn in_runtime(deadline: Duration, body: impl Future<Output = Outcome> + Send + 'static) -> Outcome {
    let run = move || {
        let runtime = match Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
        {
            Ok(runtime) => runtime,
            Err(error) => return failed(format!("no runtime: {error}")),
        };
        run_in(runtime, deadline, body)
    };
    thread::scope(|scope| scope.spawn(run).join())
        .unwrap_or_else(|payload| failed(format!("panicked: {}", text_of(&*payload))))
}

fn run_in(
    runtime: Runtime,
    deadline: Duration,
    body: impl Future<Output = Outcome> + Send + 'static,
) -> Outcome {
    // A plain channel: it is heard even when the store blocks every thread of the runtime.
    let (done, ended) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        let outcome = body.await;
        // Nobody listens any more after the deadline.
        let _ = done.send(outcome);
    });
    let outcome = match ended.recv_timeout(deadline) {
        Ok(outcome) => outcome,
        Err(RecvTimeoutError::Timeout) => {
            // Whatever blocks its threads is left behind.
            runtime.shutdown_background();
            return failed(format!("hangs: no end after {deadline:?}"));
        }
        Err(RecvTimeoutError::Disconnected) => failed("the case was lost to a panic".to_owned()),
    };
    runtime.shutdown_timeout(WIND_DOWN);
    outcome
}

/// Runs cases in parallel and reports them in their order.
fn run_all(
    cases: &[Case],
    run: &(dyn Fn(&Case) -> CaseReport + Sync),
    mut progress: impl FnMut(&CaseReport),
) -> Vec<CaseReport> {
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let (done, ended) = mpsc::channel();
    let mut reports: Vec<(usize, CaseReport)> = Vec::with_capacity(cases.len());
    thread::scope(|scope| {
        for _ in 0..threads {
            let (done, next) = (done.clone(), &next);
            scope.spawn(move || {
                while let Some((index, case)) = take(next, cases) {
                    // The receiver lives until every sender is gone.
                    let _ = done.send((index, run(case)));
                }
            });
        }
        drop(done);
        for (index, report) in ended {
            progress(&report);
            reports.push((index, report));
        }
    });
    reports.sort_by_key(|(index, _)| *index);
    reports.into_iter().map(|(_, report)| report).collect()
}

fn take<'a>(next: &AtomicUsize, cases: &'a [Case]) -> Option<(usize, &'a Case)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    cases.get(index).map(|case| (index, case))
}
