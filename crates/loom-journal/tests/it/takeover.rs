//! Two writers of one execution.

use std::convert::Infallible;
use std::time::Duration;

use loom_journal::{JournalError, JournalOptions};
use loom_spi::Failure;

use crate::support::{Counter, FaultStore, counted, id, open, open_with, request};

#[tokio::test]
async fn e12_a_writer_that_was_replaced_is_told_and_starts_no_further_effect() {
    let store = FaultStore::new();
    let (zombie_runs, runs) = (Counter::default(), Counter::default());
    let zombie = open(&store).await.unwrap();
    // It is paused in the middle of an effect. Another one takes over and does the work.
    let successor = open(&store).await.unwrap();
    counted(&successor, "charge", 42, &runs).await.unwrap();
    // It wakes up.
    let error = counted(&zombie, "charge", 42, &zombie_runs)
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            JournalError::TakenOver {
                source: Some(_),
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(zombie_runs.count(), 1, "the effect in which it was");
    for _ in 0..2 {
        let error = counted(&zombie, "ship", 1, &zombie_runs).await.unwrap_err();
        assert!(matches!(error, JournalError::TakenOver { .. }), "{error:?}");
    }
    assert!(zombie.fail(Failure::error("caught")).await.is_err());
    assert!(zombie.cancel("caught").await.is_err());
    assert_eq!(zombie_runs.count(), 1, "no further one");
    assert!(zombie.halted().is_some());

    counted(&successor, "ship", 1, &runs).await.unwrap();
    successor.complete(&()).await.unwrap();
    let kinds = store.kinds(&id("order-7")).await;
    assert_eq!(
        kinds,
        [
            "loom.started",
            "loom.effect",
            "loom.effect",
            "loom.completed"
        ]
    );
}

#[tokio::test]
async fn e12_a_writer_that_was_paused_between_effects_asks_the_store_before_the_next_one() {
    for (store, acts) in [
        (FaultStore::new(), false),
        (FaultStore::new(), true),
        // Without fencing it can only be noticed by what the other one wrote.
        (FaultStore::without_fencing(), true),
    ] {
        let (zombie_runs, runs) = (Counter::default(), Counter::default());
        let options = JournalOptions::default().with_confirm_after(Duration::ZERO);
        let zombie = open_with(&store, &request(), options).await.unwrap();
        counted(&zombie, "charge", 42, &zombie_runs).await.unwrap();
        let successor = open(&store).await.unwrap();
        counted(&successor, "charge", 42, &runs).await.unwrap();
        if acts {
            counted(&successor, "ship", 1, &runs).await.unwrap();
        }
        let error = counted(&zombie, "ship", 1, &zombie_runs).await.unwrap_err();
        assert!(matches!(error, JournalError::TakenOver { .. }), "{error:?}");
        assert_eq!(zombie_runs.count(), 1);
    }
}

#[tokio::test]
async fn a_writer_that_asks_the_store_before_every_effect_goes_on_as_long_as_it_is_the_one() {
    for store in [FaultStore::new(), FaultStore::without_fencing()] {
        let runs = Counter::default();
        let options = JournalOptions::default().with_confirm_after(Duration::ZERO);
        let journal = open_with(&store, &request(), options).await.unwrap();
        for value in 0..5 {
            counted(&journal, "next", value, &runs).await.unwrap();
        }
        journal.complete(&()).await.unwrap();
    }
}

#[tokio::test]
async fn e13_of_two_completions_the_first_stands_and_the_second_is_refused() {
    for store in [FaultStore::new(), FaultStore::without_fencing()] {
        let first = open(&store).await.unwrap();
        let second = open(&store).await.unwrap();
        let (winner, loser) = if store.kinds(&id("order-7")).await.len() == 1 {
            (second, first)
        } else {
            (first, second)
        };
        winner.complete(&"winner").await.unwrap();
        let error = loser.complete(&"loser").await.unwrap_err();
        assert!(matches!(error, JournalError::TakenOver { .. }), "{error:?}");
        let twice = winner.complete(&"again").await.unwrap_err();
        assert!(matches!(twice, JournalError::Finished { .. }), "{twice:?}");
        let kinds = store.kinds(&id("order-7")).await;
        assert_eq!(kinds, ["loom.started", "loom.completed"]);
    }
}

#[tokio::test]
async fn two_writers_that_race_effect_by_effect_leave_one_whole_log() {
    let store = FaultStore::without_fencing();
    let journals = [open(&store).await.unwrap(), open(&store).await.unwrap()];
    let work = |journal: loom_journal::ExecutionJournal| async move {
        for step in 0..10_u64 {
            let effect = journal.effect("step", move |_| async move {
                tokio::task::yield_now().await;
                Ok::<_, Infallible>(step)
            });
            effect.await?;
        }
        journal.complete(&()).await
    };
    let [first, second] = journals;
    let (first, second) = tokio::join!(work(first), work(second));
    assert_ne!(first.is_ok(), second.is_ok());
    assert_eq!(store.events(&id("order-7")).await.len(), 12);
}
