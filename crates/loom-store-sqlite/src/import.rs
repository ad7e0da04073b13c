//! Receiving records from another shard.

use loom_spi::{Event, Import, ImportAdmission, Imported, LogHead, StoreErrorKind};
use rusqlite::Row;

use crate::failure::{Failure, corrupt};
use crate::marks;
use crate::merge::Merged;
use crate::read::EVENTS;
use crate::record::Record;
use crate::staged::Staged;
use crate::writer::{Transaction, Work};

impl Work for Import {
    type Output = Imported;

    fn run(&self, transaction: &mut Transaction<'_, '_>) -> Result<Imported, Failure> {
        let (found, state) = transaction.find(&self.id)?;
        let marked = marks::is_left(transaction, &self.id)?;
        let admission = state.admit_import(self, marked)?;
        check_head(self)?;
        match admission {
            ImportAdmission::Stage => stage(self, found, transaction),
            ImportAdmission::Compare => {
                compare_with_log(self, found.unwrap_or_default(), transaction)
            }
            ImportAdmission::Join => {
                let merged = Merged::of(transaction, self, found.as_ref())?;
                attach(self, found, None, &merged, transaction)
            }
            _ => Err(StoreErrorKind::Unsupported {
                capability: "this kind of import",
            }
            .into()),
        }
    }

    fn weight(&self) -> usize {
        let bytes = |event: &Event| 64 + event.kind.len() + event.payload.len();
        let edges = 64 * self.sealed.branches.len();
        edges + self.events.iter().map(bytes).sum::<usize>()
    }
}

/// Puts a part with those before it, and makes the record visible when it is complete. The events stay where they are
/// then: all that happens is that the record gets the number of their log.
fn stage(
    import: &Import,
    found: Option<Record>,
    transaction: &mut Transaction<'_, '_>,
) -> Result<Imported, Failure> {
    let head = whole_log(import);
    let found_staged = Staged::find(transaction, &import.id)?;
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
        compare(transaction, current.log, again)?;
    }
    let completes = next.max(arrived) >= import.sealed.events();
    // Already when the first part comes, so that a record that would be refused in the end is not staged in vain.
    let merged = Merged::of(transaction, import, found.as_ref())?;

    // Nothing is refused from here on.
    if let (Some(other), None) = (found_staged, current) {
        other.drop(transaction, &import.id)?;
    }
    let Some(head) = head else {
        return attach(import, found, None, &merged, transaction);
    };
    let log = match current {
        Some(current) => current.log,
        None => transaction.new_log()?,
    };
    insert(transaction, log, new)?;
    if completes {
        Staged::attached(transaction, &import.id)?;
        return attach(import, found, Some((log, head)), &merged, transaction);
    }
    let next = next.max(arrived);
    Staged { log, next, head }.put(transaction, &import.id)?;
    Ok(Imported::Staged {
        next_sequence: next,
    })
}

/// Makes everything visible that has arrived of a record.
fn attach(
    import: &Import,
    found: Option<Record>,
    log: Option<(i64, LogHead)>,
    merged: &Merged,
    transaction: &mut Transaction<'_, '_>,
) -> Result<Imported, Failure> {
    let is_new = found.is_none();
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
    if is_new {
        record.insert(&mut transaction.statements().insert_record, &import.id)?;
    } else {
        record.update(&mut transaction.statements().update_record)?;
    }
    merged.write(transaction, &record)?;
    transaction.remember(&import.id, record);
    Ok(Imported::Visible)
}

/// Compares a part with the log that is here, which is at least as long as the whole import.
fn compare_with_log(
    import: &Import,
    mut record: Record,
    transaction: &mut Transaction<'_, '_>,
) -> Result<Imported, Failure> {
    if let Some(log) = record.log {
        compare(transaction, log, &import.events)?;
    }
    let next_sequence = import.next_sequence();
    if next_sequence < import.sealed.events() {
        return Ok(Imported::Staged { next_sequence });
    }
    if let Some(obsolete) = Staged::find(transaction, &import.id)? {
        obsolete.drop(transaction, &import.id)?;
    }
    if record.raise_fence(import.sealed.fence, import.sealed.holder.as_deref()) {
        transaction.store(&import.id, record)?;
    }
    Ok(Imported::AlreadyThere)
}

fn insert(
    transaction: &mut Transaction<'_, '_>,
    log: i64,
    events: &[Event],
) -> Result<(), Failure> {
    let insert_event = &mut transaction.statements().insert_event;
    for event in events {
        insert_event.execute((
            log,
            event.sequence.cast_signed(),
            event.terminal,
            event.recorded_at.as_millis(),
            &*event.kind,
            &*event.payload,
        ))?;
    }
    Ok(())
}

/// Refuses events that are others than those of a log at the same sequences, which all are there.
fn compare(transaction: &Transaction<'_, '_>, log: i64, events: &[Event]) -> Result<(), Failure> {
    let Some(first) = events.first() else {
        return Ok(());
    };
    let mut find = transaction.connection().prepare_cached(EVENTS)?;
    let mut rows = find.query((log, first.sequence.cast_signed()))?;
    for event in events {
        let sequence = event.sequence;
        let row = rows.next()?;
        let Some(row) = row.filter(|row| row.get(0) == Ok(sequence.cast_signed())) else {
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
fn difference(row: &Row<'_>, event: &Event) -> Result<Option<&'static str>, Failure> {
    let mismatch = |column| corrupt(format!("an event's {column} is stored as another type"));
    let kind = row.get_ref(3)?.as_str().map_err(|_| mismatch("kind"))?;
    let payload = row.get_ref(4)?.as_blob().map_err(|_| mismatch("payload"))?;
    Ok(if *kind != *event.kind {
        Some("kind")
    } else if *payload != *event.payload {
        Some("payload")
    } else if row.get::<_, i64>(2)? != event.recorded_at.as_millis() {
        Some("time")
    } else if row.get::<_, bool>(1)? != event.terminal {
        Some("terminal mark")
    } else {
        None
    })
}

/// The log as it will be here; `None` when the record has none.
fn whole_log(import: &Import) -> Option<LogHead> {
    let head = import.sealed.head.filter(|head| head.next_sequence > 0);
    head.map(|head| head.with_sealed(false))
}

/// Refuses events that cannot be those of the sealed log by their times, and a log that is too long to be stored.
fn check_head(import: &Import) -> Result<(), StoreErrorKind> {
    let Some(head) = whole_log(import) else {
        return Ok(());
    };
    let invalid = |reason| Err(StoreErrorKind::InvalidArgument { reason });
    if head.next_sequence > i64::MAX.cast_unsigned() {
        return invalid(format!(
            "a log of {} events is longer than a log can be",
            head.next_sequence
        ));
    }
    let first = import.events.first().filter(|event| event.sequence == 0);
    let last = (import.next_sequence() == head.next_sequence)
        .then_some(import.events.last())
        .flatten();
    for (event, expected) in [(first, head.created_at), (last, head.updated_at)] {
        if let Some(event) = event.filter(|event| event.recorded_at != expected) {
            return invalid(format!(
                "event {} was recorded at {}: expected {expected}, as the sealed log says",
                event.sequence, event.recorded_at
            ));
        }
    }
    Ok(())
}
