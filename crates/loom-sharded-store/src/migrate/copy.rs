//! Copying one execution from source to destination.

use loom_spi::{
    Append, Event, ExecutionId, FenceToken, Limits, LogHead, NewEvent, StoreError, StoreErrorKind,
};

use super::{MIGRATE, MigrateError};
use crate::compare::page;
use crate::core::Core;
use crate::routing::Sides;
use crate::shard::Side;

/// How many events are read at a time.
const PAGE: usize = 1024;

/// Whose copy is on the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copied {
    ByUs,
    ByAnother,
    /// None: the source's log went away.
    Gone,
}

impl Core {
    /// Copies lineage and log, the log in one append.
    pub(super) async fn copy(
        &self,
        sides: Sides<'_>,
        id: &ExecutionId,
        head: LogHead,
    ) -> Result<Copied, MigrateError> {
        let Sides {
            source,
            destination,
            ..
        } = sides;
        let fence = self.fence_on(MIGRATE, source, id).await?;
        self.admit_move(id, source, head, fence)?;
        let limits = destination.store().capabilities().limits;
        let too_large = |reason: String| MigrateError::TooLarge {
            id: id.clone(),
            shard: source.id(),
            events: head.next_sequence,
            reason,
        };
        let events = match read_all(id, source, head, limits).await? {
            Whole::Events(events) => events,
            Whole::Gone => return Ok(Copied::Gone),
            Whole::TooLarge(reason) => return Err(too_large(reason)),
        };
        self.copy_lineage(sides, id).await?;
        // At least what the source has seen, and enough for the destination to take it.
        let there = self.fence_on(MIGRATE, destination, id).await?;
        let copy = Append::new(id.clone(), 0, events).with_fence(fence.max(there));
        if let Err(StoreErrorKind::InvalidArgument { reason }) = limits.check(&copy) {
            return Err(too_large(reason));
        }
        match destination.append(copy).await {
            Ok(_) => Ok(Copied::ByUs),
            // Somebody else was faster; whether it is the same log is for the comparison to say.
            Err(error)
                if matches!(
                    error.kind(),
                    StoreErrorKind::SequenceConflict { .. }
                        | StoreErrorKind::Closed { .. }
                        | StoreErrorKind::Fenced { .. }
                ) =>
            {
                Ok(Copied::ByAnother)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Refuses what could change during the move.
    fn admit_move(
        &self,
        id: &ExecutionId,
        source: Side<'_>,
        head: LogHead,
        fence: Option<FenceToken>,
    ) -> Result<(), MigrateError> {
        let (id, shard) = (id.clone(), source.id());
        match fence {
            _ if head.is_closed() => Ok(()),
            _ if head.next_sequence > 1 => Err(MigrateError::Live {
                id,
                shard,
                events: head.next_sequence,
            }),
            Some(token) => Err(MigrateError::Held { id, shard, token }),
            None => Ok(()),
        }
    }
}

/// A log as it has to be appended elsewhere.
enum Whole {
    Events(Vec<NewEvent>),
    Gone,
    TooLarge(String),
}

/// Reads a whole log, as long as it fits into one append.
async fn read_all(
    id: &ExecutionId,
    side: Side<'_>,
    head: LogHead,
    limits: Limits,
) -> Result<Whole, StoreError> {
    if usize::try_from(head.next_sequence).is_ok_and(|events| events > limits.max_append_events) {
        let most = limits.max_append_events;
        return Ok(Whole::TooLarge(format!("it takes at most {most} events")));
    }
    let mut events: Vec<NewEvent> = Vec::new();
    let mut bytes = 0_usize;
    while (events.len() as u64) < head.next_sequence {
        let from = events.len() as u64;
        let Some(page) = page(MIGRATE, id, side, from, PAGE).await? else {
            return Ok(Whole::Gone);
        };
        if page.is_empty() {
            // Shorter than a moment ago: it was deleted and started anew.
            return Ok(Whole::Gone);
        }
        bytes += page
            .iter()
            .map(|event| event.kind.len() + event.payload.len())
            .sum::<usize>();
        if bytes > limits.max_append_bytes {
            let most = limits.max_append_bytes;
            return Ok(Whole::TooLarge(format!("it takes at most {most} bytes")));
        }
        events.extend(page.into_iter().map(unnumbered));
    }
    Ok(Whole::Events(events))
}

/// The event without its place, which the append gives it again.
fn unnumbered(event: Event) -> NewEvent {
    let new = NewEvent::new(event.kind, event.payload).recorded_at(event.recorded_at);
    if event.terminal { new.terminal() } else { new }
}
