//! Deleting, and getting the space back.

use loom_spi::{Delete, Deleted};
use rusqlite::{Connection, OptionalExtension};

use crate::failure::Failure;
use crate::marks;
use crate::writer::{Transaction, Work};

/// How many events of deleted logs are removed in one transaction, beside what it does anyway. Each may be on a page of its
/// own, which the transaction then writes too: more than a lone append waits for gladly.
const EVENTS_AT_ONCE: usize = 32;

pub(crate) const RECLAIM: &str = "
    DELETE FROM events
    WHERE position IN (SELECT position FROM events WHERE log = ?1 ORDER BY seq LIMIT 32)";

impl Work for Delete {
    type Output = Deleted;

    /// Takes the same time however long the log is: its events become garbage.
    fn run(&self, transaction: &mut Transaction<'_, '_>) -> Result<Deleted, Failure> {
        let (found, state) = transaction.find(&self.id)?;
        let events = state.admit_delete(self)?;
        if self.mark {
            marks::leave(transaction, &self.id)?;
        }
        let mut record = found.unwrap_or_default();
        record.head = None;
        if let Some(log) = record.log.take() {
            transaction.leave_garbage(log)?;
        }
        transaction.store(&self.id, record)?;
        Ok(Deleted::new(events))
    }
}

/// Whether there are events of deleted logs.
pub(crate) fn has_garbage(connection: &Connection) -> Result<bool, rusqlite::Error> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM garbage)")?
        .query_row([], |row| row.get(0))
}

/// Removes some events of deleted logs, and says whether there may be more.
pub(crate) fn reclaim(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let log: Option<i64> = connection
        .prepare_cached("SELECT log FROM garbage ORDER BY log LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    let Some(log) = log else { return Ok(false) };
    let removed = connection.prepare_cached(RECLAIM)?.execute([log])?;
    if removed < EVENTS_AT_ONCE {
        connection
            .prepare_cached("DELETE FROM garbage WHERE log = ?1")?
            .execute([log])?;
    }
    Ok(true)
}
