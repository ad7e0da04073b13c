//! Receiving records from another shard.

use loom_spi::{Event, Import, ImportAdmission, Imported, LogHead, StoreErrorKind};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::change::{Change, Work};
use crate::failure::{Failure, corrupt};
use crate::marks;
use crate::merge::Merged;
use crate::record::{Record, column};
use crate::session::Session;
use crate::staged::Staged;

impl Work for Import {
    type Output = Imported;

    async fn run(&self, change: &mut Change<'_>) -> Result<Imported, Failure> {
        let (found, state) = change.find();
        let marked = marks::is_left(change.session(), &self.id).await?;
        match state.admit_import(self, marked)? {
            ImportAdmission::Stage => stage(self, found, change).await,
            ImportAdmission::Compare => {
                compare_with_log(self, found.unwrap_or_default(), change).await
            }
            ImportAdmission::Join => {
                let merged = Merged::of(change.session(), self, found.as_ref()).await?;
                attach(self, found, None, &merged, change).await
            }
            _ => Err(StoreErrorKind::Unsupported {
                capability: "this kind of import",
            }
            .into()),
        }
    }

    fn is_exclusive(&self) -> bool {
        true
    }
}

/// Puts a part with those before it, and makes the record visible when it is complete. The events stay where they are
/// then: all that happens is that the record gets the name of their log.
async fn stage(
    import: &Import,
    found: Option<Record>,
    change: &Change<'_>,
) -> Result<Imported, Failure> {
    let session = change.session();
    let head = whole_log(import)?;
    let found_staged = Staged::find(session, &import.id).await?;
    let current = found_staged.filter(|staged| Some(staged.head) == head);
    let arrived = current.map_or(0, |staged| staged.next);
    let (first, next) = (import.first_sequence(), import.next_sequence());
    if first > arrived {
        return Err(StoreErrorKind::InvalidArgument {
            reason: format!(
                "the part begins at sequence {first}, but the parts that are here end before \
                 {arrived}: expected that or less"
            ),
        }
        .into());
    }
    // No more than there are events in the part.
    let again = usize::try_from(arrived.min(next) - first).unwrap_or(usize::MAX);
    let (again, new) = import.events.split_at(again.min(import.events.len()));
    if let Some(current) = current {
        compare(session, current.log, again).await?;
    }
    let completes = next.max(arrived) >= import.sealed.events();
    // Already when the first part comes, so that a record that would be refused in the end is not staged in vain.
    let merged = Merged::of(session, import, found.as_ref()).await?;

    if let (Some(other), None) = (found_staged, current) {
        other.drop(session, &import.id).await?;
    }
    let Some(head) = head else {
        return attach(import, found, None, &merged, change).await;
    };
    let log = current.map_or_else(Uuid::now_v7, |current| current.log);
    insert(session, log, new).await?;
    if completes {
        Staged::attached(session, &import.id).await?;
        return attach(import, found, Some((log, head)), &merged, change).await;
    }
    let next = next.max(arrived);
    Staged { log, next, head }.put(session, &import.id).await?;
    Ok(Imported::Staged {
        next_sequence: next,
    })
}

/// Makes everything visible that has arrived of a record.
async fn attach(
    import: &Import,
    found: Option<Record>,
    log: Option<(Uuid, LogHead)>,
    merged: &Merged,
    change: &Change<'_>,
) -> Result<Imported, Failure> {
    let mut record = found.unwrap_or_default();
    let raised = record.raise_fence(import.sealed.fence, import.sealed.holder.as_deref());
    if !raised && !merged.changes && log.is_none() {
        return Ok(Imported::AlreadyThere);
    }
    if let Some((log, head)) = log {
        record.log = Some(log);
        record.head = Some(head);
    }
    record.branches = merged.branches.len() as u64;
    if merged.changes {
        record.next_branch = i64::try_from(merged.branches.len()).unwrap_or(i64::MAX);
    }
    change.store(&import.id, &record).await?;
    merged.write(change.session(), &import.id).await?;
    Ok(Imported::Visible)
}

/// Compares a part with the log that is here, which is at least as long as the whole import.
async fn compare_with_log(
    import: &Import,
    mut record: Record,
    change: &Change<'_>,
) -> Result<Imported, Failure> {
    let session = change.session();
    if let Some(log) = record.log {
        compare(session, log, &import.events).await?;
    }
    let next_sequence = import.next_sequence();
    if next_sequence < import.sealed.events() {
        return Ok(Imported::Staged { next_sequence });
    }
    if let Some(obsolete) = Staged::find(session, &import.id).await? {
        obsolete.drop(session, &import.id).await?;
    }
    if record.raise_fence(import.sealed.fence, import.sealed.holder.as_deref()) {
        change.store(&import.id, &record).await?;
    }
    Ok(Imported::AlreadyThere)
}

const INSERT: &str = "
    INSERT INTO events (log, seq, recorded_at, terminal, kind, payload)
    SELECT $1, e.seq, e.at, e.terminal, e.kind, e.payload
    FROM unnest($2::int8[], $3::int8[], $4::bool[], $5::bytea[], $6::bytea[]) AS e (seq, at, terminal, kind, payload)";

async fn insert(session: &Session, log: Uuid, events: &[Event]) -> Result<(), Failure> {
    if events.is_empty() {
        return Ok(());
    }
    let each = events.iter();
    let seqs: Vec<i64> = each
        .clone()
        .map(|event| event.sequence.cast_signed())
        .collect();
    let times: Vec<i64> = each
        .clone()
        .map(|event| event.recorded_at.as_millis())
        .collect();
    let terminals: Vec<bool> = each.clone().map(|event| event.terminal).collect();
    let kinds: Vec<&[u8]> = each.clone().map(|event| event.kind.as_bytes()).collect();
    let payloads: Vec<&[u8]> = each.map(|event| &*event.payload).collect();
    session
        .execute(
            INSERT,
            &[&log, &seqs, &times, &terminals, &kinds, &payloads],
        )
        .await?;
    Ok(())
}

const EVENTS: &str = "
    SELECT seq, terminal, recorded_at, kind, payload
    FROM events WHERE log = $1 AND seq >= $2 AND seq < $3 ORDER BY seq";

/// Refuses events that are others than those of a log at the same sequences, which all are there.
async fn compare(session: &Session, log: Uuid, events: &[Event]) -> Result<(), Failure> {
    let (Some(first), Some(last)) = (events.first(), events.last()) else {
        return Ok(());
    };
    let (from, to) = (
        first.sequence.cast_signed(),
        last.sequence.cast_signed() + 1,
    );
    let rows = session.query(EVENTS, &[&log, &from, &to]).await?;
    let mut rows = rows.iter();
    for event in events {
        let sequence = event.sequence;
        let row = rows.next();
        let Some(row) = row.filter(|row| row.try_get(0).ok() == Some(sequence.cast_signed()))
        else {
            return Err(corrupt(format!(
                "the event at sequence {sequence} is missing"
            )));
        };
        if let Some(part) = difference(row, event)? {
            return Err(StoreErrorKind::RecordConflict {
                reason: format!("event {sequence} has another {part} here than the imported one"),
            }
            .into());
        }
    }
    Ok(())
}

/// What of an event is not as in its row of [`EVENTS`].
fn difference(row: &Row, event: &Event) -> Result<Option<&'static str>, Failure> {
    Ok(if column::<&[u8]>(row, 3)? != event.kind.as_bytes() {
        Some("kind")
    } else if column::<&[u8]>(row, 4)? != &*event.payload {
        Some("payload")
    } else if column::<i64>(row, 2)? != event.recorded_at.as_millis() {
        Some("time")
    } else if column::<bool>(row, 1)? != event.terminal {
        Some("terminal mark")
    } else {
        None
    })
}

/// The log as it will be here; `None` when the record has none. Refuses one that is too long to be stored.
fn whole_log(import: &Import) -> Result<Option<LogHead>, StoreErrorKind> {
    match import.sealed.head {
        Some(head) if head.next_sequence > i64::MAX.cast_unsigned() => {
            Err(StoreErrorKind::InvalidArgument {
                reason: format!(
                    "a log of {} events is longer than a log can be",
                    head.next_sequence
                ),
            })
        }
        head => Ok(head.map(|head| head.with_sealed(false))),
    }
}
