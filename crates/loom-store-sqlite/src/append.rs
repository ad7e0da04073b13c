//! Appending.

use loom_spi::{Append, Appended, ExecutionState, LogHead};

use crate::failure::Failure;
use crate::record::Record;
use crate::writer::{Transaction, Work};

impl Work for Append {
    type Output = Appended;

    fn run(&self, transaction: &mut Transaction<'_>) -> Result<Appended, Failure> {
        let (found, state) = transaction.find(&self.id)?;
        state.admit_append(self, transaction.limits())?;
        let Some(last) = self.events.last() else {
            // Not admitted.
            return Ok(Appended::new(self.expected));
        };

        let next = self.expected + self.events.len() as u64;
        let is_new = found.is_none();
        let mut record = found.unwrap_or_default();
        let state = if last.terminal {
            ExecutionState::Closed
        } else {
            ExecutionState::Open
        };
        let created_at = match (record.head, self.events.first()) {
            (Some(head), _) => head.created_at,
            (None, first) => first.map_or(last.recorded_at, |first| first.recorded_at),
        };
        let continues = record.log.is_some();
        let log = match record.log {
            Some(log) => log,
            None => transaction.new_log()?,
        };
        record.log = Some(log);
        record.head = Some(
            LogHead::new(next, state, created_at, last.recorded_at).with_sealed(record.sealed),
        );
        let raises_fence = self.fence > record.fence;
        if raises_fence {
            record.fence = self.fence;
        }
        self.store_events(transaction, log)?;
        store_record(
            transaction,
            &mut record,
            is_new,
            continues && !raises_fence,
            self,
        )?;
        transaction.remember(&self.id, record);
        Ok(Appended::new(next))
    }

    fn weight(&self) -> usize {
        let bytes = |event: &loom_spi::NewEvent| 64 + event.kind.len() + event.payload.len();
        self.events.iter().map(bytes).sum()
    }
}

trait StoreEvents {
    fn store_events(&self, transaction: &Transaction<'_>, log: i64) -> Result<(), Failure>;
}

impl StoreEvents for Append {
    fn store_events(&self, transaction: &Transaction<'_>, log: i64) -> Result<(), Failure> {
        let mut insert = transaction.connection().prepare_cached(
            "INSERT INTO events (log, seq, terminal, recorded_at, kind, payload)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        for (event, sequence) in self.events.iter().zip(self.expected..) {
            insert.execute((
                log,
                sequence.cast_signed(),
                event.terminal,
                event.recorded_at.as_millis(),
                &*event.kind,
                &*event.payload,
            ))?;
        }
        Ok(())
    }
}

fn store_record(
    transaction: &Transaction<'_>,
    record: &mut Record,
    is_new: bool,
    only_head: bool,
    append: &Append,
) -> Result<(), Failure> {
    let connection = transaction.connection();
    if is_new {
        record.insert(connection, &append.id)
    } else if only_head {
        record.update_head(connection)
    } else {
        record.update(connection)
    }
}
