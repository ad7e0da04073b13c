//! Files of earlier versions.

use rusqlite::{Connection, TransactionBehavior};

use crate::schema::{SCHEMA_VERSION, STAGED};

/// The oldest version that is brought up to date.
pub(crate) const OLDEST: i32 = 1;

/// Brings the tables up to [`SCHEMA_VERSION`], in one transaction. Several processes may do it at once.
pub(crate) fn upgrade(connection: &Connection) -> Result<(), rusqlite::Error> {
    if version(connection)? >= SCHEMA_VERSION {
        return Ok(());
    }
    let transaction =
        rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    // Somebody else may have been faster.
    if version(&transaction)? < SCHEMA_VERSION {
        transaction.execute_batch(STAGED)?;
        transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    }
    transaction.commit()
}

fn version(connection: &Connection) -> Result<i32, rusqlite::Error> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}
