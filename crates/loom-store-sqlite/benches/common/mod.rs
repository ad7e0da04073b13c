//! What is measured, and what it is measured against.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use loom_spi::{Append, EventStore, ExecutionId, NewEvent};
use loom_store_sqlite::{Options, SqliteStore};
use rusqlite::Connection;

/// How many events a log gets before the writer goes on with another.
const LOG: u64 = 100;

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap()
}

pub(crate) fn event() -> NewEvent {
    NewEvent::new("step.completed", vec![7; 256])
}

/// A store that is as it will be after a while: the write-ahead log has its size.
pub(crate) async fn fixture() -> (tempfile::TempDir, Arc<SqliteStore>) {
    // Beside the build's output: temporary directories may be in memory.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("shard.db");
    let store = Arc::new(SqliteStore::create(&path, Options::new()).await.unwrap());
    Writers::new(&store, 64).append(400).await;
    (directory, store)
}

pub(crate) async fn log_of_100(store: &SqliteStore) -> ExecutionId {
    let id = ExecutionId::generate();
    let append = Append::new(id.clone(), 0, vec![event(); 100]);
    store.append(append).await.unwrap();
    id
}

/// Some writers, each of which appends one event at a time and waits for it.
pub(crate) struct Writers {
    store: Arc<SqliteStore>,
    logs: Vec<(ExecutionId, u64)>,
}

impl Writers {
    pub(crate) fn new(store: &Arc<SqliteStore>, writers: usize) -> Self {
        let logs = (0..writers).map(|_| (ExecutionId::generate(), 0)).collect();
        Self {
            store: Arc::clone(store),
            logs,
        }
    }

    /// Has each writer append `rounds` events.
    pub(crate) async fn append(&mut self, rounds: u64) -> Duration {
        let started = Instant::now();
        let writers: Vec<_> = self
            .logs
            .drain(..)
            .map(|(mut id, mut next)| {
                let store = Arc::clone(&self.store);
                tokio::spawn(async move {
                    for _ in 0..rounds {
                        if next == LOG {
                            (id, next) = (ExecutionId::generate(), 0);
                        }
                        let append = Append::new(id.clone(), next, vec![event()]);
                        next = store.append(append).await.unwrap().next_sequence;
                    }
                    (id, next)
                })
            })
            .collect();
        for writer in writers {
            self.logs.push(writer.await.unwrap());
        }
        started.elapsed()
    }
}

/// A file that was written in full before, so that syncing it does not have to record its size.
pub(crate) struct RawFile {
    file: File,
    at: u64,
}

const BLOCKS: u64 = 1024;

impl RawFile {
    pub(crate) fn create(directory: &Path) -> Self {
        let mut file = File::create(directory.join("raw")).unwrap();
        for _ in 0..BLOCKS {
            file.write_all(&[1; 4096]).unwrap();
        }
        file.sync_all().unwrap();
        Self { file, at: 0 }
    }

    pub(crate) fn write_synced(&mut self) {
        let start = (self.at % BLOCKS) * 4096;
        self.file.seek(SeekFrom::Start(start)).unwrap();
        self.file.write_all(&[2; 4096]).unwrap();
        self.file.sync_data().unwrap();
        self.at += 1;
    }
}

/// What a careful person writes by hand: prepared statements on one connection, without the checks.
pub(crate) struct Bare {
    connection: Connection,
    appended: i64,
}

impl Bare {
    pub(crate) fn create(directory: &Path) -> Self {
        let bare = Self::open(&directory.join("bare.db"));
        bare.connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
                 CREATE TABLE events (log TEXT, seq INTEGER, kind TEXT, payload BLOB,
                                      PRIMARY KEY (log, seq))",
            )
            .unwrap();
        bare
    }

    pub(crate) fn open(path: &Path) -> Self {
        let connection = Connection::open(PathBuf::from(path)).unwrap();
        Self {
            connection,
            appended: 0,
        }
    }

    pub(crate) fn append(&mut self) {
        let mut insert = self
            .connection
            .prepare_cached("INSERT INTO events VALUES (?1, ?2, 'step.completed', ?3)")
            .unwrap();
        let n = self.appended;
        let log = format!("01890000-0000-7000-8000-{:012}", n / 100);
        insert.execute((log, n % 100, [7_u8; 256])).unwrap();
        self.appended += 1;
    }

    /// The columns that make a head.
    pub(crate) fn head(&mut self, id: &ExecutionId) -> (i64, bool, bool, i64, i64) {
        let mut find = self
            .connection
            .prepare_cached(
                "SELECT next_seq, closed, sealed, created_at, updated_at
                 FROM records WHERE index_key = ?1 AND id = ?2",
            )
            .unwrap();
        find.query_row((id.route_hash().index_key(), id.as_str()), |row| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
            ))
        })
        .unwrap()
    }

    /// The columns that make an event.
    pub(crate) fn read(&mut self, id: &ExecutionId) -> Vec<(i64, bool, i64, String, Vec<u8>)> {
        let find = "SELECT log FROM records WHERE index_key = ?1 AND id = ?2";
        let log: i64 = self
            .connection
            .prepare_cached(find)
            .unwrap()
            .query_row((id.route_hash().index_key(), id.as_str()), |row| row.get(0))
            .unwrap();
        let mut read = self
            .connection
            .prepare_cached(
                "SELECT seq, terminal, recorded_at, kind, payload FROM events WHERE log = ?1 AND seq >= 0",
            )
            .unwrap();
        let events = read.query_map([log], |row| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
            ))
        });
        let events: Vec<_> = events.unwrap().map(Result::unwrap).collect();
        assert_eq!(events.len(), 100);
        events
    }
}
