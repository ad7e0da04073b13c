//! What the log records of the effects that the flow has not asked for yet.

use std::collections::HashMap;
use std::sync::Arc;

use loom_spi::{Event, ExecutionId};
use serde_json::value::RawValue;

use crate::JournalError;
use crate::error::EffectFailure;
use crate::slot::{Slot, Slots};
use crate::wire::{self, Effect};

/// The recorded effects, taken in as the log is read and given out as the flow asks for them. A flow
/// that does one thing after another asks in the order of the log, so that never more than a page is
/// kept.
#[derive(Debug)]
pub(crate) struct Replay {
    /// Up to where the log has been taken in.
    pub(crate) next: u64,
    /// How long the log was when it was opened. What is appended later needs no replay.
    pub(crate) end: u64,
    records: HashMap<Slot, Record>,
}

/// What is recorded of one effect.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) key: String,
    pub(crate) sequence: u64,
    /// `None` while only the intent is known.
    pub(crate) result: Option<Result<Box<RawValue>, EffectFailure>>,
}

impl Replay {
    /// Of a log of this length; 0 when there is nothing to replay, because the log was just begun.
    pub(crate) fn of(end: u64) -> Self {
        Self {
            next: 0,
            end,
            records: HashMap::new(),
        }
    }

    pub(crate) fn has_more_to_read(&self) -> bool {
        self.next < self.end
    }

    /// Whether nothing recorded is left to give out.
    pub(crate) fn is_over(&self) -> bool {
        !self.has_more_to_read() && self.records.is_empty()
    }

    /// Takes in the next event of the log.
    pub(crate) fn take_in(&mut self, id: &ExecutionId, event: &Event) -> Result<(), JournalError> {
        match &*event.kind {
            // The anchor is checked when the journal is opened.
            wire::STARTED if event.sequence == 0 => {}
            wire::INTENT => self.insert(id, event, true)?,
            wire::EFFECT => self.insert(id, event, false)?,
            wire::STARTED | wire::COMPLETED | wire::FAILED | wire::CANCELLED => {
                let reason = format!("a `{}` stands in the middle of the log", event.kind);
                return Err(JournalError::corrupt(id, event.sequence, reason));
            }
            _ => return Err(wire::not_a_journal(id, event)),
        }
        self.next = event.sequence + 1;
        Ok(())
    }

    fn insert(
        &mut self,
        id: &ExecutionId,
        event: &Event,
        intent: bool,
    ) -> Result<(), JournalError> {
        let effect: Effect<'_> = wire::decode(id, event)?;
        let slot = Slot {
            scope: effect.scope.iter().map(|name| Arc::from(&**name)).collect(),
            ordinal: effect.ordinal,
        };
        let key = effect.key.clone().into_owned();
        if let Some(earlier) = self.records.get(&slot)
            && (intent || earlier.result.is_some() || earlier.key != key)
        {
            let reason = format!(
                "it records effect `{key}` where sequence {} records effect `{}`",
                earlier.sequence, earlier.key
            );
            return Err(JournalError::corrupt(id, event.sequence, reason));
        }
        let record = Record {
            key,
            sequence: event.sequence,
            result: (!intent).then(|| effect.into_result()),
        };
        self.records.insert(slot, record);
        Ok(())
    }

    /// Gives out what is known of an effect: not yet when an intent stands there and the result may
    /// follow in what is still to be read.
    pub(crate) fn give_out(&mut self, slot: &Slot) -> Option<Record> {
        let record = self.records.get(slot)?;
        if record.result.is_none() && self.has_more_to_read() {
            return None;
        }
        self.records.remove(slot)
    }

    /// The first recorded effect that the flow has not asked for.
    pub(crate) fn first_unasked(&self, slots: &Slots) -> Option<&Record> {
        let unasked = self
            .records
            .iter()
            .filter(|(slot, _)| !slots.were_asked_for(slot));
        unasked
            .map(|(_, record)| record)
            .min_by_key(|record| record.sequence)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use loom_spi::{DispatchRequest, EventStore};
    use loom_store_memory::MemoryStore;

    use super::*;
    use crate::{ExecutionJournal, JournalOptions};

    #[tokio::test]
    async fn however_long_the_log_a_replay_keeps_no_more_than_a_page_of_it() {
        const EFFECTS: u64 = 20_000;
        const PAGE: usize = 64;
        let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
        let request = DispatchRequest::new(ExecutionId::new("long").unwrap(), "loop");
        let options = JournalOptions::default().with_page_events(PAGE);
        let mut most = 0;
        for run in 0..2 {
            let journal = ExecutionJournal::open(Arc::clone(&store), &request, &options);
            let journal = journal.await.unwrap();
            for value in 0..EFFECTS {
                let effect = journal.effect("step", move |_| async move {
                    assert_eq!(run, 0, "it is recorded");
                    Ok::<_, Infallible>(value)
                });
                assert_eq!(effect.await.unwrap(), value);
                most = most.max(journal.core().log.lock().await.replay.records.capacity());
            }
        }
        // A map has room for up to twice as many as it was ever asked to hold, and a little more.
        assert!((1..=4 * PAGE).contains(&most), "{most}");
    }
}
