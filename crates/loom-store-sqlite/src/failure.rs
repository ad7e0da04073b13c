//! From SQLite's errors to those of the contract.

use std::sync::Arc;

use loom_spi::{Operation, StoreError, StoreErrorKind};
use rusqlite::ErrorCode;

/// Why one operation did not happen, inside a transaction.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The contract refuses it. Nothing was written for it.
    Refused(StoreErrorKind),
    /// SQLite failed. What the operation wrote so far has to be rolled back.
    Sqlite(rusqlite::Error),
}

impl From<StoreErrorKind> for Failure {
    fn from(kind: StoreErrorKind) -> Self {
        Self::Refused(kind)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Failure {
    pub(crate) fn into_error(self, operation: Operation) -> StoreError {
        match self {
            Self::Refused(kind) => StoreError::new(operation, kind),
            Self::Sqlite(error) => Fault::new(error, true).to_error(operation),
        }
    }
}

/// A failure of SQLite, shared by all who waited for the same transaction.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    error: Arc<rusqlite::Error>,
    outcome_known: bool,
}

impl Fault {
    pub(crate) fn new(error: rusqlite::Error, outcome_known: bool) -> Self {
        Self {
            error: Arc::new(error),
            outcome_known,
        }
    }

    pub(crate) fn to_error(&self, operation: Operation) -> StoreError {
        StoreError::new(operation, kind(&self.error, self.outcome_known))
            .with_source(Arc::clone(&self.error))
    }
}

/// Whether an error says nothing about the operation that met it: the whole file is affected, so it makes no sense
/// to try the others of the group one by one.
pub(crate) fn concerns_the_file(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DatabaseBusy
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::OutOfMemory
                | ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::NotADatabase
        )
    )
}

fn kind(error: &rusqlite::Error, outcome_known: bool) -> StoreErrorKind {
    let unavailable = |reason: String| StoreErrorKind::Unavailable {
        reason,
        outcome_known,
    };
    let corrupt = |reason: String| StoreErrorKind::Corrupt { reason };
    let Some(code) = error.sqlite_error_code() else {
        // A column that has another type than the schema says.
        return corrupt(error.to_string());
    };
    match code {
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase if outcome_known => {
            corrupt(format!("{error}: restore the file from a backup"))
        }
        ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch if outcome_known => corrupt(
            format!("{error}, which the format rules out: restore the file from a backup"),
        ),
        ErrorCode::TooBig if outcome_known => StoreErrorKind::InvalidArgument {
            reason: "an event is larger than SQLite can store: expected less than 1 GB".into(),
        },
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => unavailable(
            "another process held the file locked for longer than the busy timeout".into(),
        ),
        ErrorCode::DiskFull => unavailable("the disk is full: free some space".into()),
        ErrorCode::ReadOnly => unavailable("the file or its directory is read-only".into()),
        _ => unavailable(format!("SQLite: {error}")),
    }
}

/// A stored number that cannot be what it should be.
pub(crate) fn corrupt(reason: impl Into<String>) -> Failure {
    Failure::Refused(StoreErrorKind::Corrupt {
        reason: reason.into(),
    })
}
