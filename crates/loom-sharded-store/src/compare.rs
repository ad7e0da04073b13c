//! Comparing the two copies of an execution.

use loom_spi::{Event, ExecutionId, LogHead, Operation, Read, StoreError, StoreErrorKind};

use crate::resolve::on_the_way;
use crate::shard::Side;

/// How many events are compared at a time.
const PAGE: usize = 256;

/// What the source's copy is to the destination's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// What a move left behind: the destination has all of it.
    Leftover,
    /// Another log, and why.
    Different(String),
    /// One of them is not there any more.
    Gone,
}

/// Whether two heads could be those of a copy and what a move left behind of it. Cheap, and no proof.
pub(crate) fn may_be_leftover(source: &LogHead, destination: &LogHead) -> bool {
    source.created_at == destination.created_at
        && if source.is_closed() {
            source.next_sequence == destination.next_sequence && destination.is_closed()
        } else {
            source.next_sequence <= destination.next_sequence
        }
}

/// Compares the logs event by event: the source's is a leftover if it is a prefix of the destination's.
pub(crate) async fn compare(
    operation: Operation,
    id: &ExecutionId,
    source: Side<'_>,
    destination: Side<'_>,
) -> Result<Relation, StoreError> {
    let mut from = 0;
    loop {
        let Some(left) = page(operation, id, source, from, PAGE).await? else {
            return Ok(Relation::Gone);
        };
        if left.is_empty() {
            return Ok(Relation::Leftover);
        }
        let Some(right) = page(operation, id, destination, from, left.len()).await? else {
            return Ok(Relation::Gone);
        };
        if right.is_empty() {
            return Ok(Relation::Different(format!(
                "shard {} has an event {from}, shard {} ends before it",
                source.id(),
                destination.id()
            )));
        }
        let differs = left.iter().zip(&right).find(|(left, right)| left != right);
        if let Some((event, _)) = differs {
            return Ok(Relation::Different(format!(
                "event {} is not the same on shards {} and {}",
                event.sequence,
                source.id(),
                destination.id()
            )));
        }
        from += left.len().min(right.len()) as u64;
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
