//! The one writer of a log.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use loom_spi::{
    Append, Event, EventStore, ExecutionId, ExecutionOutcome, Head, NewEvent, Read, ReadPage,
    Retry, StoreError, StoreErrorKind,
};

use crate::JournalError;
use crate::hold::Hold;
use crate::replay::{Record, Replay};
use crate::slot::{Slot, Slots};
use crate::wire::{self, Header};

/// How often an append is sent before its store counts as out of reach.
pub(crate) const ATTEMPTS: u32 = 4;

/// The end of the log as its writer knows it, and where the next event goes. Whoever holds it is the only
/// one of this process who appends.
#[derive(Debug)]
pub(crate) struct Log {
    /// Called as `(*store)`: an `Arc` is a store, too, and would box each call once more.
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) id: ExecutionId,
    pub(crate) run: Arc<str>,
    pub(crate) hold: Option<Arc<Hold>>,
    pub(crate) page_events: usize,
    pub(crate) next_sequence: u64,
    /// An append was sent and its reply was not seen: the log may be longer than `next_sequence`.
    pub(crate) in_doubt: bool,
    pub(crate) replay: Replay,
}

/// When the store last said that this is the writer: the time at which it was asked.
#[derive(Debug)]
pub(crate) struct LastWord(Mutex<Instant>);

impl LastWord {
    pub(crate) fn at(at: Instant) -> Self {
        Self(Mutex::new(at))
    }

    pub(crate) fn is_older_than(&self, limit: Duration) -> bool {
        self.lock().elapsed() >= limit
    }

    pub(crate) fn note(&self, at: Instant) {
        let mut last = self.lock();
        *last = at.max(*last);
    }

    fn lock(&self) -> MutexGuard<'_, Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an append led to.
#[derive(Debug)]
pub(crate) enum Written {
    /// The event stands at this sequence.
    At(u64),
    /// An earlier terminal event of this run, whose reply was lost, had closed the log.
    Closed(ExecutionOutcome),
}

impl Log {
    /// Appends one event, once. When the reply is lost the tail of the log says what happened.
    ///
    /// The future may be dropped at any point: the next append then looks at the tail first.
    pub(crate) async fn append(
        &mut self,
        event: NewEvent,
        confirmed: &LastWord,
    ) -> Result<Written, JournalError> {
        let mut attempt = 1;
        loop {
            if self.in_doubt
                && let Some(written) = self.read_tail(&event).await?
            {
                return Ok(written);
            }
            let request = Append::new(self.id.clone(), self.next_sequence, vec![event.clone()]);
            self.in_doubt = true;
            let sent = Instant::now();
            let token = self.hold.as_ref().map(|hold| hold.token);
            let sent_off = request.with_fence(token);
            let Err(error) = (*self.store).append(sent_off).await else {
                let sequence = self.next_sequence;
                self.next_sequence += 1;
                self.in_doubt = false;
                confirmed.note(sent);
                return Ok(Written::At(sequence));
            };
            let again = match error.kind() {
                StoreErrorKind::SequenceConflict { .. }
                | StoreErrorKind::Closed { .. }
                | StoreErrorKind::Unavailable { .. } => attempt < ATTEMPTS,
                _ => false,
            };
            if !again {
                self.in_doubt = error.retry() == Retry::OutcomeUnknown;
                return Err(self.refused(error));
            }
            attempt += 1;
        }
    }

    /// Reads what stands after the known end. Events of this run are those whose reply was lost;
    /// any other means that the execution was taken over.
    async fn read_tail(&mut self, event: &NewEvent) -> Result<Option<Written>, JournalError> {
        let mut written = None;
        loop {
            let page = self.read(self.next_sequence).await?;
            for found in &page.events {
                let header: Header<'_> = self.foreign_if_unreadable(found)?;
                if *header.run != *self.run {
                    return Err(self.taken_over(found.sequence));
                }
                self.next_sequence = found.sequence + 1;
                if found.kind == event.kind && found.payload == event.payload {
                    written = Some(Written::At(found.sequence));
                } else if found.terminal {
                    written = Some(Written::Closed(wire::outcome(&self.id, found)?));
                }
            }
            if page.head.next_sequence < self.next_sequence {
                return Err(self.lost(page.head.next_sequence));
            }
            if page.head.next_sequence == self.next_sequence {
                self.in_doubt = false;
                return Ok(written);
            }
        }
    }

    fn foreign_if_unreadable<'a>(&self, event: &'a Event) -> Result<Header<'a>, JournalError> {
        wire::decode(&self.id, event).map_err(|_| self.taken_over(event.sequence))
    }

    /// What the log records of an effect, reading as far as that takes.
    pub(crate) async fn find(&mut self, slot: &Slot) -> Result<Option<Record>, JournalError> {
        loop {
            if let Some(record) = self.replay.give_out(slot) {
                return Ok(Some(record));
            }
            if !self.replay.has_more_to_read() {
                return Ok(None);
            }
            self.replay_page().await?;
        }
    }

    /// Refuses to end a flow that has not asked for everything that it did before.
    pub(crate) async fn check_all_asked_for(&mut self, slots: &Slots) -> Result<(), JournalError> {
        loop {
            if let Some(record) = self.replay.first_unasked(slots) {
                return Err(JournalError::NonDeterminism {
                    id: self.id.clone(),
                    recorded: record.key.clone(),
                    requested: None,
                    sequence: record.sequence,
                });
            }
            if !self.replay.has_more_to_read() {
                return Ok(());
            }
            self.replay_page().await?;
        }
    }

    async fn replay_page(&mut self) -> Result<(), JournalError> {
        let page = self.read(self.replay.next).await?;
        self.take_in(&page.events)
    }

    pub(crate) fn take_in(&mut self, events: &[Event]) -> Result<(), JournalError> {
        for event in events {
            if !self.replay.has_more_to_read() {
                break;
            }
            self.replay.take_in(&self.id, event)?;
        }
        Ok(())
    }

    /// Asks the store whether this still is the writer, unless it said so within `after`.
    pub(crate) async fn confirm(
        &mut self,
        after: Duration,
        last: &LastWord,
    ) -> Result<(), JournalError> {
        if !last.is_older_than(after) {
            return Ok(());
        }
        let asked = Instant::now();
        if let Some(hold) = &self.hold {
            let confirmed = hold.confirm().await;
            confirmed.map_err(|error| self.refused(error))?;
        } else {
            let head = (*self.store).head(Head::new(self.id.clone())).await;
            let head = head.map_err(|error| self.refused(error))?;
            let end = head.map_or(0, |head| head.next_sequence);
            if end < self.next_sequence {
                return Err(self.lost(end));
            }
            if end > self.next_sequence && !self.in_doubt {
                return Err(self.taken_over(self.next_sequence));
            }
        }
        last.note(asked);
        Ok(())
    }

    async fn read(&self, from: u64) -> Result<ReadPage, JournalError> {
        let request = Read::new(self.id.clone(), from, self.page_events);
        let page = (*self.store).read(request).await;
        let page = page.map_err(|error| JournalError::store(&self.id, error))?;
        if page.events.is_empty() && page.head.next_sequence > from {
            let reason = "the store returned nothing here, though the log goes on".to_owned();
            return Err(JournalError::corrupt(&self.id, from, reason));
        }
        Ok(page)
    }

    /// The log is shorter than what the store acknowledged.
    fn lost(&self, end: u64) -> JournalError {
        let reason = format!("it was acknowledged, but now the log has {end} events");
        JournalError::corrupt(&self.id, self.next_sequence.saturating_sub(1), reason)
    }

    fn refused(&self, error: StoreError) -> JournalError {
        JournalError::refused(&self.id, error)
    }

    fn taken_over(&self, sequence: u64) -> JournalError {
        JournalError::TakenOver {
            id: self.id.clone(),
            sequence: Some(sequence),
            source: None,
        }
    }
}
