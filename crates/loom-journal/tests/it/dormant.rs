//! Ending executions that nobody runs.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use loom_journal::{DormantEnd, JournalError, JournalOptions, cancel_dormant};
use loom_spi::{EventStore, ExecutionOutcome};

use crate::support::{Counter, FaultStore, counted, id, open, open_with, request};

async fn end(store: &Arc<FaultStore>) -> Result<DormantEnd, JournalError> {
    let store: Arc<dyn EventStore> = Arc::<FaultStore>::clone(store);
    let options = JournalOptions::default().with_holder("somebody else");
    cancel_dormant(&store, &id("order-7"), "a false alarm", &options).await
}

fn cancelled() -> ExecutionOutcome {
    ExecutionOutcome::Cancelled {
        reason: "a false alarm".into(),
    }
}

#[tokio::test]
async fn what_nobody_runs_is_cancelled_and_whoever_resumes_it_is_told() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    let journal = open(&store).await.unwrap();
    counted(&journal, "charge", 1, &runs).await.unwrap();
    journal.release().await.unwrap();
    assert_eq!(
        end(&store).await.unwrap(),
        DormantEnd::Cancelled(cancelled())
    );
    assert_eq!(open(&store).await.unwrap().outcome(), Some(&cancelled()));
    assert_eq!(
        end(&store).await.unwrap(),
        DormantEnd::HadEnded(cancelled())
    );
    let kinds = store.kinds(&id("order-7")).await;
    assert_eq!(kinds, ["loom.started", "loom.effect", "loom.cancelled"]);
    // Whoever was taken for dead records nothing more.
    let late = counted(&journal, "ship", 1, &runs).await.unwrap_err();
    assert!(matches!(late, JournalError::TakenOver { .. }), "{late:?}");
}

#[tokio::test]
async fn what_somebody_runs_is_left_to_them() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    let journal = open(&store).await.unwrap();
    let error = end(&store).await.unwrap_err();
    assert!(matches!(error, JournalError::Leased { .. }), "{error:?}");
    counted(&journal, "charge", 1, &runs).await.unwrap();
    let outcome = journal.complete(&()).await.unwrap();
    assert_eq!(end(&store).await.unwrap(), DormantEnd::HadEnded(outcome));
}

#[tokio::test]
async fn what_was_never_begun_is_not_begun_for_that() {
    let store = FaultStore::new();
    assert_eq!(end(&store).await.unwrap(), DormantEnd::NeverBegun);
    assert_eq!(store.appends.load(Ordering::SeqCst), 0);
    let journal = open(&store).await.unwrap();
    assert_eq!(journal.outcome(), None);
}

#[tokio::test]
async fn without_fences_nobody_can_know_and_nothing_is_written() {
    let (store, runs) = (FaultStore::without_fencing(), Counter::default());
    let journal = open(&store).await.unwrap();
    assert_eq!(end(&store).await.unwrap(), DormantEnd::Unfenced);
    counted(&journal, "charge", 1, &runs).await.unwrap();
}

/// Whatever a worker that goes on with it does meanwhile, the log ends once, and each effect is in it once.
#[tokio::test]
async fn of_an_end_and_a_worker_at_the_same_moment_one_comes_first() {
    for steps in 0..12 {
        let store = FaultStore::new();
        let no_lease = JournalOptions::default().with_lease(None);
        open_with(&store, &request(), no_lease.clone())
            .await
            .unwrap();
        let work = async {
            for _ in 0..steps {
                tokio::task::yield_now().await;
            }
            let journal = open_with(&store, &request(), JournalOptions::default()).await?;
            if let Some(outcome) = journal.outcome() {
                return Ok(outcome.clone());
            }
            let step = |_| async {
                tokio::task::yield_now().await;
                Ok::<_, Infallible>(1)
            };
            journal.effect("step", step).await?;
            journal.complete(&()).await
        };
        let ending = async {
            for _ in 0..6 {
                tokio::task::yield_now().await;
            }
            end(&store).await
        };
        let (worked, ended): (Result<_, JournalError>, _) = tokio::join!(work, ending);
        let events = store.events(&id("order-7")).await;
        let terminal = events.iter().filter(|event| event.terminal).count();
        match ended {
            Ok(DormantEnd::Cancelled(outcome)) => {
                assert_eq!(terminal, 1);
                let told = match worked {
                    Ok(told) => told == outcome,
                    Err(error) => matches!(error, JournalError::TakenOver { .. }),
                };
                assert!(told, "after {steps} steps");
            }
            Ok(DormantEnd::HadEnded(outcome)) => assert_eq!(worked.unwrap(), outcome),
            Err(JournalError::Leased { .. } | JournalError::TakenOver { .. }) => {
                assert!(worked.unwrap().is_completed());
            }
            other => panic!("after {steps} steps: {other:?}"),
        }
    }
}
