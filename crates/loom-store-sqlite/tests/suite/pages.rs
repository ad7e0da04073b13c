//! Pages are bounded, and what is deleted gives its space back.

use std::path::{Path, PathBuf};

use futures_util::TryStreamExt as _;
use loom_spi::{
    Append, Delete, EventStore, EventStoreExt as _, ExecutionId, ExecutionState, List, NewEvent,
    Read,
};
use loom_store_sqlite::{Options, SqliteStore};
use rusqlite::Connection;

fn id(name: &str) -> ExecutionId {
    ExecutionId::new(name).unwrap()
}

async fn store() -> (tempfile::TempDir, PathBuf, SqliteStore) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shard.db");
    let store = SqliteStore::create(&path, Options::new()).await.unwrap();
    (directory, path, store)
}

#[tokio::test]
async fn a_store_whose_threads_do_all_reading_reads_the_same() {
    let (_directory, path, store) = store().await;
    let events = (0..300).map(|n| NewEvent::new("step", format!("step {n}")));
    let append = Append::new(id("order"), 0, events.collect());
    store.append(append).await.unwrap();
    let on_threads = Options::new().with_inline_reads(false);
    let on_threads = SqliteStore::open(&path, on_threads).await.unwrap();
    let head = loom_spi::Head::new(id("order"));
    assert_eq!(
        on_threads.head(head.clone()).await.unwrap(),
        store.head(head).await.unwrap()
    );
    // The first is short enough for the caller, the second is not.
    for limit in [256, 300] {
        let read = Read::new(id("order"), 0, limit);
        let page = store.read(read.clone()).await.unwrap();
        assert_eq!(page.events.len(), limit);
        assert_eq!(on_threads.read(read).await.unwrap(), page);
    }
}

fn count(path: &Path, table: &str) -> i64 {
    Connection::open(path)
        .unwrap()
        .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
            row.get(0)
        })
        .unwrap()
}

#[tokio::test]
async fn a_page_of_large_events_ends_at_4_mib_and_is_never_empty() {
    let (_directory, _path, store) = store().await;
    let megabyte = || NewEvent::new("file", vec![7; 1 << 20]);
    for expected in 0..9 {
        let append = Append::new(id("large"), expected, vec![megabyte()]);
        store.append(append).await.unwrap();
    }
    let page = store
        .read(Read::new(id("large"), 0, usize::MAX))
        .await
        .unwrap();
    assert_eq!((page.events.len(), page.head.next_sequence), (4, 9));
    let page = store
        .read(Read::new(id("large"), 8, usize::MAX))
        .await
        .unwrap();
    assert_eq!(page.events.len(), 1);
    let all: Vec<_> = store.read_all(&id("large"), 0).try_collect().await.unwrap();
    assert_eq!(all.len(), 9);
}

#[tokio::test]
async fn a_sequence_past_what_sql_can_count_is_an_empty_page() {
    let (_directory, _path, store) = store().await;
    let append = Append::new(id("order-7"), 0, vec![NewEvent::new("placed", "")]);
    store.append(append).await.unwrap();
    for from in [1, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX] {
        let page = store
            .read(Read::new(id("order-7"), from, 10))
            .await
            .unwrap();
        assert!(page.events.is_empty());
    }
}

#[tokio::test]
async fn a_list_whose_filter_few_match_goes_on_over_short_pages() {
    let (_directory, path, store) = store().await;
    // More rows than one page looks at, all of them open.
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 10001)
             INSERT INTO records (index_key, id, next_seq, closed, created_at, updated_at, branches, sealed)
             SELECT n, 'order-' || n, 1, 0, 0, 0, 0, 0 FROM n",
        )
        .unwrap();
    let closed = List::new(10).with_state(ExecutionState::Closed);
    let page = store.list(closed.clone()).await.unwrap();
    assert!(page.executions.is_empty());
    assert!(page.next.is_some());
    let page = store.list(List::new(usize::MAX)).await.unwrap();
    assert_eq!(page.executions.len(), 10_000);
}

#[tokio::test]
async fn the_events_of_a_deleted_log_are_removed_little_by_little() {
    let (_directory, path, store) = store().await;
    let events = vec![NewEvent::new("step", ""); 2_000];
    store
        .append(Append::new(id("long"), 0, events))
        .await
        .unwrap();
    store
        .append(Append::new(id("kept"), 0, vec![NewEvent::new("step", "")]))
        .await
        .unwrap();

    assert_eq!(
        store.delete(Delete::new(id("long"))).await.unwrap().events,
        2_000
    );
    assert_eq!(count(&path, "records"), 1);
    // A new log under the old name has nothing to do with what is left of the old one.
    store
        .append(Append::new(id("long"), 0, vec![NewEvent::new("anew", "")]))
        .await
        .unwrap();
    let page = store.read(Read::new(id("long"), 0, 10)).await.unwrap();
    assert_eq!((page.events.len(), &*page.events[0].kind), (1, "anew"));

    while store.release_space(1).await.unwrap().reclaiming {}
    assert_eq!((count(&path, "events"), count(&path, "garbage")), (2, 0));
}
