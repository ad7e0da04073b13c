//! One connection, and the statements that were prepared on it.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ahash::AHashMap;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

use crate::failure::Fault;

/// A connection that was set up and found to lead to the right store.
pub(crate) struct Session {
    client: Client,
    /// By their text. All of them are constants, so there are only so many.
    prepared: Mutex<AHashMap<&'static str, Statement>>,
    spoiled: AtomicBool,
    patience: Duration,
}

pub(crate) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

impl Session {
    /// `patience`: how long to wait for an answer. The server's own timeout is shorter.
    pub(crate) fn new(client: Client, patience: Duration) -> Self {
        Self {
            client,
            prepared: Mutex::default(),
            spoiled: AtomicBool::new(false),
            patience,
        }
    }

    /// Whether the connection can be used for something else.
    pub(crate) fn is_usable(&self) -> bool {
        !self.spoiled.load(Ordering::Relaxed) && !self.client.is_closed()
    }

    /// Nobody else may use the connection: it may be in the middle of something.
    pub(crate) fn spoil(&self) {
        self.spoiled.store(true, Ordering::Relaxed);
    }

    /// Asks something that changes nothing by itself.
    pub(crate) async fn query(
        &self,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Fault> {
        let statement = self.prepare(sql).await?;
        self.query_prepared(&statement, parameters).await
    }

    /// As [`query`](Self::query), for at most one row.
    pub(crate) async fn query_opt(
        &self,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Option<Row>, Fault> {
        Ok(self.query(sql, parameters).await?.into_iter().next())
    }

    /// Asks something that changes nothing by itself. The request is sent at the first poll, so that several can be on
    /// their way, in the order of their first polls.
    pub(crate) async fn query_prepared(
        &self,
        statement: &Statement,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Fault> {
        self.answer(self.client.query(statement, parameters), true)
            .await?
            .map_err(|error| self.failed(Fault::before_commit(error)))
    }

    /// Changes something inside a transaction, and says how many rows.
    pub(crate) async fn execute(
        &self,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<u64, Fault> {
        let statement = self.prepare(sql).await?;
        self.answer(self.client.execute(&statement, parameters), true)
            .await?
            .map_err(|error| self.failed(Fault::before_commit(error)))
    }

    /// Asks something that is a transaction by itself and changes something.
    pub(crate) async fn query_and_commit(
        &self,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Fault> {
        let statement = self.prepare(sql).await?;
        self.answer(self.client.query(&statement, parameters), false)
            .await?
            .map_err(|error| self.failed(Fault::at_commit(error)))
    }

    /// Begins a transaction. Sent at the first poll.
    pub(crate) async fn begin(&self) -> Result<(), Fault> {
        self.answer(self.client.batch_execute("BEGIN"), true)
            .await?
            .map_err(|error| self.failed(Fault::before_commit(error)))
    }

    /// Commits the open transaction.
    pub(crate) async fn commit(&self) -> Result<(), Fault> {
        self.answer(self.client.batch_execute("COMMIT"), false)
            .await?
            .map_err(|error| self.failed(Fault::at_commit(error)))
    }

    /// Rolls the open transaction back. Where that fails, the end of the connection does.
    pub(crate) async fn roll_back(&self) {
        let rolled_back = self
            .answer(self.client.batch_execute("ROLLBACK"), true)
            .await;
        if !matches!(rolled_back, Ok(Ok(()))) {
            self.spoil();
        }
    }

    pub(crate) async fn prepare(&self, sql: &'static str) -> Result<Statement, Fault> {
        let known = {
            let prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
            prepared.get(sql).cloned()
        };
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self
            .answer(self.client.prepare(sql), true)
            .await?
            .map_err(|error| self.failed(Fault::before_commit(error)))?;
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        prepared.insert(sql, statement.clone());
        Ok(statement)
    }

    /// Waits for an answer, but not for ever: a server that is stopped or cut off closes no connection.
    async fn answer<T>(
        &self,
        asked: impl Future<Output = Result<T, Error>>,
        outcome_known: bool,
    ) -> Result<Result<T, Error>, Fault> {
        timeout(self.patience, asked).await.map_err(|_| {
            self.spoil();
            Fault::silence(self.patience, outcome_known)
        })
    }

    /// Where the connection is not to be trusted after an error, a new one takes its place.
    fn failed(&self, fault: Fault) -> Fault {
        if fault.spoils_the_connection() {
            self.spoil();
        }
        fault
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("usable", &self.is_usable())
            .finish_non_exhaustive()
    }
}
