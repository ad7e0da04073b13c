//! That a sound dispatcher passes, and that each fault is noticed by the case that is there for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use loom_conformance::{
    DispatcherFactory, DispatcherSubject, Effort, Outcome, dispatcher_cases, run_dispatcher,
    run_dispatcher_case,
};
use loom_spi::{
    Append, BoxError, CancelRequest, Cancellation, DispatchError, DispatchRequest, EventStore,
    ExecutionDispatcher, ExecutionId, ExecutionOutcome, Failure, NewEvent,
};
use loom_store_memory::MemoryStore;
use tokio::sync::watch;

/// What a broken dispatcher does wrong, and the case that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    LeavesTheLogOpen,
    ReportsFailuresAsErrors,
    ForgetsWhatEnded,
    DoesNotJoin,
    KnowsNothingOfOthers,
    TakesAnyInput,
    MixesOutcomesUp,
    DropsUpstream,
    CompletesWhatItDoesNotKnow,
    StopsWithItsCaller,
    CancelsInWordsOnly,
    CancelsWhatEnded,
    CancelsWhatNeverRan,
}

const FAULTS: [(Fault, &str); 13] = [
    (
        Fault::LeavesTheLogOpen,
        "dispatching::what_completes_is_recorded_and_returned",
    ),
    (
        Fault::ReportsFailuresAsErrors,
        "dispatching::what_fails_or_panics_is_an_outcome_and_no_error",
    ),
    (
        Fault::ForgetsWhatEnded,
        "dispatching::what_has_ended_is_returned_and_not_run_again",
    ),
    (
        Fault::DoesNotJoin,
        "dispatching::concurrent_dispatches_of_one_id_run_its_body_once",
    ),
    (
        Fault::KnowsNothingOfOthers,
        "dispatching::two_dispatchers_of_one_id_run_its_body_once",
    ),
    (
        Fault::TakesAnyInput,
        "dispatching::another_flow_or_input_under_the_id_is_refused_and_nothing_is_written",
    ),
    (
        Fault::MixesOutcomesUp,
        "dispatching::executions_that_run_at_once_get_each_its_own_outcome",
    ),
    (
        Fault::DropsUpstream,
        "dispatching::outputs_that_an_execution_builds_on_are_handed_to_it",
    ),
    (
        Fault::CompletesWhatItDoesNotKnow,
        "dispatching::a_flow_that_nobody_knows_is_an_error_and_no_outcome",
    ),
    (
        Fault::StopsWithItsCaller,
        "dispatch_cancellation::dropping_a_dispatch_stops_waiting_and_not_the_execution",
    ),
    (
        Fault::CancelsInWordsOnly,
        "dispatch_cancellation::cancelling_ends_an_execution_for_everybody_who_waits_for_it",
    ),
    (
        Fault::CancelsWhatEnded,
        "dispatch_cancellation::cancelling_what_has_ended_says_how_it_ended",
    ),
    (
        Fault::CancelsWhatNeverRan,
        "dispatch_cancellation::cancelling_what_never_ran_says_so_and_writes_nothing",
    ),
];

/// One execution, as its dispatchers know it.
#[derive(Debug)]
struct Known {
    request: DispatchRequest,
    outcome: watch::Sender<Option<ExecutionOutcome>>,
}

type Table = Arc<Mutex<HashMap<ExecutionId, Arc<Known>>>>;

/// Runs the flows of the suite as tasks.
#[derive(Clone, Debug)]
struct TestDispatcher {
    store: Arc<MemoryStore>,
    known: Table,
    runs: Arc<Mutex<HashMap<ExecutionId, usize>>>,
    fault: Option<Fault>,
}

impl TestDispatcher {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn enter(&self, request: &DispatchRequest) -> Result<(Arc<Known>, bool), DispatchError> {
        let mut known = self.known.lock().unwrap();
        let there = known.get(&request.id).cloned();
        if let Some(there) = there {
            let same = there.request.flow == request.flow && there.request.input == request.input;
            if !same && !self.has(Fault::TakesAnyInput) {
                return Err(DispatchError::IdTaken {
                    id: request.id.clone(),
                    reason: "it was begun with something else".into(),
                });
            }
            let ended = there.outcome.borrow().is_some();
            let again = (ended && self.has(Fault::ForgetsWhatEnded))
                || (!ended && self.has(Fault::DoesNotJoin));
            if !again {
                return Ok((there, false));
            }
        }
        let new = Arc::new(Known {
            request: request.clone(),
            outcome: watch::Sender::new(None),
        });
        known.insert(request.id.clone(), Arc::clone(&new));
        Ok((new, true))
    }

    async fn run(&self, known: &Known) {
        let request = &known.request;
        *self
            .runs
            .lock()
            .unwrap()
            .entry(request.id.clone())
            .or_insert(0) += 1;
        // Others get their turn in the middle of it.
        tokio::task::yield_now().await;
        let completed = |output: Bytes| ExecutionOutcome::Completed { output };
        let outcome = match &*request.flow {
            "echo" if self.has(Fault::MixesOutcomesUp) => completed("0".into()),
            "echo" => completed(request.input.clone()),
            "sum" => {
                let numbers = request.upstream.iter().map(|up| {
                    let text = std::str::from_utf8(&up.output).unwrap();
                    text.parse::<u64>().unwrap()
                });
                let sum: u64 = numbers.sum();
                let sum = if self.has(Fault::DropsUpstream) {
                    0
                } else {
                    sum
                };
                completed(sum.to_string().into())
            }
            "fail" => ExecutionOutcome::Failed(Failure::error("as told")),
            "panic" => ExecutionOutcome::Failed(Failure::panicked("out of paper")),
            "wait" => std::future::pending().await,
            _ => completed("null".into()),
        };
        self.end(known, outcome).await;
    }

    async fn end(&self, known: &Known, outcome: ExecutionOutcome) {
        let event = NewEvent::new("ended", "{}");
        let event = if self.has(Fault::LeavesTheLogOpen) {
            event
        } else {
            event.terminal()
        };
        let append = Append::new(known.request.id.clone(), 0, vec![event]);
        let _ = self.store.append(append).await;
        known.outcome.send_if_modified(|ended| {
            let first = ended.is_none();
            ended.get_or_insert(outcome);
            first
        });
    }
}

#[async_trait]
impl ExecutionDispatcher for TestDispatcher {
    async fn dispatch(&self, request: DispatchRequest) -> Result<ExecutionOutcome, DispatchError> {
        let is_known = ["echo", "sum", "fail", "panic", "wait"].contains(&&*request.flow);
        if !is_known && !self.has(Fault::CompletesWhatItDoesNotKnow) {
            return Err(DispatchError::UnknownFlow {
                id: request.id,
                flow: request.flow,
                known: "echo".into(),
            });
        }
        let (known, new) = self.enter(&request)?;
        let mut ended = known.outcome.subscribe();
        if new && self.has(Fault::StopsWithItsCaller) {
            tokio::task::yield_now().await;
            self.run(&known).await;
        } else if new {
            let (this, known) = (self.clone(), Arc::clone(&known));
            tokio::spawn(async move { this.run(&known).await });
        }
        let outcome = ended
            .wait_for(Option::is_some)
            .await
            .unwrap()
            .clone()
            .unwrap();
        match outcome {
            ExecutionOutcome::Failed(failure) if self.has(Fault::ReportsFailuresAsErrors) => {
                Err(DispatchError::Runtime {
                    id: request.id,
                    source: failure.message.into(),
                })
            }
            outcome => Ok(outcome),
        }
    }

    async fn cancel(&self, request: CancelRequest) -> Result<Cancellation, DispatchError> {
        let known = self.known.lock().unwrap().get(&request.id).cloned();
        let Some(known) = known else {
            if self.has(Fault::CancelsWhatNeverRan) {
                let event = NewEvent::new("cancelled", "{}").terminal();
                let append = Append::new(request.id, 0, vec![event]);
                self.store.append(append).await.unwrap();
            }
            return Ok(Cancellation::NotRunning);
        };
        let ended = known.outcome.borrow().clone();
        match ended {
            Some(outcome) if !self.has(Fault::CancelsWhatEnded) => {
                Ok(Cancellation::AlreadyFinished(outcome))
            }
            _ => {
                if !self.has(Fault::CancelsInWordsOnly) {
                    let reason = request.reason;
                    self.end(&known, ExecutionOutcome::Cancelled { reason })
                        .await;
                }
                Ok(Cancellation::Requested)
            }
        }
    }
}

struct Factory(Option<Fault>);

#[async_trait]
impl DispatcherFactory for Factory {
    async fn create(&self) -> Result<DispatcherSubject, BoxError> {
        let first = TestDispatcher {
            store: Arc::new(MemoryStore::new()),
            known: Table::default(),
            runs: Arc::default(),
            fault: self.0,
        };
        let mut second = first.clone();
        if self.0 == Some(Fault::KnowsNothingOfOthers) {
            second.known = Table::default();
        }
        let (store, runs) = (Arc::clone(&first.store), Arc::clone(&first.runs));
        Ok(DispatcherSubject::new(
            store,
            Arc::new(first),
            Arc::new(second),
            move |id| runs.lock().unwrap().get(id).copied().unwrap_or(0),
        ))
    }

    fn effort(&self) -> Effort {
        let mut effort = Effort::default();
        if self.0.is_some() {
            // Some faults show in that nothing ends.
            effort.deadline = Duration::from_secs(5);
        }
        effort
    }
}

#[test]
fn a_sound_dispatcher_passes_every_case() {
    let reports = run_dispatcher(Arc::new(Factory(None)), |_| {});
    assert_eq!(reports.len(), FAULTS.len(), "a fault for each case");
    for report in reports {
        assert_eq!(report.outcome, Outcome::Passed, "{}", report.name);
    }
}

#[test]
fn every_case_notices_the_fault_that_it_is_there_for() {
    for (fault, path) in FAULTS {
        let cases = dispatcher_cases();
        let case = cases.iter().find(|case| case.path() == path).unwrap();
        let factory: Arc<dyn DispatcherFactory> = Arc::new(Factory(Some(fault)));
        let outcome = run_dispatcher_case(&factory, case).outcome;
        assert!(
            matches!(outcome, Outcome::Failed { .. }),
            "{path} does not notice {fault:?}"
        );
    }
}
