//! Connections that only read.

use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{CachedStatement, Connection};

use crate::failure::Failure;
use crate::{head, ledger, lineage, list, read, records};

/// What readers ask.
pub(crate) const STATEMENTS: [&str; 10] = [
    head::FIND,
    head::PLAN,
    read::EVENTS,
    list::LIST,
    lineage::CHILDREN,
    lineage::PARENT,
    records::INSPECT,
    records::RECORDS,
    ledger::CURRENT,
    ledger::IDENTITY,
];

/// Whether the tables are what the statements need.
pub(crate) fn check(connection: &Connection) -> Result<(), rusqlite::Error> {
    STATEMENTS
        .iter()
        .try_for_each(|sql| connection.prepare(sql).map(drop))
}

/// A connection that only reads. It keeps its statements prepared.
#[derive(Debug)]
pub(crate) struct Reader {
    connection: Connection,
}

impl Reader {
    /// Keeps the connection from writing, and its statements from being planned again and again: the cache of
    /// statements clears the values bound to one, and SQLite would then plan anew any whose plan could depend on them.
    pub(crate) fn new(connection: Connection) -> Result<Self, rusqlite::Error> {
        connection.execute_batch("PRAGMA query_only = ON")?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(Self { connection })
    }

    /// For those who must not be held up: a locked file is an error at once, and little is kept in memory.
    pub(crate) fn never_wait(&self) -> Result<(), rusqlite::Error> {
        self.connection.busy_timeout(Duration::ZERO)?;
        self.connection.execute_batch("PRAGMA cache_size = -1024")
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(crate) fn statement(&self, sql: &str) -> Result<CachedStatement<'_>, rusqlite::Error> {
        self.connection.prepare_cached(sql)
    }

    /// Lets several statements see the same state of the store.
    pub(crate) fn snapshot<T>(
        &self,
        look: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.statement("BEGIN")?.execute([])?;
        let found = look();
        let ended = self.statement("COMMIT").and_then(|mut end| end.execute([]));
        if ended.is_err() && !self.connection.is_autocommit() {
            // If even this fails the next BEGIN says so.
            drop(self.connection.execute_batch("ROLLBACK"));
        }
        // Nothing was changed, so how the transaction ended says nothing about what was found.
        found
    }
}
