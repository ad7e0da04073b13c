//! What deleted logs were on is given back, in small steps, and nothing else goes.

use std::time::Duration;

use loom_spi::{Append, Delete, EventStore, ExecutionId, NewEvent, Read};
use loom_store_sqlite::{Options, SqliteStore, verify};
use rusqlite::Connection;

fn id(n: u32) -> ExecutionId {
    ExecutionId::new(format!("order-{n}")).unwrap()
}

#[tokio::test]
async fn a_file_becomes_shorter_page_by_page_after_logs_were_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shard.db");
    let store = SqliteStore::create(&path, Options::new()).await.unwrap();
    // In turn, so that what stays and what goes is on the same pages and on the last ones.
    for sequence in 0..30 {
        for n in 0..40 {
            let event = NewEvent::new("step", vec![7; 900]);
            let append = Append::new(id(n), sequence, vec![event]);
            store.append(append).await.unwrap();
        }
    }
    store.close().await.unwrap();
    let before = path.metadata().unwrap().len();

    let store = SqliteStore::open(&path, Options::new()).await.unwrap();
    let unchanged = store.release_space(64).await.unwrap();
    assert_eq!((unchanged.released, unchanged.free), (0, 0));
    assert!(!unchanged.reclaiming);
    for n in 0..36 {
        store.delete(Delete::new(id(n))).await.unwrap();
    }
    let mut steps = 0;
    let last = loop {
        let space = store.release_space(16).await.unwrap();
        // With what SQLite needs to find its way among the pages.
        assert!(space.released <= 17, "{space:?}");
        steps += 1;
        if space.free == 0 && !space.reclaiming {
            break space;
        }
        assert!(space.released > 0 || space.reclaiming, "{space:?}");
    };
    assert!(steps > 10);
    assert!(
        last.pages < unchanged.pages / 4,
        "{last:?} of {unchanged:?}"
    );
    store.close().await.unwrap();
    let after = path.metadata().unwrap().len();
    assert_eq!(after, last.pages * last.page_size);
    assert!(after < before / 4, "{before} {after}");

    let verified = verify(&path).unwrap();
    assert_eq!(verified.problems, Vec::<String>::new());
    assert_eq!((verified.executions, verified.events), (4, 120));
    let store = SqliteStore::open(&path, Options::new()).await.unwrap();
    let page = store.read(Read::new(id(39), 0, 100)).await.unwrap();
    assert_eq!(page.events.len(), 30);
    let append = Append::new(id(39), 30, vec![NewEvent::new("step", "")]);
    store.append(append).await.unwrap();
}

#[tokio::test]
async fn a_store_that_nobody_writes_to_gives_space_back_by_itself_and_keeps_some() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shard.db");
    let options = Options::new().with_idle_vacuum(Duration::from_millis(1));
    let store = SqliteStore::create(&path, options).await.unwrap();
    for n in 0..40 {
        let append = Append::new(id(n), 0, vec![NewEvent::new("step", vec![7; 900]); 30]);
        store.append(append).await.unwrap();
    }
    let looker = Connection::open(&path).unwrap();
    let pragma = |name: &str| -> i64 {
        let sql = format!("PRAGMA {name}");
        looker.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    let before = pragma("page_count");
    for n in 0..36 {
        store.delete(Delete::new(id(n))).await.unwrap();
    }
    // It is the thread of the store that gets there; a test that waits forever is ended from outside.
    while pragma("page_count") > before / 4 || pragma("freelist_count") > before / 16 {
        tokio::task::yield_now().await;
    }
    let page = store.read(Read::new(id(39), 0, 100)).await.unwrap();
    assert_eq!(page.events.len(), 30);
    store.close().await.unwrap();
    assert_eq!(verify(&path).unwrap().problems, Vec::<String>::new());
}

#[tokio::test]
async fn what_a_deleted_log_was_on_is_removed_by_the_store_itself_whether_others_write_or_not() {
    for others_write in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shard.db");
        let options = Options::new().with_idle_vacuum(None);
        let store = SqliteStore::create(&path, options).await.unwrap();
        let append = Append::new(id(0), 0, vec![NewEvent::new("step", "payload"); 600]);
        store.append(append).await.unwrap();
        let looker = Connection::open(&path).unwrap();
        let left = |table: &str| -> i64 {
            let sql = format!("SELECT count(*) FROM {table}");
            looker.query_row(&sql, [], |row| row.get(0)).unwrap()
        };
        assert_eq!((left("garbage"), left("events")), (0, 600));
        store.delete(Delete::new(id(0))).await.unwrap();
        let mut written = 0;
        // Nothing asks for it; a test that waits forever is ended from outside.
        while left("garbage") > 0 {
            if others_write {
                let append = Append::new(id(1), written, vec![NewEvent::new("step", "")]);
                store.append(append).await.unwrap();
                written += 1;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(left("events"), i64::try_from(written).unwrap());
    }
}

#[tokio::test]
async fn a_store_that_was_told_not_to_gives_back_nothing_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shard.db");
    let options = Options::new().with_idle_vacuum(None);
    let store = SqliteStore::create(&path, options).await.unwrap();
    let append = Append::new(id(0), 0, vec![NewEvent::new("step", vec![7; 900]); 100]);
    store.append(append).await.unwrap();
    store.delete(Delete::new(id(0))).await.unwrap();
    // One page a call, until all events are reclaimed: everything else that becomes free stays.
    let mut space = store.release_space(1).await.unwrap();
    while space.reclaiming {
        space = store.release_space(1).await.unwrap();
    }
    assert!(space.free > 10, "{space:?}");
    store.close().await.unwrap();
}
