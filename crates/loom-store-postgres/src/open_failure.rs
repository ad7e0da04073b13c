//! Why a store could not be opened.

use loom_spi::{Operation, StoreError, StoreErrorKind};

use crate::{Location, SCHEMA_VERSION};

/// Why a store could not be opened or created: the source of the [`StoreError`] of
/// [`Operation::Open`](loom_spi::Operation::Open), for callers that tell the cases apart.
///
/// ```
/// use std::error::Error;
/// use loom_spi::StoreError;
/// use loom_store_postgres::OpenFailure;
///
/// fn is_missing(error: &StoreError) -> bool {
///     let failure = error.source().and_then(|source| source.downcast_ref());
///     matches!(failure, Some(OpenFailure::Missing { .. }))
/// }
/// ```
///
/// A schema of another shard is `WrongShard`, without a source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenFailure {
    /// The database is there, the schema or its tables are not.
    #[error(
        "there is no store at `{location}`: check the database and the schema, or create the store first"
    )]
    Missing {
        /// What was opened.
        location: Location,
    },
    /// The store that was to be created exists.
    #[error("`{location}` already is a store: open it, or choose another schema")]
    AlreadyExists {
        /// What was to be created.
        location: Location,
    },
    /// The schema belongs to another program.
    #[error(
        "the schema of `{location}` holds the table `{table}` of another program: choose another schema"
    )]
    Foreign {
        /// What was opened.
        location: Location,
        /// One of its tables.
        table: String,
    },
    /// A newer release made or upgraded the tables.
    #[error(
        "the schema of `{location}` has version {found}, and this release knows versions up to {SCHEMA_VERSION}: use a newer release"
    )]
    NewerSchema {
        /// What was opened.
        location: Location,
        /// What it says.
        found: i32,
    },
    /// The schema says that it is a store, but its contents do not bear that out.
    #[error("the schema of `{location}` is damaged: {reason}; restore it from a backup")]
    Damaged {
        /// What was opened.
        location: Location,
        /// What was found.
        reason: String,
    },
    /// The database does not store text as UTF-8.
    #[error(
        "the database of `{location}` has the encoding {encoding}: expected UTF8; create a database with it"
    )]
    Encoding {
        /// What was opened.
        location: Location,
        /// What the server says.
        encoding: String,
    },
    /// The role may not do what it has to.
    #[error(
        "the role of `{location}` lacks a privilege: {reason}; see the guide on PostgreSQL for what it needs"
    )]
    Privilege {
        /// What was opened.
        location: Location,
        /// What the server says.
        reason: String,
    },
    /// The server is there and lets nobody in: a wrong password, too many connections, or it is just starting or ending.
    #[error("`{location}` does not let us in: the server says: {reason}")]
    Refused {
        /// What was opened.
        location: Location,
        /// What the server says.
        reason: String,
        /// Whether that may pass by itself.
        passing: bool,
    },
    /// The server did not answer, or does not know the database.
    #[error("`{location}` cannot be reached: {reason}")]
    Unreachable {
        /// What was opened.
        location: Location,
        /// What was tried and what happened.
        reason: String,
    },
}

impl OpenFailure {
    pub(crate) fn kind(&self) -> StoreErrorKind {
        let reason = self.to_string();
        match self {
            Self::Missing { .. }
            | Self::Unreachable { .. }
            | Self::Refused { passing: true, .. } => StoreErrorKind::Unavailable {
                reason,
                outcome_known: true,
            },
            Self::AlreadyExists { .. }
            | Self::Foreign { .. }
            | Self::NewerSchema { .. }
            | Self::Encoding { .. }
            | Self::Privilege { .. }
            | Self::Refused { passing: false, .. } => StoreErrorKind::InvalidArgument { reason },
            Self::Damaged { .. } => StoreErrorKind::Corrupt { reason },
        }
    }

    pub(crate) fn into_error(self, operation: Operation) -> StoreError {
        StoreError::new(operation, self.kind()).with_source(self)
    }
}
