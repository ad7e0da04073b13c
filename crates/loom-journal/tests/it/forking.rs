//! Forks: executions that begin where another one stood.

use loom_journal::{ExecutionJournal, JournalError, JournalOptions, fork};
use loom_spi::{Children, DispatchRequest, EventStore, Limits};
use loom_store_memory::MemoryStore;

use crate::support::{Counter, Fault, FaultStore, counted, id, open, open_with, request};

/// An execution that has done three things and is not done.
async fn original(store: &std::sync::Arc<FaultStore>) -> ExecutionJournal {
    let runs = Counter::default();
    let journal = open(store).await.unwrap();
    for (key, value) in [("first", 1), ("second", 2), ("third", 3)] {
        counted(&journal, key, value, &runs).await.unwrap();
    }
    journal
}

async fn fork_at(store: &FaultStore, at: u64, into: &str) -> Result<(), JournalError> {
    let registry = store.capabilities().branches.unwrap();
    fork(store, registry, &id("order-7"), at, &id(into))
        .await
        .map(drop)
}

async fn children(store: &FaultStore) -> Vec<(String, String)> {
    let registry = store.capabilities().branches.unwrap();
    let children = registry.children(Children::new(id("order-7"))).await;
    let children = children.unwrap().into_iter();
    children
        .map(|branch| (branch.child.to_string(), branch.label))
        .collect()
}

#[tokio::test]
async fn a_fork_replays_the_prefix_and_goes_its_own_way_from_there() {
    let store = FaultStore::new();
    let journal = original(&store).await;
    fork_at(&store, 3, "variant").await.unwrap();
    let label = ("variant".to_owned(), "fork at 3".to_owned());
    assert_eq!(children(&store).await, [label]);
    let [source, copy] = [
        store.events(&id("order-7")).await,
        store.events(&id("variant")).await,
    ];
    assert_eq!(copy, source[..3], "byte for byte, with the times");

    let mut variant = request();
    variant.id = id("variant");
    let variant = open_with(&store, &variant, JournalOptions::default())
        .await
        .unwrap();
    let runs = Counter::default();
    assert_eq!(counted(&variant, "first", 9, &runs).await.unwrap(), 1);
    assert_eq!(counted(&variant, "second", 9, &runs).await.unwrap(), 2);
    assert_eq!(runs.count(), 0);
    assert_eq!(counted(&variant, "instead", 9, &runs).await.unwrap(), 9);
    variant.complete(&"variant").await.unwrap();
    // The original knows nothing of it.
    journal.complete(&"original").await.unwrap();
    assert_eq!(store.events(&id("order-7")).await.len(), 5);
}

#[tokio::test]
async fn forking_again_changes_nothing_also_when_the_fork_has_gone_on() {
    let store = FaultStore::new();
    let _journal = original(&store).await;
    fork_at(&store, 2, "variant").await.unwrap();
    fork_at(&store, 2, "variant").await.unwrap();
    let mut variant = request();
    variant.id = id("variant");
    let journal = open_with(&store, &variant, JournalOptions::default())
        .await
        .unwrap();
    counted(&journal, "first", 1, &Counter::default())
        .await
        .unwrap();
    journal.complete(&()).await.unwrap();
    let events = store.events(&id("variant")).await;
    fork_at(&store, 2, "variant").await.unwrap();
    assert_eq!(store.events(&id("variant")).await, events);
    assert_eq!(children(&store).await.len(), 1);
}

#[tokio::test]
async fn a_fork_whose_reply_was_lost_is_there_once() {
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Refuse] {
        let store = FaultStore::new();
        let _journal = original(&store).await;
        store.fail(0, fault);
        let forked = fork_at(&store, 4, "variant").await;
        assert_eq!(forked.is_ok(), fault == Fault::LoseReply, "{fault:?}");
        fork_at(&store, 4, "variant").await.unwrap();
        assert_eq!(store.events(&id("variant")).await.len(), 4);
    }
}

#[tokio::test]
async fn what_is_no_prefix_or_no_place_for_one_is_refused_and_nothing_is_written() {
    let store = FaultStore::new();
    let journal = original(&store).await;
    let refused = |result: Result<(), JournalError>| match result {
        Err(JournalError::InvalidStart { reason, .. }) => reason,
        other => panic!("expected InvalidStart, got {other:?}"),
    };
    let reason = refused(fork_at(&store, 0, "variant").await);
    assert!(reason.contains("nothing in common"), "{reason}");
    let reason = refused(fork_at(&store, 5, "variant").await);
    assert!(reason.contains("has 4 events"), "{reason}");
    refused(fork_at(&store, 2, "order-7").await);
    journal.complete(&()).await.unwrap();
    let reason = refused(fork_at(&store, 5, "variant").await);
    assert!(reason.contains("the end of `order-7`"), "{reason}");
    let registry = store.capabilities().branches.unwrap();
    let absent = fork(&*store, registry, &id("nobody"), 1, &id("variant")).await;
    assert!(refused(absent.map(drop)).contains("has 0 events"));
    assert!(children(&store).await.is_empty());

    // An execution that began otherwise, and a branch of another one.
    fork_at(&store, 2, "taken").await.unwrap();
    let reason = refused(fork_at(&store, 3, "taken").await);
    assert!(!reason.is_empty());
    let other = DispatchRequest::new(id("other"), "ship-order");
    let other = open_with(&store, &other, JournalOptions::default()).await;
    other.unwrap();
    let reason = refused(fork_at(&store, 2, "other").await);
    assert!(reason.contains("does not begin with"), "{reason}");
}

#[tokio::test]
async fn a_prefix_that_the_store_does_not_take_at_once_is_refused() {
    let limits = Limits::default().with_max_append_events(3);
    let store = FaultStore::over(MemoryStore::builder().limits(limits).build(), true);
    let _journal = original(&store).await;
    let error = fork_at(&store, 4, "variant").await.unwrap_err();
    assert!(error.to_string().contains("over the limit of 3"), "{error}");
    assert!(children(&store).await.is_empty());
    fork_at(&store, 3, "variant").await.unwrap();
}
