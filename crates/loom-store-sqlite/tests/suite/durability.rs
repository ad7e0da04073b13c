//! What was acknowledged is there after the store was closed, dropped and opened again.

use loom_spi::{Append, EventStore, ExecutionId, Head, NewEvent, Read};
use loom_store_sqlite::{Options, SqliteStore};

#[tokio::test]
async fn a_log_is_the_same_after_the_store_is_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shard.db");
    let id = ExecutionId::new("order-7").unwrap();
    let store = SqliteStore::create(&path, Options::new()).await.unwrap();
    let events = vec![NewEvent::new("a", "1"), NewEvent::new("b", "2").terminal()];
    store
        .append(Append::new(id.clone(), 0, events))
        .await
        .unwrap();
    let before = store.read(Read::new(id.clone(), 0, 10)).await.unwrap();
    store.close().await.unwrap();
    assert!(store.head(Head::new(id.clone())).await.is_err());

    let store = SqliteStore::open(&path, Options::new()).await.unwrap();
    let after = store.read(Read::new(id, 0, 10)).await.unwrap();
    assert_eq!(before, after);
    assert_eq!(after.events.len(), 2);
}
