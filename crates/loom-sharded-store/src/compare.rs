//! Comparing the two copies of an execution.

use loom_spi::{Event, ExecutionId, LogHead, Operation, Read, StoreError, StoreErrorKind};

use crate::core::Core;
use crate::resolve::on_the_way;
use crate::routing::Sides;
use crate::shard::Side;

/// How many events are compared at a time.
const PAGE: usize = 256;

/// What a copy is to the one that counts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// What a move left behind: the copy that counts has all of it.
    Leftover,
    /// Another log, and why.
    Different(String),
    /// One of them is not there any more.
    Gone,
}

/// Whether the heads could be those of what a move left behind, and of the copy that counts. Cheap, and no
/// proof.
pub(crate) fn may_be_leftover(left: &LogHead, kept: &LogHead) -> bool {
    left.created_at == kept.created_at
        && if left.is_closed() {
            left.next_sequence == kept.next_sequence && kept.is_closed()
        } else {
            left.next_sequence <= kept.next_sequence
        }
}

impl Core {
    /// Whether the destination's copy is what an interrupted move left *there*, and the source's counts.
    ///
    /// A move of an execution that was not started leaves its first event on both sides. If it starts on one,
    /// and its bucket turns round before the move is repeated, the other copy is the destination's.
    pub(crate) async fn left_on_destination(
        &self,
        operation: Operation,
        id: &ExecutionId,
        sides: Sides<'_>,
        on_source: &LogHead,
        on_destination: &LogHead,
    ) -> Result<bool, StoreError> {
        // Where records can be sealed, what is left behind is sealed.
        let possible = !self.offers.relocation
            && !on_source.sealed
            && on_source.next_sequence > 1
            && may_have_been_left(on_destination)
            && may_be_leftover(on_destination, on_source);
        if !possible {
            return Ok(false);
        }
        let there = page(operation, id, sides.destination, 0, 1).await?;
        let here = page(operation, id, sides.source, 0, 1).await?;
        Ok(here.is_some() && there == here)
    }
}

/// Whether the source has to be asked too before a destination's copy counts: it has nothing but the event
/// that every log of the execution begins with.
pub(crate) fn may_have_been_left(on_destination: &LogHead) -> bool {
    on_destination.next_sequence == 1 && !on_destination.is_closed() && !on_destination.sealed
}

/// Compares the logs event by event: `left` is a leftover if it is a prefix of `kept`.
pub(crate) async fn compare(
    operation: Operation,
    id: &ExecutionId,
    left: Side<'_>,
    kept: Side<'_>,
) -> Result<Relation, StoreError> {
    let mut from = 0;
    loop {
        let Some(these) = page(operation, id, left, from, PAGE).await? else {
            return Ok(Relation::Gone);
        };
        if these.is_empty() {
            return Ok(Relation::Leftover);
        }
        let Some(those) = page(operation, id, kept, from, these.len()).await? else {
            return Ok(Relation::Gone);
        };
        if those.is_empty() {
            return Ok(Relation::Different(format!(
                "shard {} has an event {from}, shard {} ends before it",
                left.id(),
                kept.id()
            )));
        }
        let differs = these.iter().zip(&those).find(|(this, that)| this != that);
        if let Some((event, _)) = differs {
            return Ok(Relation::Different(format!(
                "event {} is not the same on shards {} and {}",
                event.sequence,
                left.id(),
                kept.id()
            )));
        }
        from += these.len().min(those.len()) as u64;
    }
}

/// Some events from `from`; none where the log ends, `None` when there is no log.
pub(crate) async fn page(
    operation: Operation,
    id: &ExecutionId,
    side: Side<'_>,
    from: u64,
    limit: usize,
) -> Result<Option<Vec<Event>>, StoreError> {
    match side.read(Read::new(id.clone(), from, limit)).await {
        Ok(page) => Ok(Some(page.events)),
        Err(error) if matches!(error.kind(), StoreErrorKind::NotFound) => Ok(None),
        Err(error) => Err(on_the_way(operation, id, error)),
    }
}
