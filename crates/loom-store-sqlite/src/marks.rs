//! Marks of what was deleted here under the current plan, which a late import must not bring back.

use loom_spi::ExecutionId;
use rusqlite::Connection;

use crate::failure::Failure;
use crate::staged::Staged;
use crate::writer::Transaction;

/// Leaves a mark. What has arrived of the execution already cannot be completed any more, so it is dropped.
///
/// May refuse, so it comes before whatever else a change writes.
pub(crate) fn leave(
    transaction: &mut Transaction<'_, '_>,
    id: &ExecutionId,
) -> Result<(), Failure> {
    if let Some(staged) = Staged::find(transaction, id)? {
        staged.drop(transaction, id)?;
    }
    transaction
        .connection()
        .prepare_cached(LEAVE)?
        .execute([id.as_str()])?;
    Ok(())
}

/// Whether there is a mark.
pub(crate) fn is_left(
    transaction: &mut Transaction<'_, '_>,
    id: &ExecutionId,
) -> Result<bool, Failure> {
    Ok(transaction.statements().find_mark.exists([id.as_str()])?)
}

/// Removes all marks, because the plan changes.
pub(crate) fn clear(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.execute("DELETE FROM deletions", [])?;
    Ok(())
}

const LEAVE: &str = "INSERT OR IGNORE INTO deletions (id) VALUES (?1)";

pub(crate) const FIND: &str = "SELECT 1 FROM deletions WHERE id = ?1";
