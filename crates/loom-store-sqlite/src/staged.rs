//! Logs that arrive in parts: their events are stored under the number of a log that no record refers to yet.

use loom_spi::{ExecutionId, ExecutionState, LogHead, Timestamp};
use rusqlite::Row;

use crate::failure::{Failure, corrupt};
use crate::record;
use crate::writer::Transaction;

/// A row of `staged`: a log of which some parts are here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Staged {
    pub(crate) log: i64,
    /// How many events of it are here: at least 1, and fewer than the whole log has.
    pub(crate) next: u64,
    /// What the whole log is: tells it apart from one that was deleted and made anew on the source.
    pub(crate) head: LogHead,
}

impl Staged {
    /// What has arrived of an execution's log.
    pub(crate) fn find(
        transaction: &mut Transaction<'_, '_>,
        id: &ExecutionId,
    ) -> Result<Option<Self>, Failure> {
        let mut rows = transaction.statements().find_staged.query([id.as_str()])?;
        rows.next()?.map(Self::from_row).transpose()
    }

    fn from_row(row: &Row<'_>) -> Result<Self, Failure> {
        let next = record::count(row.get(1)?, "events that were staged")?;
        let events = record::count(row.get(2)?, "events of a log that is staged")?;
        if next == 0 || next >= events {
            return Err(corrupt(format!(
                "of a log of {events} events {next} are staged: expected at least one, and not all"
            )));
        }
        let state = match row.get(3)? {
            false => ExecutionState::Open,
            true => ExecutionState::Closed,
        };
        let created_at = Timestamp::from_millis(row.get(4)?);
        let updated_at = Timestamp::from_millis(row.get(5)?);
        Ok(Self {
            log: row.get(0)?,
            next,
            head: LogHead::new(events, state, created_at, updated_at),
        })
    }

    /// Notes how far it got.
    pub(crate) fn put(
        &self,
        transaction: &Transaction<'_, '_>,
        id: &ExecutionId,
    ) -> Result<(), Failure> {
        transaction.connection().prepare_cached(PUT)?.execute((
            id.as_str(),
            self.log,
            self.next.cast_signed(),
            self.head.next_sequence.cast_signed(),
            self.head.is_closed(),
            self.head.created_at.as_millis(),
            self.head.updated_at.as_millis(),
        ))?;
        Ok(())
    }

    /// Takes the row away, because the log has a record now.
    pub(crate) fn attached(
        transaction: &Transaction<'_, '_>,
        id: &ExecutionId,
    ) -> Result<(), Failure> {
        transaction
            .connection()
            .prepare_cached(REMOVE)?
            .execute([id.as_str()])?;
        Ok(())
    }

    /// Drops what has arrived: it will not be completed.
    pub(crate) fn drop(
        self,
        transaction: &mut Transaction<'_, '_>,
        id: &ExecutionId,
    ) -> Result<(), Failure> {
        Self::attached(transaction, id)?;
        transaction.leave_garbage(self.log)
    }

    /// Drops all that has arrived and is not complete, because the plan changes.
    pub(crate) fn drop_all(transaction: &mut Transaction<'_, '_>) -> Result<(), Failure> {
        let connection = transaction.connection();
        let dropped = connection.execute("INSERT INTO garbage (log) SELECT log FROM staged", [])?;
        if dropped > 0 {
            connection.execute("DELETE FROM staged", [])?;
            transaction.expect_garbage();
        }
        Ok(())
    }
}

pub(crate) const FIND: &str = "
    SELECT log, next_seq, events, closed, created_at, updated_at FROM staged WHERE id = ?1";

const PUT: &str = "
    INSERT INTO staged (id, log, next_seq, events, closed, created_at, updated_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    ON CONFLICT (id) DO UPDATE SET next_seq = excluded.next_seq";

pub(crate) const REMOVE: &str = "DELETE FROM staged WHERE id = ?1";
