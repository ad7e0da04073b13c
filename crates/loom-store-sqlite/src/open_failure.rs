//! Why a file could not be opened as a store.

use std::path::PathBuf;
use std::time::Duration;

use loom_spi::{Operation, StoreError, StoreErrorKind};

use crate::SCHEMA_VERSION;

/// Why a file could not be opened or created: the source of the [`StoreError`] of
/// [`Operation::Open`](loom_spi::Operation::Open), for callers that tell the cases apart.
///
/// ```
/// use std::error::Error;
/// use loom_spi::StoreError;
/// use loom_store_sqlite::OpenFailure;
///
/// fn is_missing(error: &StoreError) -> bool {
///     let failure = error.source().and_then(|source| source.downcast_ref());
///     matches!(failure, Some(OpenFailure::Missing { .. }))
/// }
/// ```
///
/// A file of another shard is `WrongShard`, without a source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenFailure {
    /// There is no such file.
    #[error("there is no file `{}`: check the path, or create the store first", path.display())]
    Missing {
        /// What was opened.
        path: PathBuf,
    },
    /// The file is empty, or creating it was interrupted.
    #[error("`{}` holds nothing yet: its creation was never finished, so create it again", path.display())]
    Unfinished {
        /// What was opened.
        path: PathBuf,
    },
    /// The store that was to be created exists.
    #[error("`{}` already is a store: open it, or choose another path", path.display())]
    AlreadyExists {
        /// What was to be created.
        path: PathBuf,
    },
    /// The file is not a SQLite database, or its header is damaged.
    #[error("`{}` is not a SQLite database, or its header is damaged: check the path, or restore the file", path.display())]
    NotADatabase {
        /// What was opened.
        path: PathBuf,
    },
    /// The file is a SQLite database of another program.
    #[error(
        "`{}` is a database of another program (application id {application_id:#x}): check the path", path.display()
    )]
    Foreign {
        /// What was opened.
        path: PathBuf,
        /// What its header says.
        application_id: i32,
    },
    /// A newer release wrote the file.
    #[error(
        "`{}` has schema version {found}, and this release knows versions up to {}: use a newer release", path.display(), SCHEMA_VERSION
    )]
    NewerSchema {
        /// What was opened.
        path: PathBuf,
        /// What its header says.
        found: i32,
    },
    /// The file says that it is a store, but its contents do not bear that out.
    #[error("`{}` is damaged: {reason}; restore it from a backup", path.display())]
    Damaged {
        /// What was opened.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// The file or its directory cannot be written.
    #[error(
        "`{}` or its directory is read-only: a store needs to write the file and to create files beside it", path.display()
    )]
    ReadOnly {
        /// What was opened.
        path: PathBuf,
    },
    /// Another process holds the file locked.
    #[error(
        "`{}` is locked by another process, {} ms were waited: stop that process, or wait longer", path.display(), waited.as_millis()
    )]
    Locked {
        /// What was opened.
        path: PathBuf,
        /// The busy timeout.
        waited: Duration,
    },
    /// The operating system refused.
    #[error("`{}` cannot be used: {reason}", path.display())]
    Unreachable {
        /// What was opened.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
}

impl OpenFailure {
    pub(crate) fn into_error(self) -> StoreError {
        let reason = self.to_string();
        let kind = match &self {
            Self::Missing { .. }
            | Self::Unfinished { .. }
            | Self::ReadOnly { .. }
            | Self::Locked { .. }
            | Self::Unreachable { .. } => StoreErrorKind::Unavailable {
                reason,
                outcome_known: true,
            },
            Self::AlreadyExists { .. } | Self::Foreign { .. } | Self::NewerSchema { .. } => {
                StoreErrorKind::InvalidArgument { reason }
            }
            Self::NotADatabase { .. } | Self::Damaged { .. } => StoreErrorKind::Corrupt { reason },
        };
        StoreError::new(Operation::Open, kind).with_source(self)
    }
}
