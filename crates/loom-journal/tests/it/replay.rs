//! Replaying: the same flow, a changed flow, a long log.

use std::convert::Infallible;
use std::sync::atomic::Ordering;

use loom_journal::{JournalError, JournalOptions};
use loom_spi::{Append, EventStore, Failure, NewEvent};
use proptest::prelude::*;

use crate::support::{Counter, Fault, FaultStore, counted, id, open, open_with, request};

#[tokio::test]
async fn e23_a_changed_flow_is_refused_with_what_was_recorded_and_asked_and_nothing_is_appended() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    counted(&open(&store).await.unwrap(), "charge", 1, &runs)
        .await
        .unwrap();
    let journal = open(&store).await.unwrap();
    let appends = store.appends.load(Ordering::SeqCst);
    let error = counted(&journal, "refund", 1, &runs).await.unwrap_err();
    let JournalError::NonDeterminism {
        recorded,
        requested,
        sequence,
        ..
    } = &error
    else {
        panic!("expected NonDeterminism, got {error:?}");
    };
    assert_eq!(
        (recorded.as_str(), requested.as_deref(), *sequence),
        ("charge", Some("refund"), 1)
    );
    // A flow that swallows it cannot record anything that rests on it.
    for result in [
        counted(&journal, "charge", 1, &runs).await.map(|_| ()),
        journal.complete(&()).await.map(|_| ()),
        journal.fail(Failure::error("caught")).await.map(|_| ()),
    ] {
        assert!(
            matches!(result, Err(JournalError::NonDeterminism { .. })),
            "{result:?}"
        );
    }
    assert_eq!(store.appends.load(Ordering::SeqCst), appends);
    assert_eq!(runs.count(), 1);

    // The code that wrote the log goes on.
    let journal = open(&store).await.unwrap();
    counted(&journal, "charge", 1, &runs).await.unwrap();
    journal.complete(&()).await.unwrap();
}

#[tokio::test]
async fn e23_a_flow_that_ends_before_it_did_what_is_recorded_is_refused() {
    for page_events in [1, 128] {
        let (store, runs) = (FaultStore::new(), Counter::default());
        let journal = open(&store).await.unwrap();
        for key in ["charge", "ship", "thank"] {
            counted(&journal, key, 1, &runs).await.unwrap();
        }
        let options = || JournalOptions::default().with_page_events(page_events);
        for fails in [false, true] {
            let journal = open_with(&store, &request(), options()).await.unwrap();
            counted(&journal, "charge", 1, &runs).await.unwrap();
            let ended = if fails {
                journal.fail(Failure::error("early")).await
            } else {
                journal.complete(&()).await
            };
            let error = ended.unwrap_err();
            assert!(
                matches!(&error, JournalError::NonDeterminism { recorded, requested: None, sequence: 2, .. } if recorded == "ship"),
                "{error:?}"
            );
        }
        assert_eq!(store.events(&id("order-7")).await.len(), 4);
    }
}

#[tokio::test]
async fn a_recorded_effect_that_is_asked_for_and_dropped_is_not_left_over() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    let journal = open(&store).await.unwrap();
    counted(&journal, "slow", 1, &runs).await.unwrap();
    counted(&journal, "fast", 2, &runs).await.unwrap();
    // The next run drops the first one, as `select!` does with a loser.
    let journal = open(&store).await.unwrap();
    drop(journal.effect("slow", |_| async { Ok::<u64, Infallible>(1) }));
    counted(&journal, "fast", 2, &runs).await.unwrap();
    journal.complete(&()).await.unwrap();
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn an_effect_begun_at_most_once_is_not_run_again_after_a_crash() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    // The append of its result is the second one after the anchor.
    store.fail(2, Fault::CrashBefore);
    let journal = open(&store).await.unwrap();
    let pay = |journal: &loom_journal::ExecutionJournal| {
        let runs = runs.clone();
        journal.effect_at_most_once("pay", move |_| async move {
            runs.tick();
            Ok::<_, Infallible>(7_u64)
        })
    };
    tokio::select! {
        biased;
        result = pay(&journal) => panic!("it hangs: {result:?}"),
        () = store.crashed.notified() => {}
    }
    for _ in 0..2 {
        let journal = open(&store).await.unwrap();
        let error = pay(&journal).await.unwrap_err();
        assert!(
            matches!(error, JournalError::OutcomeUnknown { sequence: 1, .. }),
            "{error:?}"
        );
        assert!(!error.halts());
        // The flow decides: it looks, and goes on.
        counted(&journal, "was it paid?", 1, &runs).await.unwrap();
    }
    // Nor when the code now takes it for an ordinary effect.
    let journal = open(&store).await.unwrap();
    let error = counted(&journal, "pay", 7, &runs).await.unwrap_err();
    assert!(
        matches!(error, JournalError::OutcomeUnknown { .. }),
        "{error:?}"
    );
    assert_eq!(runs.count(), 2);
    let kinds = store.kinds(&id("order-7")).await;
    assert_eq!(kinds, ["loom.started", "loom.intent", "loom.effect"]);
}

#[tokio::test]
async fn an_effect_begun_at_most_once_that_ended_is_replayed() {
    for page_events in [1, 2, 128] {
        let (store, runs) = (FaultStore::new(), Counter::default());
        for _ in 0..3 {
            let options = JournalOptions::default().with_page_events(page_events);
            let journal = open_with(&store, &request(), options).await.unwrap();
            let runs = runs.clone();
            let paid = journal.effect_at_most_once("pay", move |_| async move {
                Ok::<_, Infallible>(runs.tick())
            });
            assert_eq!(paid.await.unwrap(), 1);
        }
        assert_eq!(runs.count(), 1);
    }
}

#[tokio::test]
async fn a_replay_reads_the_log_once_page_by_page() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    let journal = open(&store).await.unwrap();
    for value in 0..999 {
        counted(&journal, "next", value, &runs).await.unwrap();
    }
    let options = JournalOptions::default().with_page_events(100);
    store.reads.store(0, Ordering::SeqCst);
    let journal = open_with(&store, &request(), options).await.unwrap();
    for value in 0..999 {
        assert_eq!(
            counted(&journal, "next", value, &runs).await.unwrap(),
            value
        );
    }
    // One page before the fence is taken, and then each of ten.
    assert_eq!(store.reads.load(Ordering::SeqCst), 11);
    assert_eq!(runs.count(), 999);
    counted(&journal, "next", 999, &runs).await.unwrap();
    journal.complete(&()).await.unwrap();
    assert_eq!(store.reads.load(Ordering::SeqCst), 11);
}

#[tokio::test]
async fn a_log_that_records_one_place_twice_is_corrupt() {
    let store = FaultStore::without_fencing();
    open(&store).await.unwrap();
    let record = r#"{"v":1,"run":"r","ordinal":0,"key":"charge","result":1}"#;
    let events = vec![
        NewEvent::new("loom.effect", record),
        NewEvent::new("loom.effect", record),
    ];
    store
        .append(Append::new(id("order-7"), 1, events))
        .await
        .unwrap();
    let error = open(&store).await.unwrap_err();
    assert!(
        matches!(error, JournalError::Corrupt { sequence: 2, .. }),
        "{error:?}"
    );
}

/// What one branch of a random flow does: how many effects, and after which of them the run is cut off.
fn program() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
    let branches = proptest::collection::vec(0_usize..6, 1..5);
    let cuts = proptest::collection::vec(0_usize..8, 0..5);
    (branches, cuts)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Branches run at once, and the run is cut off again and again at some append.
    #[test]
    fn however_often_branches_are_cut_off_each_effect_is_recorded_once_and_returns_the_same(
        (branches, cuts) in program()
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = FaultStore::new();
            let run = || async {
                let options = JournalOptions::default().with_page_events(3);
                let journal = open_with(&store, &request(), options).await.unwrap();
                if journal.outcome().is_some() {
                    return;
                }
                let branches = branches.iter().enumerate().map(|(number, length)| {
                    let scope = journal.scope(number.to_string());
                    async move {
                        for step in 0..*length {
                            let effect = scope.effect(step.to_string(), move |_| async move {
                                tokio::task::yield_now().await;
                                Ok::<_, Infallible>((number, step))
                            });
                            assert_eq!(effect.await.unwrap(), (number, step));
                        }
                    }
                });
                futures_util::future::join_all(branches).await;
                journal.complete(&()).await.unwrap();
            };
            for (round, cut) in cuts.iter().enumerate() {
                let fault = if round % 2 == 0 { Fault::CrashAfter } else { Fault::CrashBefore };
                store.fail(*cut, fault);
                tokio::select! {
                    biased;
                    () = run() => return,
                    () = store.crashed.notified() => {}
                }
            }
            run().await;
            let effects = branches.iter().sum::<usize>();
            assert_eq!(store.events(&id("order-7")).await.len(), effects + 2);
        });
    }
}
