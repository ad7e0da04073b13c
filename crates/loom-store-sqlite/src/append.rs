//! Appending.

use loom_spi::{Append, Appended, ExecutionState, LogHead};

use crate::failure::Failure;
use crate::writer::{Transaction, Work};

impl Work for Append {
    type Output = Appended;

    fn run(&self, transaction: &mut Transaction<'_, '_>) -> Result<Appended, Failure> {
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
        let statements = transaction.statements();
        for (event, sequence) in self.events.iter().zip(self.expected..) {
            statements.insert_event.execute((
                log,
                sequence.cast_signed(),
                event.terminal,
                event.recorded_at.as_millis(),
                &*event.kind,
                &*event.payload,
            ))?;
        }
        if is_new {
            record.insert(&mut statements.insert_record, &self.id)?;
        } else if continues && !raises_fence {
            record.update_head(&mut statements.update_head)?;
        } else {
            record.update(&mut statements.update_record)?;
        }
        transaction.remember(&self.id, record);
        Ok(Appended::new(next))
    }

    fn weight(&self) -> usize {
        let bytes = |event: &loom_spi::NewEvent| 64 + event.kind.len() + event.payload.len();
        self.events.iter().map(bytes).sum()
    }
}
