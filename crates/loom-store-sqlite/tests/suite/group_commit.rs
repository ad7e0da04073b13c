//! Appends that are committed together stay apart from each other.
//!
//! To have a group build up, another connection holds the write lock: the writer waits for it, while the appends
//! that were polled once stand in its queue.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::poll;
use loom_spi::{
    AcquireFence, Append, Appended, EventStore, ExecutionId, FenceToken, Fencing, Head, NewEvent,
    Read, Retry, StoreError, StoreErrorKind,
};
use loom_store_sqlite::{Options, SqliteStore};
use rusqlite::Connection;

type Pending<'a> = Pin<Box<dyn Future<Output = Result<Appended, StoreError>> + Send + 'a>>;

fn id(name: &str) -> ExecutionId {
    ExecutionId::new(name).unwrap()
}

fn event() -> NewEvent {
    NewEvent::new("step", "payload")
}

fn append(name: &str, expected: u64) -> Append {
    Append::new(id(name), expected, vec![event()])
}

async fn store(options: Options) -> (tempfile::TempDir, PathBuf, SqliteStore) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shard.db");
    let store = SqliteStore::create(&path, options).await.unwrap();
    (directory, path, store)
}

/// Holds the write lock.
fn block(path: &PathBuf) -> Connection {
    let other = Connection::open(path).unwrap();
    other.busy_timeout(Duration::from_secs(5)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    other
}

/// Puts an append into the writer's queue.
async fn queue(store: &SqliteStore, request: Append) -> Pending<'_> {
    let mut pending: Pending<'_> = Box::pin(async move { store.append(request).await });
    assert!(poll!(&mut pending).is_pending());
    pending
}

#[tokio::test]
async fn one_refused_append_of_a_group_fails_alone() {
    let (_directory, path, store) = store(Options::new()).await;
    store.append(append("long", 0)).await.unwrap();
    store
        .append(Append::new(id("closed"), 0, vec![event().terminal()]))
        .await
        .unwrap();
    store
        .acquire_fence(AcquireFence::new(id("fenced")))
        .await
        .unwrap();

    let lock = block(&path);
    let mut good = Vec::new();
    let mut bad = Vec::new();
    for n in 0..20 {
        good.push(queue(&store, append(&format!("good-{n}"), 0)).await);
        bad.push(queue(&store, append("long", 7)).await);
        bad.push(queue(&store, append("closed", 1)).await);
        bad.push(queue(&store, append("fenced", 0)).await);
        bad.push(queue(&store, Append::new(id("empty"), 0, vec![])).await);
    }
    drop(lock);

    for pending in good {
        assert_eq!(pending.await.unwrap().next_sequence, 1);
    }
    for (n, pending) in bad.into_iter().enumerate() {
        let error = pending.await.unwrap_err();
        let expected = [
            StoreErrorKind::SequenceConflict {
                expected: 7,
                actual: 1,
            },
            StoreErrorKind::Closed { next_sequence: 1 },
            StoreErrorKind::Fenced {
                presented: None,
                current: FenceToken(1),
            },
        ];
        match expected.get(n % 4) {
            Some(kind) => assert_eq!(error.kind(), kind),
            None => assert!(matches!(
                error.kind(),
                StoreErrorKind::InvalidArgument { .. }
            )),
        }
    }
    assert_eq!(store.head(Head::new(id("empty"))).await.unwrap(), None);
}

#[tokio::test]
async fn one_append_of_a_group_that_sqlite_refuses_fails_alone_and_whole() {
    let (_directory, path, store) = store(Options::new()).await;
    store.append(append("damaged", 0)).await.unwrap();
    // A stray event where the third of the next append belongs.
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "INSERT INTO events (log, seq, terminal, recorded_at, kind, payload)
             SELECT log, 3, 0, 0, 'stray', x'' FROM records WHERE id = 'damaged'",
        )
        .unwrap();

    let lock = block(&path);
    let first = queue(&store, append("before", 0)).await;
    let three = vec![event(), event(), event()];
    let damaged = queue(&store, Append::new(id("damaged"), 1, three)).await;
    let second = queue(&store, append("after", 0)).await;
    let third = queue(&store, append("after", 1)).await;
    drop(lock);

    let error = damaged.await.unwrap_err();
    assert!(
        matches!(error.kind(), StoreErrorKind::Corrupt { .. }),
        "{error}"
    );
    assert_eq!(error.execution(), Some(&id("damaged")));
    for (pending, next) in [(first, 1), (second, 1), (third, 2)] {
        assert_eq!(pending.await.unwrap().next_sequence, next);
    }
    let page = store.read(Read::new(id("damaged"), 0, 10)).await.unwrap();
    assert_eq!((page.head.next_sequence, page.events.len()), (1, 1));
    let stored =
        "SELECT group_concat(seq) FROM events JOIN records USING (log) WHERE id = 'damaged'";
    let stored: String = Connection::open(&path)
        .unwrap()
        .query_row(stored, [], |row| row.get(0))
        .unwrap();
    assert_eq!(stored, "0,3");
    assert_eq!(
        store
            .append(append("after", 2))
            .await
            .unwrap()
            .next_sequence,
        3
    );
}

#[tokio::test]
async fn appends_of_one_execution_in_one_group_follow_each_other() {
    let (_directory, path, store) = store(Options::new()).await;
    let lock = block(&path);
    let mut pending = Vec::new();
    for expected in 0..50 {
        pending.push(queue(&store, append("order-7", expected)).await);
    }
    let loser = queue(&store, append("order-7", 49)).await;
    drop(lock);
    for (append, next) in pending.into_iter().zip(1..) {
        assert_eq!(append.await.unwrap().next_sequence, next);
    }
    let lost = StoreErrorKind::SequenceConflict {
        expected: 49,
        actual: 50,
    };
    assert_eq!(loser.await.unwrap_err().kind(), &lost);
}

#[tokio::test]
async fn a_caller_that_is_gone_holds_up_nobody_and_leaves_all_or_nothing() {
    let (_directory, path, store) = store(Options::new()).await;
    let lock = block(&path);
    let mut kept = Vec::new();
    for n in 0..20 {
        let two = Append::new(id(&format!("gone-{n}")), 0, vec![event(), event()]);
        drop(queue(&store, two).await);
        kept.push(queue(&store, append(&format!("kept-{n}"), 0)).await);
    }
    drop(lock);
    for pending in kept {
        pending.await.unwrap();
    }
    for n in 0..20 {
        let head = store
            .head(Head::new(id(&format!("gone-{n}"))))
            .await
            .unwrap();
        assert!(head.is_none_or(|head| head.next_sequence == 2), "{head:?}");
    }
}

#[tokio::test]
async fn a_full_queue_holds_callers_back_and_loses_none() {
    let (_directory, path, store) = store(Options::new().with_queue(2)).await;
    let lock = block(&path);
    let mut pending = Vec::new();
    for n in 0..40 {
        pending.push(queue(&store, append(&format!("order-{n}"), 0)).await);
    }
    drop(lock);
    // All at once: one that still waits for its place is polled as well.
    for appended in futures_util::future::join_all(pending).await {
        appended.unwrap();
    }
}

#[tokio::test]
async fn a_lock_that_is_held_for_too_long_is_an_error_of_known_outcome() {
    let options = Options::new().with_busy_timeout(Duration::from_millis(20));
    let (_directory, path, store) = store(options).await;
    let lock = block(&path);
    let mut pending = Vec::new();
    for n in 0..10 {
        pending.push(queue(&store, append(&format!("order-{n}"), 0)).await);
    }
    for append in pending {
        let error = append.await.unwrap_err();
        assert_eq!(error.retry(), Retry::Safe);
        assert!(error.to_string().contains("locked"), "{error}");
        assert!(error.to_string().contains("nothing was changed"), "{error}");
    }
    // Readers do not wait for writers.
    assert_eq!(store.head(Head::new(id("order-0"))).await.unwrap(), None);
    drop(lock);
    for n in 0..10 {
        store
            .append(append(&format!("order-{n}"), 0))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn closing_finishes_what_was_asked_for_and_refuses_the_rest() {
    let (_directory, path, store) = store(Options::new()).await;
    let store = Arc::new(store);
    let lock = block(&path);
    let mut pending = Vec::new();
    for n in 0..20 {
        pending.push(queue(&store, append(&format!("order-{n}"), 0)).await);
    }
    let mut closing = Box::pin(store.close());
    // The readers end first, on threads of their own.
    while store.head(Head::new(id("order-0"))).await.is_ok() {
        assert!(poll!(&mut closing).is_pending());
    }
    drop(lock);
    closing.await.unwrap();
    for append in pending {
        assert_eq!(append.await.unwrap().next_sequence, 1);
    }
    let error = store.append(append("late", 0)).await.unwrap_err();
    assert_eq!(error.retry(), Retry::Safe);
    assert!(error.to_string().contains("closed"), "{error}");
    store.close().await.unwrap();

    let store = SqliteStore::open(&path, Options::new()).await.unwrap();
    for n in 0..20 {
        assert!(
            store
                .head(Head::new(id(&format!("order-{n}"))))
                .await
                .unwrap()
                .is_some()
        );
    }
    assert_eq!(store.head(Head::new(id("late"))).await.unwrap(), None);
}

#[tokio::test]
async fn when_the_writer_thread_dies_nobody_waits_for_ever() {
    let clock = || panic!("the clock stopped");
    let (_directory, path, store) = store(Options::new().with_clock(clock)).await;
    store.append(append("order-7", 0)).await.unwrap();

    let lock = block(&path);
    let mut acquisition = Box::pin(store.acquire_fence(AcquireFence::new(id("order-7"))));
    assert!(poll!(&mut acquisition).is_pending());
    let waiting = queue(&store, append("order-8", 0)).await;
    drop(lock);
    assert_eq!(
        acquisition.await.unwrap_err().retry(),
        Retry::OutcomeUnknown
    );
    assert!(matches!(
        waiting.await.unwrap_err().kind(),
        StoreErrorKind::Unavailable { .. }
    ));
    let error = store.append(append("order-7", 1)).await.unwrap_err();
    assert!(
        matches!(error.kind(), StoreErrorKind::Unavailable { .. }),
        "{error}"
    );
    // What it was doing is rolled back, and the file is free.
    let store = SqliteStore::open(&path, Options::new()).await.unwrap();
    assert_eq!(
        store
            .append(append("order-7", 1))
            .await
            .unwrap()
            .next_sequence,
        2
    );
}
