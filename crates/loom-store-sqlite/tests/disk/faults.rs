//! A disk that is full or fails: the error says so, nothing is lost, and the store is usable once the cause is gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loom_spi::{
    Append, EventStore, ExecutionId, Head, NewEvent, Operation, Read, StoreError, StoreErrorKind,
};
use loom_store_sqlite::{Options, SqliteStore};

use crate::disk::Disk;

struct Bench {
    folder: tempfile::TempDir,
    disk: Arc<Disk>,
    store: SqliteStore,
}

fn file(folder: &Path) -> PathBuf {
    folder.join("shard.db")
}

fn id() -> ExecutionId {
    ExecutionId::new("order-7").unwrap()
}

fn append(expected: u64) -> Append {
    let event = NewEvent::new("step", format!("{expected:>900}"));
    Append::new(id(), expected, vec![event; 3])
}

impl Bench {
    /// With a log of three events.
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path(), 0);
        let store = SqliteStore::create(file(folder.path()), Options::new())
            .await
            .unwrap();
        store.append(append(0)).await.unwrap();
        Self {
            folder,
            disk,
            store,
        }
    }

    async fn next(&self) -> u64 {
        let head = self.store.head(Head::new(id())).await.unwrap();
        head.unwrap().next_sequence
    }

    /// Appends until it fails, and returns the length acknowledged.
    async fn append_until_it_fails(&self) -> (u64, StoreError) {
        let mut next = self.next().await;
        loop {
            match self.store.append(append(next)).await {
                Ok(appended) => next = appended.next_sequence,
                Err(error) => return (next, error),
            }
        }
    }

    /// Expects that everything is there, now and after a loss of power, and that the store can be used.
    async fn expect_usable(self, acknowledged: u64) {
        let next = self.next().await;
        assert!(next >= acknowledged, "{next} of {acknowledged}");
        self.store.append(append(next)).await.unwrap();
        self.disk.cut_power_now(0.0);
        drop(self.store.close().await);
        let left = tempfile::tempdir().unwrap();
        assert!(self.disk.write_what_is_left(left.path()));
        assert_eq!(logged(left.path()).await, next + 3);
        drop(self.folder);
    }
}

/// How many events there are in the file of a folder, each of which is read.
async fn logged(folder: &Path) -> u64 {
    let store = SqliteStore::open(file(folder), Options::new())
        .await
        .unwrap();
    let mut seen = 0;
    if store.head(Head::new(id())).await.unwrap().is_some() {
        loop {
            let page = store.read(Read::new(id(), seen, 100)).await.unwrap();
            if page.events.is_empty() {
                break;
            }
            for event in page.events {
                let expected = format!("{:>900}", seen - seen % 3);
                assert_eq!(event.payload, expected.as_bytes());
                seen += 1;
            }
        }
    }
    store.append(append(seen)).await.unwrap();
    store.close().await.unwrap();
    seen
}

fn outcome_known(error: &StoreError) -> bool {
    match error.kind() {
        StoreErrorKind::Unavailable { outcome_known, .. } => *outcome_known,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_full_disk_is_named_and_nothing_of_what_it_refused_is_there() {
    let bench = Bench::new().await;
    bench.disk.set_room(Some(bench.disk.longest() + 100_000));
    let (acknowledged, error) = bench.append_until_it_fails().await;
    assert!(error.to_string().contains("the disk is full"), "{error}");
    assert!(outcome_known(&error));
    assert_eq!(bench.next().await, acknowledged);
    // It is not only the first who is told.
    let again = bench.store.append(append(acknowledged)).await.unwrap_err();
    assert!(again.to_string().contains("the disk is full"), "{again}");
    let page = bench.store.read(Read::new(id(), 0, 3)).await.unwrap();
    assert_eq!(page.events.len(), 3);

    bench.disk.set_room(None);
    bench.expect_usable(acknowledged).await;
}

#[tokio::test]
async fn a_store_is_opened_on_a_full_disk_and_its_logs_are_read() {
    let bench = Bench::new().await;
    bench.disk.set_room(Some(bench.disk.longest()));
    let (acknowledged, _) = bench.append_until_it_fails().await;
    let other = SqliteStore::open(file(bench.folder.path()), Options::new()).await;
    let other = other.unwrap();
    let head = other.head(Head::new(id())).await.unwrap().unwrap();
    assert_eq!(head.next_sequence, acknowledged);
    let error = other.append(append(acknowledged)).await.unwrap_err();
    assert!(error.to_string().contains("the disk is full"), "{error}");
    drop(other.close().await);
    bench.disk.set_room(None);
    bench.expect_usable(acknowledged).await;
}

#[tokio::test]
async fn a_creation_that_finds_no_room_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::new(folder.path(), 0);
    for room in [0, 4096, 20_000] {
        disk.set_room(Some(room));
        let error = SqliteStore::create(file(folder.path()), Options::new())
            .await
            .unwrap_err();
        assert_eq!(error.operation(), Operation::Open);
        assert!(outcome_known(&error), "{error}");
        assert!(error.to_string().contains("full"), "{error}");
    }
    disk.set_room(None);
    let store = SqliteStore::create(file(folder.path()), Options::new())
        .await
        .unwrap();
    store.append(append(0)).await.unwrap();
}

#[tokio::test]
async fn of_a_failed_sync_nobody_says_what_came_of_it() {
    let bench = Bench::new().await;
    bench.disk.set_sync_failures(Some(1));
    let (acknowledged, error) = bench.append_until_it_fails().await;
    assert!(!outcome_known(&error), "{error}");
    assert_eq!(acknowledged, 3);
    bench.disk.set_sync_failures(None);
    bench.expect_usable(acknowledged).await;
}

#[tokio::test]
async fn a_read_that_fails_is_no_absence_and_no_damage() {
    let bench = Bench::new().await;
    // Nothing of it is in anybody's memory then.
    let path = file(bench.folder.path());
    let other = SqliteStore::open(&path, Options::new()).await.unwrap();
    bench.disk.set_reads_fail(true);
    let error = other.head(Head::new(id())).await.unwrap_err();
    assert!(outcome_known(&error), "{error}");
    let error = SqliteStore::open(&path, Options::new()).await.unwrap_err();
    assert!(outcome_known(&error), "{error}");
    bench.disk.set_reads_fail(false);
    assert!(other.head(Head::new(id())).await.unwrap().is_some());
    drop(other.close().await);
    bench.expect_usable(3).await;
}

/// The log in front of the file, cut off or damaged anywhere, is the shorter one that it was at some moment.
#[tokio::test]
async fn of_a_truncated_write_ahead_log_the_whole_commits_are_there() {
    let bench = Bench::new().await;
    let mut next = 3;
    for _ in 0..20 {
        next = bench
            .store
            .append(append(next))
            .await
            .unwrap()
            .next_sequence;
    }
    bench.disk.cut_power_now(1.0);
    drop(bench.store.close().await);
    let whole = tempfile::tempdir().unwrap();
    bench.disk.write_what_is_left(whole.path());
    let log = fs::read(whole.path().join("shard.db-wal")).unwrap();

    let mut found = Vec::new();
    for part in 0..=24 {
        for damaged in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            fs::copy(file(whole.path()), file(folder.path())).unwrap();
            let at = log.len() * part / 24;
            let mut log = log.clone();
            match log.get_mut(at) {
                Some(byte) if damaged => *byte ^= 1,
                _ => log.truncate(at),
            }
            fs::write(folder.path().join("shard.db-wal"), log).unwrap();
            // The tables are in it too, as nothing has moved them to the file yet.
            match SqliteStore::open(file(folder.path()), Options::new()).await {
                Ok(store) => {
                    store.close().await.unwrap();
                    found.push(logged(folder.path()).await);
                }
                Err(error) => {
                    assert!(found.is_empty(), "{error}");
                    assert!(error.to_string().contains("never finished"), "{error}");
                }
            }
        }
    }
    assert!(found.is_sorted(), "{found:?}");
    assert!(found.iter().all(|events| events % 3 == 0), "{found:?}");
    assert_eq!(found.last(), Some(&next));
    assert!(found.len() > 30, "{found:?}");
}
