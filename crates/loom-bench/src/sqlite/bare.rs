//! What a careful person writes by hand: prepared statements on one connection, without the checks.

use std::path::Path;

use loom_spi::ExecutionId;
use rusqlite::config::DbConfig;
use rusqlite::{CachedStatement, Connection};

use crate::Failure;

/// How many events a log gets before another one begins.
const LOG: i64 = 100;

/// Appends by hand: events in the order of their arrival, logs numbered, the length of each beside it.
pub(super) struct Loader {
    connection: Connection,
    logs: Vec<(i64, i64)>,
    started: i64,
}

impl Loader {
    /// For `logs` logs at a time.
    pub(super) fn create(folder: &Path, name: &str, logs: usize) -> Result<Self, Failure> {
        let connection = Connection::open(folder.join(name))?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -8192;
             CREATE TABLE logs (log INTEGER PRIMARY KEY, id TEXT UNIQUE, next INTEGER);
             CREATE TABLE events (position INTEGER PRIMARY KEY, log INTEGER, seq INTEGER, kind TEXT, payload BLOB);
             CREATE UNIQUE INDEX events_in_log ON events (log, seq)",
        )?;
        let mut loader = Self {
            connection,
            logs: Vec::new(),
            started: 0,
        };
        for _ in 0..logs {
            let log = loader.start()?;
            loader.logs.push(log);
        }
        Ok(loader)
    }

    fn start(&mut self) -> Result<(i64, i64), Failure> {
        self.started += 1;
        let id = ExecutionId::generate();
        self.connection
            .prepare_cached("INSERT INTO logs VALUES (?1, ?2, 0)")?
            .execute((self.started, id.as_str()))?;
        Ok((self.started, 0))
    }

    /// One event of 256 bytes for each log, all in one transaction.
    pub(super) fn append(&mut self) -> Result<(), Failure> {
        self.run("BEGIN IMMEDIATE")?;
        for at in 0..self.logs.len() {
            if self.logs[at].1 == LOG {
                self.logs[at] = self.start()?;
            }
            let (log, next) = &mut self.logs[at];
            let mut insert = self.connection.prepare_cached(
                "INSERT INTO events (log, seq, kind, payload) VALUES (?1, ?2, 'step.completed', ?3)",
            )?;
            insert.execute((*log, *next, [7_u8; 256]))?;
            *next += 1;
            let mut update = self
                .connection
                .prepare_cached("UPDATE logs SET next = ?2 WHERE log = ?1")?;
            update.execute((*log, *next))?;
        }
        self.run("COMMIT")
    }

    fn run(&self, sql: &str) -> Result<(), Failure> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}

/// Looks into the file of a store.
pub(super) struct Looker {
    connection: Connection,
}

impl Looker {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let connection = Connection::open(path)?;
        connection.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -8192")?;
        // Without it SQLite plans some of them anew for each value that is bound.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(Self { connection })
    }

    /// The columns that make a head.
    pub(super) fn head(&self, id: &ExecutionId) -> Result<(i64, bool, bool, i64, i64), Failure> {
        let mut find = self.connection.prepare_cached(
            "SELECT next_seq, closed, sealed, created_at, updated_at
             FROM records WHERE index_key = ?1 AND id = ?2",
        )?;
        let columns = |row: &rusqlite::Row<'_>| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
            ))
        };
        Ok(find.query_row((id.route_hash().index_key(), id.as_str()), columns)?)
    }

    /// The columns that make an event, of the first `limit` events.
    pub(super) fn read(&self, id: &ExecutionId, limit: usize) -> Result<Vec<Event>, Failure> {
        let log: i64 = self
            .find("SELECT log FROM records WHERE index_key = ?1 AND id = ?2")?
            .query_row((id.route_hash().index_key(), id.as_str()), |row| row.get(0))?;
        let mut read = self.find(if limit == 1 {
            "SELECT seq, terminal, recorded_at, kind, payload FROM events
             WHERE log = ?1 AND seq = 0"
        } else {
            "SELECT seq, terminal, recorded_at, kind, payload FROM events
             WHERE log = ?1 AND seq >= 0 ORDER BY seq"
        })?;
        let events = read.query_map([log], |row| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
            ))
        })?;
        Ok(events.take(limit).collect::<Result<_, _>>()?)
    }

    fn find(&self, sql: &str) -> Result<CachedStatement<'_>, Failure> {
        Ok(self.connection.prepare_cached(sql)?)
    }
}

type Event = (i64, bool, i64, String, Vec<u8>);
