//! Reading the events of a log.

use std::sync::Arc;

use bytes::Bytes;
use loom_spi::{Event, NewEvent, Read, ReadPage, StoreErrorKind, Timestamp};
use rusqlite::types::ValueRef;
use rusqlite::{Row, Statement};

use crate::failure::{Failure, corrupt};
use crate::head::{self, Found};
use crate::reader::Reader;

/// A page ends with the event that makes its kinds and payloads reach this, in bytes.
pub(crate) const PAGE_BYTES: usize = 4 << 20;

/// The most events of a page.
pub(crate) const PAGE_EVENTS: usize = 65_536;

/// Reads a page, and the state of the log at the same moment.
pub(crate) fn read(reader: &Reader, request: &Read) -> Result<ReadPage, Failure> {
    if request.limit == 0 {
        return Err(limit_of_zero().into());
    }
    reader.snapshot(|| {
        let found =
            head::find(reader, &request.id, request.epoch)?.ok_or(StoreErrorKind::NotFound)?;
        let events = events(&mut *reader.statement(EVENTS)?, &found, request)?;
        Ok(ReadPage::new(events, found.head))
    })
}

pub(crate) fn limit_of_zero() -> StoreErrorKind {
    StoreErrorKind::InvalidArgument {
        reason: "the limit is 0: expected at least 1".into(),
    }
}

fn events(
    statement: &mut Statement<'_>,
    found: &Found,
    request: &Read,
) -> Result<Vec<Event>, Failure> {
    let left = found.head.next_sequence.saturating_sub(request.from);
    let wanted = usize::try_from(left)
        .unwrap_or(usize::MAX)
        .min(request.limit)
        .min(PAGE_EVENTS);
    let mut events = Vec::with_capacity(wanted.min(1024));
    if wanted == 0 {
        return Ok(events);
    }
    let mut rows = statement.query((found.log, request.from.cast_signed()))?;
    let mut bytes = 0;
    for sequence in request.from.. {
        if events.len() == wanted || bytes >= PAGE_BYTES {
            break;
        }
        let row = rows.next()?;
        let Some(row) = row.filter(|row| row.get(0) == Ok(sequence.cast_signed())) else {
            return Err(corrupt(format!(
                "the log has {} events, but the one at sequence {sequence} is missing",
                found.head.next_sequence
            )));
        };
        let event = event(row)?;
        bytes += event.kind.len() + event.payload.len();
        events.push(Event::from_new(sequence, event));
    }
    Ok(events)
}

fn event(row: &Row<'_>) -> Result<NewEvent, Failure> {
    let kind: Arc<str> = match row.get_ref(3)? {
        ValueRef::Text(kind) => std::str::from_utf8(kind).ok().map(Arc::from),
        _ => None,
    }
    .ok_or_else(|| corrupt("a stored event's kind is not UTF-8"))?;
    let payload = match row.get_ref(4)? {
        ValueRef::Blob(payload) => Bytes::copy_from_slice(payload),
        _ => return Err(corrupt("a stored event's payload is not a blob")),
    };
    let event = NewEvent::new(kind, payload).recorded_at(Timestamp::from_millis(row.get(2)?));
    Ok(if row.get(1)? { event.terminal() } else { event })
}

/// Without `LIMIT ?`: SQLite plans a statement anew whenever another number is bound to one.
pub(crate) const EVENTS: &str = "
    SELECT seq, terminal, recorded_at, kind, payload
    FROM events WHERE log = ?1 AND seq >= ?2 ORDER BY seq";
