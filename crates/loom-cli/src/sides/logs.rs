//! The logs of an execution, as single shards have them.

use std::cmp::Ordering;

use futures_util::future::try_join;
use loom_spi::{Event, ExecutionId, Head, LogHead, Read, ReadPage, StoreError, StoreErrorKind};

use super::{Side, Stop};

/// Events that are read at a time.
const PAGE: usize = 512;

/// A log on one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) shard: u16,
    pub(crate) head: LogHead,
}

/// The log that a shard has of an execution, if it has one.
pub(crate) async fn copy_of(side: &Side, id: &ExecutionId) -> Result<Option<Copy>, StoreError> {
    let head = Head::new(id.clone()).with_epoch(side.epoch);
    let head = side.store.head(head).await?;
    Ok(head.map(|head| Copy {
        shard: side.shard,
        head,
    }))
}

/// A page of a log from `from` on; `None` when there is no log.
pub(crate) async fn read_log(
    side: &Side,
    id: &ExecutionId,
    from: u64,
) -> Result<Option<ReadPage>, StoreError> {
    let read = Read::new(id.clone(), from, PAGE).with_epoch(side.epoch);
    match side.store.read(read).await {
        Ok(page) => Ok(Some(page)),
        Err(error) if *error.kind() == StoreErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What two logs of one execution are to each other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Relation {
    Same,
    /// The first one is the beginning of the second one.
    Begins,
    /// The second one is the beginning of the first one, and ends before this sequence.
    Continues {
        at: u64,
    },
    /// They are the same up to this sequence, at which both have an event.
    Differ {
        at: u64,
        events: Box<(Event, Event)>,
    },
    /// One of them is not there any more.
    Gone,
}

/// Compares two logs event by event.
pub(crate) async fn compare(
    id: &ExecutionId,
    first: &Side,
    second: &Side,
) -> Result<Relation, Stop> {
    let mut from = 0;
    loop {
        let (these, those) =
            try_join(read_log(first, id, from), read_log(second, id, from)).await?;
        let (Some(these), Some(those)) = (these, those) else {
            return Ok(Relation::Gone);
        };
        for (this, that) in these.events.iter().zip(&those.events) {
            if this != that {
                return Ok(Relation::Differ {
                    at: this.sequence,
                    events: Box::new((this.clone(), that.clone())),
                });
            }
        }
        let both = these.events.len().min(those.events.len());
        from += both as u64;
        if both > 0 && from < these.head.next_sequence && from < those.head.next_sequence {
            continue;
        }
        return Ok(match from.cmp(&these.head.next_sequence) {
            Ordering::Less => Relation::Continues { at: from },
            _ if from < those.head.next_sequence => Relation::Begins,
            _ => Relation::Same,
        });
    }
}
