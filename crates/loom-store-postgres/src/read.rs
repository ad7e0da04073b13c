//! Reading the events of a log.

use std::sync::Arc;

use bytes::Bytes;
use loom_spi::{Event, NewEvent, PlanEpoch, Read, ReadPage, StoreErrorKind, Timestamp};
use tokio_postgres::Row;

use crate::change::no_shard_row;
use crate::failure::{Failure, corrupt};
use crate::record::{self, column, key_of};
use crate::session::Session;

/// A page ends with the event that makes its kinds and payloads reach this, in bytes.
const PAGE_BYTES: i64 = 4 << 20;

/// The most events of a page.
const PAGE_EVENTS: usize = 65_536;

/// One statement, and so one snapshot: the plan, the log's state and its events. Sizes are added up without looking into
/// large payloads, so that a page of them is not read to be thrown away.
pub(crate) const READ: &str = "
    SELECT r.next_seq, r.closed, r.sealed, r.created_at, r.updated_at, s.epoch, s.fingerprint,
           e.seq, e.terminal, e.recorded_at, e.kind, e.payload
    FROM shard AS s
        LEFT JOIN records AS r ON r.index_key = $1 AND r.id = $2
        LEFT JOIN LATERAL (
            SELECT sized.seq, sized.terminal, sized.recorded_at, sized.kind, sized.payload
            FROM (
                SELECT l.seq, l.terminal, l.recorded_at, l.kind, l.payload,
                       sum(octet_length(l.kind) + octet_length(l.payload))
                           OVER (ORDER BY l.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
                FROM (
                    SELECT * FROM events AS f WHERE f.log = r.log AND f.seq >= $3 ORDER BY f.seq LIMIT $4
                ) AS l
            ) AS sized
            WHERE coalesce(sized.before, 0) < $5
        ) AS e ON true
    WHERE s.one = 1
    ORDER BY e.seq";

/// Reads a page, and the state of the log at the same moment.
pub(crate) async fn read(session: &Session, request: &Read) -> Result<ReadPage, Failure> {
    if request.limit == 0 {
        return Err(limit_of_zero().into());
    }
    // No log is longer.
    let from = i64::try_from(request.from).unwrap_or(i64::MAX);
    let limit = i64::try_from(request.limit.min(PAGE_EVENTS)).unwrap_or(i64::MAX);
    let rows = session
        .query(
            READ,
            &[
                &key_of(&request.id),
                &request.id.as_str(),
                &from,
                &limit,
                &PAGE_BYTES,
            ],
        )
        .await?;
    let first = rows.first().ok_or_else(no_shard_row)?;
    PlanEpoch::admit(record::plan(first, 5)?, request.epoch)?;
    let head = match column::<Option<i64>>(first, 0)? {
        Some(_) => record::head(first, 0)?,
        None => None,
    };
    let head = head.ok_or(StoreErrorKind::NotFound)?;
    let left = head.next_sequence.saturating_sub(request.from);
    let mut events = Vec::with_capacity(rows.len());
    for row in &rows {
        let sequence = request.from.saturating_add(events.len() as u64);
        match column::<Option<i64>>(row, 7)? {
            None => break,
            Some(stored) if stored == sequence.cast_signed() => {
                events.push(Event::from_new(sequence, event(row, 8)?));
            }
            Some(_) => return Err(missing(head.next_sequence, sequence)),
        }
    }
    if events.is_empty() && left > 0 || events.len() as u64 > left {
        return Err(missing(head.next_sequence, request.from));
    }
    Ok(ReadPage::new(events, head))
}

fn missing(events: u64, sequence: u64) -> Failure {
    corrupt(format!(
        "the log has {events} events, and those from sequence {sequence} on are not what was stored"
    ))
}

pub(crate) fn limit_of_zero() -> StoreErrorKind {
    StoreErrorKind::InvalidArgument {
        reason: "the limit is 0: expected at least 1".into(),
    }
}

/// Reads the columns `terminal, recorded_at, kind, payload`, the first of which is column `at`.
pub(crate) fn event(row: &Row, at: usize) -> Result<NewEvent, Failure> {
    let kind = str::from_utf8(column(row, at + 2)?)
        .map_err(|_| corrupt("a stored event's kind is not UTF-8"))?;
    let payload = Bytes::copy_from_slice(column(row, at + 3)?);
    let recorded_at = Timestamp::from_millis(column(row, at + 1)?);
    let event = NewEvent::new(Arc::<str>::from(kind), payload).recorded_at(recorded_at);
    Ok(if column(row, at)? {
        event.terminal()
    } else {
        event
    })
}
