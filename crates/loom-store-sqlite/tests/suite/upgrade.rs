//! Files of version 1 are brought up to date when they are opened.

use std::path::{Path, PathBuf};

use loom_spi::{
    Append, Branch, BranchRegistry, Children, DeploymentId, Event, EventStore, ExecutionId,
    FenceToken, Import, Imported, NewEvent, PlanEpoch, PlanFingerprint, Read, Relocation, Seal,
    ShardIdentity, StoreErrorKind, Timestamp,
};
use loom_store_sqlite::{Options, SCHEMA_VERSION, SqliteStore};
use rusqlite::Connection;

const VERSION_1: &str = include_str!("version_1.sql");

fn id(name: &str) -> ExecutionId {
    ExecutionId::new(name).unwrap()
}

fn plan() -> PlanEpoch {
    PlanEpoch::new(1, PlanFingerprint(7))
}

fn file_of_version_1() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shard.db");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "PRAGMA page_size = 4096; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL",
        )
        .unwrap();
    connection.execute_batch(VERSION_1).unwrap();
    (directory, path)
}

fn version(path: &Path) -> i32 {
    Connection::open(path)
        .unwrap()
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .unwrap()
}

fn tables(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let mut find = connection
        .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
        .unwrap();
    let found = find
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap()
        .map(Result::unwrap);
    found
        .map(|sql| sql.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

#[tokio::test]
async fn what_is_in_a_file_of_version_1_is_there_and_can_be_moved() {
    let (_directory, path) = file_of_version_1();
    let store = SqliteStore::open(&path, Options::new()).await.unwrap();
    assert_eq!(version(&path), SCHEMA_VERSION);

    let read = Read::new(id("order-4"), 0, 10).with_epoch(plan());
    let page = store.read(read).await.unwrap();
    let event = |sequence, kind: &str, payload: &'static str, at| {
        let at = Timestamp::from_millis(at);
        Event::from_new(sequence, NewEvent::new(kind, payload).recorded_at(at))
    };
    assert_eq!(
        page.events,
        [
            event(0, "placed", "{}", 1_700_000_000_000),
            event(1, "paid", "", 1_700_000_000_500)
        ]
    );
    let children = Children::new(id("order-4")).with_epoch(plan());
    let children = store.children(children).await.unwrap();
    assert_eq!(children, [Branch::new(id("branch"), "gift")]);

    let seal = Seal::new(id("order-4")).with_epoch(plan());
    let sealed = store.seal(seal).await.unwrap();
    assert_eq!(sealed.fence, Some(FenceToken(3)));
    assert_eq!(sealed.holder.as_deref(), Some("worker"));
    let append = Append::new(id("order-4"), 2, vec![NewEvent::new("shipped", "")]);
    let refused = store.append(append.with_epoch(plan())).await.unwrap_err();
    assert_eq!(refused.kind(), &StoreErrorKind::Sealed);

    let directory = tempfile::tempdir().unwrap();
    let other = SqliteStore::create(directory.path().join("other.db"), Options::new())
        .await
        .unwrap();
    let part = |range| {
        let events = page.events.get::<std::ops::Range<usize>>(range).unwrap();
        Import::new(id("order-4"), sealed.clone(), events.to_vec())
    };
    let next_sequence = 1;
    let answer = other.import(part(0..1)).await.unwrap();
    assert_eq!(answer, Imported::Staged { next_sequence });
    let answer = other.import(part(1..2)).await.unwrap();
    assert_eq!(answer, Imported::Visible);
}

#[tokio::test]
async fn an_upgraded_file_has_the_tables_of_a_new_one() {
    let (directory, path) = file_of_version_1();
    let store = SqliteStore::open(&path, Options::new()).await.unwrap();
    store.close().await.unwrap();
    let new = directory.path().join("new.db");
    let store = SqliteStore::create(&new, Options::new()).await.unwrap();
    store.close().await.unwrap();
    assert_eq!(tables(&path), tables(&new));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_open_a_file_of_version_1_at_once_all_get_it() {
    let (_directory, path) = file_of_version_1();
    let opened: Vec<_> = (0..8)
        .map(|_| tokio::spawn(SqliteStore::open(path.clone(), Options::new())))
        .collect();
    for opened in opened {
        let store = opened.await.unwrap().unwrap();
        let read = Read::new(id("order-4"), 0, 10).with_epoch(plan());
        assert_eq!(store.read(read).await.unwrap().events.len(), 2);
    }
}

#[tokio::test]
async fn a_file_of_another_shard_is_not_touched() {
    let (_directory, path) = file_of_version_1();
    let third = ShardIdentity::new(DeploymentId::new("orders").unwrap(), 3);
    let refused = SqliteStore::open(&path, Options::new().with_identity(third))
        .await
        .unwrap_err();
    assert!(
        matches!(refused.kind(), StoreErrorKind::WrongShard { .. }),
        "{refused}"
    );
    assert_eq!(version(&path), 1);
}
