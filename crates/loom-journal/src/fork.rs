//! A second execution that begins where another one stood.

use std::sync::Arc;

use loom_spi::{
    Append, BranchRegistry, Event, EventStore, ExecutionId, NewEvent, Read, RecordLineage,
    StoreErrorKind,
};

use crate::{Anchor, JournalError};

/// Events that are read at a time.
const PAGE: usize = 512;

/// Begins execution `into` with a copy of the first `at` events of execution `source`, and records in `registry` that
/// it is a branch of that one, under the label `fork at N`. Returns what it was begun with.
///
/// To run it, dispatch `into` with the flow, input, parent and upstream of the source: the effects of the
/// prefix are replayed, and from there on it goes its own way. Its further effects have idempotency keys of their own.
/// An intent at the end of the prefix, whose effect is cut off, is what it says: its outcome is unknown.
///
/// The events are copied as they are, in one step. The source is only read, and may be running. Forking
/// the same prefix into the same id again changes nothing, also when that execution has gone on since.
///
/// # Errors
/// `InvalidStart` when the source does not exist or has fewer than `at` events, when the prefix is empty, contains the
/// source's end, or is larger than the store accepts in one append, when source and fork are the same, when the log
/// of `into` begins differently, and when that is a branch already, of another execution or under another label.
/// `NotAJournal`, `UnsupportedVersion`, `Corrupt` when the source was not begun by a journal.
/// `Store`.
///
/// # Cancel safety
/// Nothing is torn. When dropped, the lineage may be recorded and the copy be there; call it again.
///
/// # Examples
/// ```
/// use loom_journal::{JournalError, fork};
/// use loom_spi::{BranchRegistry, DispatchRequest, EventStore, ExecutionId};
///
/// /// Tries another way from the fifth event on.
/// async fn try_again(
///     store: &dyn EventStore,
///     registry: &dyn BranchRegistry,
///     original: &DispatchRequest,
///     variant: ExecutionId,
/// ) -> Result<DispatchRequest, JournalError> {
///     fork(store, registry, &original.id, 5, &variant).await?;
///     let mut request = original.clone();
///     request.id = variant;
///     Ok(request)
/// }
/// ```
pub async fn fork(
    store: &dyn EventStore,
    registry: &dyn BranchRegistry,
    source: &ExecutionId,
    at: u64,
    into: &ExecutionId,
) -> Result<Anchor, JournalError> {
    let invalid = |reason: String| JournalError::InvalidStart {
        id: into.clone(),
        reason,
    };
    if source == into {
        return Err(invalid("an execution is no fork of itself".to_owned()));
    }
    if at == 0 {
        let reason = format!("a fork of `{source}` at 0 has nothing in common with it");
        return Err(invalid(reason));
    }
    let prefix = match prefix(store, source, at).await? {
        Some(prefix) if prefix.len() as u64 == at => prefix,
        found => {
            let length = found.map_or(0, |prefix| prefix.len());
            let reason = format!("`{source}` has {length} events: it cannot be forked at {at}");
            return Err(invalid(reason));
        }
    };
    let Some(first) = prefix.first() else {
        return Err(JournalError::corrupt(source, 0, "it is not there"));
    };
    let anchor = Anchor::read(source, first)?;
    if prefix.last().is_some_and(|last| last.terminal) {
        let reason = format!("the event before {at} is the end of `{source}`: fork it earlier");
        return Err(invalid(reason));
    }
    let copies = prefix.iter().map(copy).collect();
    let append = Append::new(into.clone(), 0, copies);
    if let Err(refused) = store.capabilities().limits.check(&append) {
        return Err(invalid(format!(
            "the first {at} events of `{source}`: {refused}"
        )));
    }
    let there = is_there(store, into, &prefix, source).await?;
    let edge = RecordLineage::new(source.clone(), into.clone(), format!("fork at {at}"));
    match registry.record_lineage(edge).await {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), StoreErrorKind::LineageConflict { .. }) => {
            return Err(invalid(error.kind().to_string()));
        }
        Err(error) => return Err(JournalError::store(into, error)),
    }
    if !there
        && let Err(error) = store.append(append).await
        // Its reply may have been lost, or somebody else has made the same fork.
        && !is_there(store, into, &prefix, source).await?
    {
        return Err(JournalError::refused(into, error));
    }
    Ok(anchor)
}

/// Whether the fork has been made; refused when something else stands there.
async fn is_there(
    store: &dyn EventStore,
    into: &ExecutionId,
    wanted: &[Event],
    source: &ExecutionId,
) -> Result<bool, JournalError> {
    let at = wanted.len();
    match prefix(store, into, at as u64).await? {
        None => Ok(false),
        Some(begun) if begun == wanted => Ok(true),
        Some(_) => Err(JournalError::InvalidStart {
            id: into.clone(),
            reason: format!(
                "its log is there and does not begin with the first {at} events of `{source}`: use another id"
            ),
        }),
    }
}

/// The first `at` events, or as many as there are; `None` when there is no such execution.
async fn prefix(
    store: &dyn EventStore,
    id: &ExecutionId,
    at: u64,
) -> Result<Option<Vec<Event>>, JournalError> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let from = events.len() as u64;
        let left = usize::try_from(at - from).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(Some(events));
        }
        let read = Read::new(id.clone(), from, left.min(PAGE));
        let page = match store.read(read).await {
            Ok(page) => page,
            Err(error) if *error.kind() == StoreErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(JournalError::store(id, error)),
        };
        if page.events.is_empty() {
            return Ok(Some(events));
        }
        events.extend(page.events);
    }
}

fn copy(event: &Event) -> NewEvent {
    let copy = NewEvent::new(Arc::<str>::clone(&event.kind), event.payload.clone());
    let copy = copy.recorded_at(event.recorded_at);
    if event.terminal {
        copy.terminal()
    } else {
        copy
    }
}
