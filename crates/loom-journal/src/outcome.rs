//! What logs say of executions, for those who do not run them.

use loom_spi::{
    EventStore, ExecutionId, ExecutionOutcome, Head, Operation, Read, StoreError, StoreErrorKind,
};

use crate::{Anchor, JournalError, wire};

/// How the execution ended, according to its log: `None` while it has not ended, or does not exist.
///
/// # Errors
/// `NotAJournal` when the log ended with an event that no journal writes, `UnsupportedVersion`, `Corrupt`,
/// `Store`.
///
/// # Cancel safety
/// Reads change nothing.
pub async fn read_outcome(
    store: &dyn EventStore,
    id: &ExecutionId,
) -> Result<Option<ExecutionOutcome>, JournalError> {
    let head = store.head(Head::new(id.clone())).await;
    match head.map_err(|error| JournalError::store(id, error))? {
        Some(head) if head.is_closed() => {
            let outcome = last_outcome(store, id, head.next_sequence).await?;
            Ok(Some(outcome))
        }
        _ => Ok(None),
    }
}

/// What the execution was begun with, according to its log: `None` when it does not exist.
///
/// # Errors
/// `NotAJournal` when the log begins with an event that no journal writes, `UnsupportedVersion`, `Corrupt`,
/// `Store`.
///
/// # Cancel safety
/// Reads change nothing.
pub async fn read_anchor(
    store: &dyn EventStore,
    id: &ExecutionId,
) -> Result<Option<Anchor>, JournalError> {
    let page = match store.read(Read::new(id.clone(), 0, 1)).await {
        Ok(page) => page,
        Err(error) if *error.kind() == StoreErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(JournalError::store(id, error)),
    };
    match page.events.first() {
        Some(event) => Anchor::read(id, event).map(Some),
        None => Err(absent(id, 0)),
    }
}

/// The outcome of a closed log of `length` events.
pub(crate) async fn last_outcome(
    store: &dyn EventStore,
    id: &ExecutionId,
    length: u64,
) -> Result<ExecutionOutcome, JournalError> {
    let last = length.saturating_sub(1);
    let page = store.read(Read::new(id.clone(), last, 1)).await;
    let page = page.map_err(|error| JournalError::store(id, error))?;
    match page.events.first() {
        Some(event) => wire::outcome(id, event),
        None => Err(absent(id, last)),
    }
}

fn absent(id: &ExecutionId, sequence: u64) -> JournalError {
    let reason =
        format!("the store returned no event at sequence {sequence} of a log that has one");
    let error = StoreError::new(Operation::Read, StoreErrorKind::Corrupt { reason });
    JournalError::store(id, error.with_execution(id))
}
