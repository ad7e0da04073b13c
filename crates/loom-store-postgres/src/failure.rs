//! From the errors of the driver and the server to those of the contract.

use std::sync::Arc;
use std::time::Duration;

use loom_spi::{Operation, StoreError, StoreErrorKind};
use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::OpenFailure;

/// Why an operation did not happen, or may not have happened.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The contract refuses it. Nothing was changed.
    Refused(StoreErrorKind),
    /// Somebody else changed the same record in between: nothing was changed, and asking again helps.
    Again,
    /// The server or the way to it failed.
    Fault(Fault),
    /// A connection could not be made.
    Open(Box<OpenFailure>),
}

impl From<StoreErrorKind> for Failure {
    fn from(kind: StoreErrorKind) -> Self {
        Self::Refused(kind)
    }
}

impl From<OpenFailure> for Failure {
    fn from(failure: OpenFailure) -> Self {
        Self::Open(Box::new(failure))
    }
}

impl From<tokio_postgres::Error> for Failure {
    /// Of what cannot have changed anything: before a commit was asked for.
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Fault(Fault::before_commit(error))
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Failure {
    pub(crate) fn into_error(self, operation: Operation) -> StoreError {
        match self {
            Self::Refused(kind) => StoreError::new(operation, kind),
            Self::Again => StoreError::new(
                operation,
                unavailable("other requests changed the same record all the time", true),
            ),
            Self::Fault(fault) => fault.to_error(operation),
            Self::Open(failure) => failure.into_error(operation),
        }
    }

    /// Whether the very same request can simply be made again.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Again => true,
            Self::Fault(fault) => fault.is_transient(),
            Self::Refused(_) | Self::Open(_) => false,
        }
    }
}

/// The failure of a transaction, for each of those who waited for it.
pub(crate) fn shared_error(failure: &Arc<Failure>, operation: Operation) -> StoreError {
    match &**failure {
        Failure::Refused(kind) => StoreError::new(operation, kind.clone()),
        Failure::Fault(fault) => fault.to_error(operation),
        Failure::Open(open) => {
            StoreError::new(operation, open.kind()).with_source(SharedFailure(Arc::clone(failure)))
        }
        Failure::Again => StoreError::new(
            operation,
            unavailable("other requests changed the same record all the time", true),
        ),
    }
}

/// Why no connection could be made, for several at once.
#[derive(Debug)]
struct SharedFailure(Arc<Failure>);

impl std::fmt::Display for SharedFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &*self.0 {
            Failure::Open(open) => open.fmt(f),
            _ => f.write_str("no connection could be made"),
        }
    }
}

impl std::error::Error for SharedFailure {}

/// A failure of the server or of the way to it; shared by all who waited for the same transaction.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    cause: Cause,
    /// Whether it is certain that nothing was changed.
    outcome_known: bool,
}

#[derive(Clone, Debug)]
enum Cause {
    Driver(Arc<tokio_postgres::Error>),
    /// No answer within this time.
    Silence(Duration),
    /// The runtime ended, or the task that worked on it panicked.
    Abandoned,
}

impl Fault {
    /// Of a statement in a transaction that was not asked to commit.
    pub(crate) fn before_commit(error: tokio_postgres::Error) -> Self {
        Self {
            cause: Cause::Driver(Arc::new(error)),
            outcome_known: true,
        }
    }

    /// Of a statement that commits: only when the server says in an error of its own that it did not, that is certain.
    pub(crate) fn at_commit(error: tokio_postgres::Error) -> Self {
        let outcome_known = error.as_db_error().is_some_and(rolled_back);
        Self {
            cause: Cause::Driver(Arc::new(error)),
            outcome_known,
        }
    }

    pub(crate) fn silence(waited: Duration, outcome_known: bool) -> Self {
        Self {
            cause: Cause::Silence(waited),
            outcome_known,
        }
    }

    pub(crate) fn abandoned() -> Self {
        Self {
            cause: Cause::Abandoned,
            outcome_known: false,
        }
    }

    fn code(&self) -> Option<&SqlState> {
        match &self.cause {
            Cause::Driver(error) => error.code(),
            Cause::Silence(_) | Cause::Abandoned => None,
        }
    }

    /// Whether the server rolled it back for the sake of other transactions.
    pub(crate) fn is_transient(&self) -> bool {
        self.outcome_known
            && self.code().is_some_and(|code| {
                [
                    SqlState::T_R_SERIALIZATION_FAILURE,
                    SqlState::T_R_DEADLOCK_DETECTED,
                ]
                .contains(code)
            })
    }

    /// Whether the connection should be replaced: it is gone, the server is about to go, or what was prepared on it does
    /// not fit the tables any more.
    pub(crate) fn spoils_the_connection(&self) -> bool {
        let Some(code) = self.code() else { return true };
        let class = code.code().get(..2).unwrap_or_default();
        matches!(class, "08" | "0A" | "25" | "26" | "3F" | "42" | "XX")
            || (class == "57" && *code != SqlState::QUERY_CANCELED)
    }

    /// Whether the connection was gone, and not for lack of patience: on a new one it may work at once.
    pub(crate) fn is_broken_connection(&self) -> bool {
        self.outcome_known
            && match &self.cause {
                Cause::Driver(error) => error
                    .as_db_error()
                    .is_none_or(|said| said.parsed_severity() == Some(Severity::Fatal)),
                Cause::Silence(_) | Cause::Abandoned => false,
            }
    }

    /// Whether it was rolled back because of one of the changes in it, so that the others may well succeed.
    pub(crate) fn concerns_one(&self) -> bool {
        self.outcome_known
            && self.code().is_some_and(|code| {
                let class = code.code().get(..2).unwrap_or_default();
                *code == SqlState::LOCK_NOT_AVAILABLE || matches!(class, "22" | "23" | "54")
            })
    }

    pub(crate) fn to_error(&self, operation: Operation) -> StoreError {
        let error = StoreError::new(operation, self.kind());
        match &self.cause {
            Cause::Driver(cause) => error.with_source(Arc::clone(cause)),
            Cause::Silence(_) | Cause::Abandoned => error,
        }
    }

    fn kind(&self) -> StoreErrorKind {
        let error = match &self.cause {
            Cause::Driver(error) => error,
            Cause::Silence(waited) => {
                return unavailable(
                    format!("the server did not answer within {} ms", waited.as_millis()),
                    self.outcome_known,
                );
            }
            Cause::Abandoned => {
                return unavailable(
                    "the runtime on which the store was opened has ended, or a task of the store failed",
                    self.outcome_known,
                );
            }
        };
        match error.as_db_error() {
            Some(said) => server_error(said, self.outcome_known),
            None => unavailable(
                format!("the connection to the server failed ({})", in_full(error)),
                self.outcome_known,
            ),
        }
    }
}

/// Whether an error that the server reports says that the transaction is gone. When it ends a session it may have
/// committed before, without having said so.
fn rolled_back(said: &DbError) -> bool {
    let ends_the_session = matches!(
        said.parsed_severity(),
        None | Some(Severity::Fatal | Severity::Panic)
    );
    !ends_the_session
        && !matches!(said.code().code().get(..2), Some("08" | "57") if *said.code() != SqlState::QUERY_CANCELED)
}

fn server_error(said: &DbError, outcome_known: bool) -> StoreErrorKind {
    let message = said.message();
    let code = said.code();
    let unavailable = |reason: String| unavailable(reason, outcome_known);
    if *code == SqlState::QUERY_CANCELED {
        return unavailable(
            "the statement was canceled: it took longer than the statement timeout, or somebody canceled it".into(),
        );
    }
    if *code == SqlState::LOCK_NOT_AVAILABLE {
        return unavailable("others held a lock for too long".into());
    }
    if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
        return unavailable("the server is read-only: a standby, perhaps".into());
    }
    if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        return unavailable(format!("the role lacks a privilege: {message}"));
    }
    match code.code().get(..2) {
        Some("53") => unavailable(format!("the server has run out of something: {message}")),
        Some("54") if outcome_known => StoreErrorKind::InvalidArgument {
            reason: format!("it is larger than PostgreSQL can store: {message}"),
        },
        Some("22" | "23" | "XX") if outcome_known => StoreErrorKind::Corrupt {
            reason: format!("{message} ({}), which the format rules out", code.code()),
        },
        Some("3F" | "42") if outcome_known => StoreErrorKind::Corrupt {
            reason: format!(
                "the tables are not those that were there when the store was opened: {message} ({})",
                code.code()
            ),
        },
        _ => unavailable(format!("the server says: {message} ({})", code.code())),
    }
}

/// What an error says, with its causes: the driver's own messages leave them out.
pub(crate) fn in_full(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

pub(crate) fn unavailable(reason: impl Into<String>, outcome_known: bool) -> StoreErrorKind {
    StoreErrorKind::Unavailable {
        reason: reason.into(),
        outcome_known,
    }
}

/// Something stored that cannot be what it should be.
pub(crate) fn corrupt(reason: impl Into<String>) -> Failure {
    Failure::Refused(StoreErrorKind::Corrupt {
        reason: reason.into(),
    })
}

/// The answer of a store that was closed.
pub(crate) fn closed() -> StoreErrorKind {
    unavailable("the store was closed: open it again", true)
}
