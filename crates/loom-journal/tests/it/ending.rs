//! How executions end.

use loom_journal::{JournalError, read_anchor, read_outcome};
use loom_spi::{Append, EventStore, ExecutionOutcome, Failure, Limits, NewEvent};
use loom_store_memory::MemoryStore;

use crate::support::{Counter, Fault, FaultStore, counted, id, open, request};

#[tokio::test]
async fn the_outcome_is_what_the_log_says_and_needs_no_journal() {
    let cases = [
        ExecutionOutcome::Completed {
            output: r#"{"ok":true}"#.into(),
        },
        ExecutionOutcome::Failed(Failure::error("no stock")),
        ExecutionOutcome::Failed(Failure::panicked("index out of bounds")),
        ExecutionOutcome::Cancelled {
            reason: "by the user".into(),
        },
    ];
    for expected in cases {
        let store = FaultStore::new();
        assert_eq!(read_outcome(&*store, &id("order-7")).await.unwrap(), None);
        let journal = open(&store).await.unwrap();
        assert_eq!(read_outcome(&*store, &id("order-7")).await.unwrap(), None);
        let written = match &expected {
            ExecutionOutcome::Completed { output } => {
                let output: serde_json::Value = serde_json::from_slice(output).unwrap();
                journal.complete(&output).await
            }
            ExecutionOutcome::Failed(failure) => journal.fail(failure.clone()).await,
            ExecutionOutcome::Cancelled { reason } => journal.cancel(reason).await,
            other => panic!("no case for {other:?}"),
        };
        assert_eq!(written.unwrap(), expected);
        assert_eq!(journal.outcome(), Some(&expected));
        let read = read_outcome(&*store, &id("order-7")).await.unwrap();
        assert_eq!(read.as_ref(), Some(&expected));
        // Opening it again writes nothing.
        let appends = store.appends.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(open(&store).await.unwrap().outcome(), Some(&expected));
        assert_eq!(
            store.appends.load(std::sync::atomic::Ordering::SeqCst),
            appends
        );
    }
}

#[tokio::test]
async fn nothing_follows_the_end() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    let journal = open(&store).await.unwrap();
    journal.complete(&1).await.unwrap();
    for journal in [journal, open(&store).await.unwrap()] {
        let errors = [
            counted(&journal, "more", 1, &runs).await.unwrap_err(),
            journal.complete(&2).await.unwrap_err(),
            journal.fail(Failure::error("no")).await.unwrap_err(),
            journal.cancel("no").await.unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, JournalError::Finished { .. }), "{error:?}");
        }
    }
    assert_eq!(runs.count(), 0);
    assert_eq!(store.events(&id("order-7")).await.len(), 2);
}

#[tokio::test]
async fn e16_an_output_over_the_limit_is_refused_at_once_and_the_flow_can_still_fail() {
    let limits = Limits::default().with_max_payload_bytes(300);
    let store = FaultStore::over(MemoryStore::builder().limits(limits).build(), true);
    let journal = open(&store).await.unwrap();
    let error = journal.complete(&"x".repeat(1000)).await.unwrap_err();
    assert!(
        matches!(error, JournalError::TooLarge { limit: 300, .. }),
        "{error:?}"
    );
    let outcome = journal
        .fail(Failure::error(format!("{error} {}", "é".repeat(500))))
        .await
        .unwrap();
    let ExecutionOutcome::Failed(failure) = outcome else {
        panic!("expected Failed, got {outcome:?}");
    };
    assert!(failure.message.ends_with('…'), "{}", failure.message);
}

#[tokio::test]
async fn cancelling_does_not_ask_whether_the_flow_got_as_far_as_before() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    counted(&open(&store).await.unwrap(), "charge", 1, &runs)
        .await
        .unwrap();
    let journal = open(&store).await.unwrap();
    journal.cancel("by the user").await.unwrap();
    assert_eq!(
        store.kinds(&id("order-7")).await.last().unwrap(),
        "loom.cancelled"
    );
}

#[tokio::test]
async fn an_end_survives_a_lost_reply() {
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Refuse] {
        let store = FaultStore::new();
        let journal = open(&store).await.unwrap();
        store.fail(0, fault);
        assert!(journal.complete(&1).await.unwrap().is_completed());
        assert_eq!(store.events(&id("order-7")).await.len(), 2);
    }
}

#[tokio::test]
async fn a_log_that_no_journal_ended_has_no_outcome_but_an_error() {
    let store = FaultStore::new();
    let event = NewEvent::new("permit.granted", "{}").terminal();
    store
        .append(Append::new(id("permit-1"), 0, vec![event]))
        .await
        .unwrap();
    let error = read_outcome(&*store, &id("permit-1")).await.unwrap_err();
    assert!(
        matches!(error, JournalError::NotAJournal { .. }),
        "{error:?}"
    );
    let error = read_anchor(&*store, &id("permit-1")).await.unwrap_err();
    assert!(
        matches!(error, JournalError::NotAJournal { sequence: 0, .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn the_anchor_can_be_read_without_a_journal() {
    let store = FaultStore::new();
    assert_eq!(read_anchor(&*store, &id("order-7")).await.unwrap(), None);
    open(&store).await.unwrap();
    let anchor = read_anchor(&*store, &id("order-7")).await.unwrap().unwrap();
    assert_eq!(anchor, loom_journal::Anchor::of(&request()).unwrap());
    assert_eq!(anchor.flow, "ship-order");
}
