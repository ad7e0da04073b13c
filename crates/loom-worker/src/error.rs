//! What a journal's errors mean to whoever dispatched.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use loom_journal::JournalError;
use loom_spi::{DispatchError, ExecutionId, StoreError};

use crate::InstanceError;

/// Why a run came to nothing. Several callers may wait for one run, and each gets it.
#[derive(Clone, Debug)]
pub(crate) enum RunError {
    Journal(JournalError),
    Instance(ExecutionId, Arc<InstanceError>),
}

impl From<JournalError> for RunError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl From<RunError> for DispatchError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Journal(error) => to_dispatch(error),
            RunError::Instance(id, error) => Self::Runtime {
                id,
                source: Box::new(Shared(error)),
            },
        }
    }
}

/// An error that several hold.
#[derive(Debug)]
struct Shared(Arc<InstanceError>);

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&*self.0, f)
    }
}

impl Error for Shared {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

pub(crate) fn to_dispatch(error: JournalError) -> DispatchError {
    let id = error.execution().clone();
    match error {
        JournalError::InvalidStart { reason, .. } => DispatchError::InvalidRequest { id, reason },
        JournalError::IdTaken { difference, .. } => DispatchError::IdTaken {
            id,
            reason: difference.to_string(),
        },
        JournalError::NotAJournal { sequence, kind, .. } => DispatchError::IdTaken {
            id,
            reason: format!(
                "the event at sequence {sequence} is a `{kind}`, which no journal writes"
            ),
        },
        JournalError::Leased {
            holder, remaining, ..
        } => DispatchError::Leased {
            id,
            holder,
            remaining,
        },
        JournalError::TakenOver { .. } => DispatchError::TakenOver {
            id,
            source: error.into(),
        },
        JournalError::Store { source, .. } => DispatchError::Store {
            id,
            source: share(source),
        },
        other => DispatchError::Runtime {
            id,
            source: other.into(),
        },
    }
}

/// Several callers may wait for one run, and each gets the whole error.
fn share(error: Arc<StoreError>) -> StoreError {
    let mut copy = StoreError::new(error.operation(), error.kind().clone());
    if let Some(id) = error.execution() {
        copy = copy.with_execution(id);
    }
    if let Some(shard) = error.shard() {
        copy = copy.with_shard(shard);
    }
    match error.source() {
        Some(_) => copy.with_source(SharedCause(error)),
        None => copy,
    }
}

/// The cause of an error that is held elsewhere.
#[derive(Debug)]
struct SharedCause(Arc<StoreError>);

impl fmt::Display for SharedCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.source() {
            Some(cause) => fmt::Display::fmt(cause, f),
            None => Ok(()),
        }
    }
}

impl Error for SharedCause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()?.source()
    }
}

#[cfg(test)]
mod tests {
    use loom_spi::{ExecutionId, Operation, StoreErrorKind};

    use super::*;

    #[test]
    fn a_copy_of_a_store_error_says_all_that_the_first_one_did() {
        let kind = StoreErrorKind::Unavailable {
            reason: "no route".into(),
            outcome_known: true,
        };
        let first = StoreError::new(Operation::Append, kind)
            .with_execution(&ExecutionId::new("e").unwrap())
            .with_shard(3)
            .with_source(std::io::Error::other("connection refused"));
        let text = first.to_string();
        let copy = share(Arc::new(first));
        assert_eq!(copy.to_string(), text);
        assert_eq!(copy.source().unwrap().to_string(), "connection refused");
    }
}
