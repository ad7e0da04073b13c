//! What stands in the file, and what is made of it when it says something unusual.

use std::fs::OpenOptions;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use futures_util::TryStreamExt as _;
use loom_spi::{
    AcquireFence, Append, BranchRegistry, Children, Delete, EventStore, EventStoreExt as _,
    ExecutionId, Fencing, Forget, Head, NewEvent, PlanEpoch, PlanFingerprint, PlanLedger, Publish,
    PublishedPlan, Read, RecordLineage, StoreErrorKind,
};
use loom_store_sqlite::{Options, SqliteStore};
use rusqlite::Connection;

fn id(name: &str) -> ExecutionId {
    ExecutionId::new(name).unwrap()
}

fn append(name: &str, expected: u64) -> Append {
    Append::new(id(name), expected, vec![NewEvent::new("step", "")])
}

async fn store() -> (tempfile::TempDir, PathBuf, SqliteStore) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shard.db");
    let store = SqliteStore::create(&path, Options::new()).await.unwrap();
    (directory, path, store)
}

fn execute(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

fn names(path: &Path, sql: &str) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let mut query = connection.prepare(sql).unwrap();
    let names = query.query_map([], |row| row.get(0)).unwrap();
    names.map(Result::unwrap).collect()
}

#[tokio::test]
async fn nothing_of_a_sealed_record_can_change() {
    let (_directory, path, store) = store().await;
    store.append(append("moving", 0)).await.unwrap();
    let lineage = RecordLineage::new(id("moving"), id("branch"), "a".into());
    store.record_lineage(lineage.clone()).await.unwrap();
    execute(&path, "UPDATE records SET sealed = 1");

    let refused = [
        store.append(append("moving", 1)).await.map(drop),
        store.delete(Delete::new(id("moving"))).await.map(drop),
        store
            .acquire_fence(AcquireFence::new(id("moving")))
            .await
            .map(drop),
        store.record_lineage(lineage).await,
        store.forget(Forget::new(id("moving"))).await.map(drop),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().kind(), &StoreErrorKind::Sealed);
    }
    let head = store.head(Head::new(id("moving"))).await.unwrap().unwrap();
    assert!(head.sealed);
    let page = store.read(Read::new(id("moving"), 0, 10)).await.unwrap();
    assert!(page.head.sealed);
    assert_eq!(page.events.len(), 1);

    execute(&path, "UPDATE records SET sealed = 0");
    store.append(append("moving", 1)).await.unwrap();
}

#[tokio::test]
async fn a_deletion_that_asks_for_it_is_noted_until_the_next_plan() {
    let (_directory, path, store) = store().await;
    let plan = |epoch: u64| PlanEpoch::new(epoch, PlanFingerprint(epoch.into()));
    let publish = |epoch| {
        Publish::new(
            PublishedPlan::new(plan(epoch), "plan"),
            (epoch > 1).then(|| plan(epoch - 1)),
        )
    };
    let noted = "SELECT id FROM deletions ORDER BY id";

    store.append(append("before", 0)).await.unwrap();
    let delete = Delete::new(id("before")).with_mark(true);
    store.delete(delete).await.unwrap();
    assert_eq!(names(&path, noted), ["before"]);

    store.publish(publish(1)).await.unwrap();
    assert!(names(&path, noted).is_empty());
    let under = plan(1);
    for (name, mark) in [("a", true), ("b", true), ("a", true), ("unmarked", false)] {
        store.append(append(name, 0)).await.unwrap();
        let delete = Delete::new(id(name)).with_mark(mark).with_epoch(under);
        store.delete(delete).await.unwrap();
    }
    assert_eq!(names(&path, noted), ["a", "b"]);
    store.publish(publish(1)).await.unwrap();
    assert_eq!(names(&path, noted), ["a", "b"]);
    store.publish(publish(2)).await.unwrap();
    assert!(names(&path, noted).is_empty());
}

#[tokio::test]
async fn a_record_is_kept_as_long_as_any_part_of_it_exists() {
    let (_directory, path, store) = store().await;
    let kept = "SELECT id FROM records ORDER BY id";
    for name in ["fenced", "parent", "plain"] {
        store.append(append(name, 0)).await.unwrap();
    }
    store
        .acquire_fence(AcquireFence::new(id("fenced")))
        .await
        .unwrap();
    let lineage = RecordLineage::new(id("parent"), id("branch"), String::new());
    store.record_lineage(lineage).await.unwrap();
    for name in ["fenced", "parent", "plain"] {
        store.delete(Delete::new(id(name))).await.unwrap();
    }
    assert_eq!(names(&path, kept), ["fenced", "parent"]);
    assert_eq!(
        store
            .children(Children::new(id("parent")))
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(store.forget(Forget::new(id("parent"))).await.unwrap(), 1);
    assert_eq!(names(&path, kept), ["fenced"]);
}

#[tokio::test]
async fn a_gap_in_a_log_is_reported_and_not_read_over() {
    let (_directory, path, store) = store().await;
    for expected in 0..5 {
        store.append(append("order-7", expected)).await.unwrap();
    }
    execute(&path, "DELETE FROM events WHERE seq = 3");
    let error = store
        .read(Read::new(id("order-7"), 0, 10))
        .await
        .unwrap_err();
    assert!(
        matches!(error.kind(), StoreErrorKind::Corrupt { .. }),
        "{error}"
    );
    assert!(
        error.to_string().contains("sequence 3 is missing"),
        "{error}"
    );
    let page = store.read(Read::new(id("order-7"), 0, 3)).await.unwrap();
    assert_eq!(page.events.len(), 3);
}

#[tokio::test]
async fn a_log_that_has_lost_its_number_is_left_alone() {
    let (_directory, path, store) = store().await;
    store.append(append("order-7", 0)).await.unwrap();
    execute(&path, "UPDATE records SET log = NULL");
    let refused = [
        store.append(append("order-7", 1)).await.map(drop),
        store.read(Read::new(id("order-7"), 0, 10)).await.map(drop),
        store.head(Head::new(id("order-7"))).await.map(drop),
        store.delete(Delete::new(id("order-7"))).await.map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(
            matches!(error.kind(), StoreErrorKind::Corrupt { .. }),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_damaged_page_is_an_error_of_those_who_need_it() {
    let (_directory, path, store) = store().await;
    store.append(append("small", 0)).await.unwrap();
    for expected in 0..400 {
        // Small enough to stand whole on a page of the table, whose structure SQLite checks.
        let event = NewEvent::new("step", vec![7; 900]);
        store
            .append(Append::new(id("large"), expected, vec![event]))
            .await
            .unwrap();
    }
    store.close().await.unwrap();
    // From the middle of the file on there is nothing but events of the large log.
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(50 * 4096)).unwrap();
    file.write_all(&[0xff; 4 * 4096]).unwrap();

    let store = SqliteStore::open(&path, Options::new()).await.unwrap();
    let read: Result<Vec<_>, _> = store.read_all(&id("large"), 0).try_collect().await;
    let error = read.map(|events| events.len()).unwrap_err();
    assert!(
        matches!(error.kind(), StoreErrorKind::Corrupt { .. }),
        "{error}"
    );
    assert_eq!(error.execution(), Some(&id("large")));
    store.append(append("small", 1)).await.unwrap();
    let page = store.read(Read::new(id("small"), 0, 10)).await.unwrap();
    assert_eq!(page.events.len(), 2);
}
