//! Appends whose reply is lost, and requests that arrive late.

use std::convert::Infallible;
use std::sync::atomic::Ordering;

use loom_journal::JournalError;
use loom_spi::{Append, EventStore, Failure, NewEvent};

use crate::support::{Counter, Fault, FaultStore, counted, id, open};

#[tokio::test]
async fn a_lost_reply_is_found_in_the_tail_and_nothing_is_written_twice() {
    for store in [FaultStore::new(), FaultStore::without_fencing()] {
        let runs = Counter::default();
        let journal = open(&store).await.unwrap();
        store.fail(0, Fault::LoseReply);
        assert_eq!(counted(&journal, "charge", 42, &runs).await.unwrap(), 42);
        counted(&journal, "ship", 1, &runs).await.unwrap();
        assert_eq!(runs.count(), 2);
        assert_eq!(store.events(&id("order-7")).await.len(), 3);
    }
}

#[tokio::test]
async fn an_effect_dropped_while_its_record_was_on_the_way_leaves_a_usable_journal() {
    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        let (store, runs) = (FaultStore::new(), Counter::default());
        let journal = open(&store).await.unwrap();
        store.fail(0, fault);
        tokio::select! {
            biased;
            result = counted(&journal, "charge", 42, &runs) => panic!("it hangs: {result:?}"),
            () = store.crashed.notified() => {}
        }
        counted(&journal, "ship", 1, &runs).await.unwrap();
        journal.complete(&()).await.unwrap();
        let length = if fault == Fault::CrashAfter { 4 } else { 3 };
        assert_eq!(store.events(&id("order-7")).await.len(), length);
    }
}

#[tokio::test]
async fn a_request_that_arrives_after_its_repetition_changes_nothing() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    let journal = open(&store).await.unwrap();
    store.fail(0, Fault::Delay);
    counted(&journal, "charge", 42, &runs).await.unwrap();
    assert_eq!(store.deliver().await, 0);
    journal.complete(&()).await.unwrap();
    assert_eq!(store.events(&id("order-7")).await.len(), 3);
}

#[tokio::test]
async fn a_request_that_arrives_between_the_look_at_the_tail_and_the_next_append_counts_as_ours() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    let journal = open(&store).await.unwrap();
    // The record of `lost` is delayed, and each repetition of it lost, until the store counts as gone.
    store.fail(0, Fault::Delay);
    store.fail(1, Fault::CrashBefore);
    tokio::select! {
        biased;
        result = counted(&journal, "lost", 1, &runs) => panic!("it hangs: {result:?}"),
        () = store.crashed.notified() => {}
    }
    let next = counted(&journal, "next", 2, &runs);
    assert_eq!(store.deliver().await, 1);
    assert_eq!(next.await.unwrap(), 2);
    journal.complete(&()).await.unwrap();
    assert_eq!(store.events(&id("order-7")).await.len(), 4);

    // And it replays.
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
async fn an_end_whose_reply_was_lost_is_not_written_again_nor_contradicted() {
    let store = FaultStore::new();
    let journal = open(&store).await.unwrap();
    store.fail(0, Fault::CrashAfter);
    tokio::select! {
        biased;
        result = journal.complete(&7) => panic!("it hangs: {result:?}"),
        () = store.crashed.notified() => {}
    }
    let second = journal.fail(Failure::error("too late")).await;
    assert!(
        matches!(second, Err(JournalError::Finished { .. })),
        "{second:?}"
    );
    assert!(
        journal
            .outcome()
            .is_some_and(loom_spi::ExecutionOutcome::is_completed)
    );
    assert_eq!(
        store.kinds(&id("order-7")).await,
        ["loom.started", "loom.completed"]
    );
}

#[tokio::test]
async fn an_event_of_somebody_else_at_our_place_is_a_takeover_not_our_lost_reply() {
    let (store, runs) = (FaultStore::without_fencing(), Counter::default());
    let journal = open(&store).await.unwrap();
    let rival = open(&store).await.unwrap();
    // The rival records the very same effect first.
    counted(&rival, "charge", 42, &runs).await.unwrap();
    let error = counted(&journal, "charge", 42, &runs).await.unwrap_err();
    assert!(
        matches!(
            error,
            JournalError::TakenOver {
                sequence: Some(1),
                ..
            }
        ),
        "{error:?}"
    );
    let before = store.appends.load(Ordering::SeqCst);
    assert!(counted(&journal, "ship", 1, &runs).await.is_err());
    assert!(journal.complete(&()).await.is_err());
    assert_eq!(
        store.appends.load(Ordering::SeqCst),
        before,
        "nothing more is sent"
    );
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn an_event_that_no_journal_wrote_at_our_place_is_a_takeover() {
    let (store, runs) = (FaultStore::without_fencing(), Counter::default());
    let journal = open(&store).await.unwrap();
    let foreign = vec![NewEvent::new("order.noted", "")];
    store
        .append(Append::new(id("order-7"), 1, foreign))
        .await
        .unwrap();
    let error = counted(&journal, "charge", 42, &runs).await.unwrap_err();
    assert!(matches!(error, JournalError::TakenOver { .. }), "{error:?}");
    assert!(error.halts());
}

#[tokio::test]
async fn two_replies_lost_at_once_are_both_found() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    let journal = open(&store).await.unwrap();
    store.fail(0, Fault::LoseReply);
    store.fail(1, Fault::LoseReply);
    let (a, b) = tokio::join!(
        counted(&journal, "a", 1, &runs),
        counted(&journal, "b", 2, &runs),
    );
    assert_eq!((a.unwrap(), b.unwrap()), (1, 2));
    assert_eq!(store.events(&id("order-7")).await.len(), 3);
    let scope = journal.scope("s");
    let effect = scope.effect("c", |_| async { Ok::<u8, Infallible>(3) });
    assert_eq!(effect.await.unwrap(), 3);
}
