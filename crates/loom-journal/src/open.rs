//! Opening a journal: who may write the log, and whether it is the right one.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use loom_spi::{
    Append, DispatchRequest, EventStore, ExecutionId, ExecutionOutcome, NewEvent, Read, ReadPage,
    StoreErrorKind,
};
use tokio::sync::Mutex;

use crate::encode::Encoder;
use crate::hold::Hold;
use crate::journal::Core;
use crate::log::{ATTEMPTS, LastWord, Log};
use crate::outcome::last_outcome;
use crate::replay::Replay;
use crate::run::new_run;
use crate::slot::Slots;
use crate::{Anchor, JournalError, JournalOptions};

pub(crate) async fn open(
    store: Arc<dyn EventStore>,
    request: &DispatchRequest,
    options: &JournalOptions,
) -> Result<Core, JournalError> {
    let id = &request.id;
    let wanted = Anchor::of(request)?;
    let run = new_run();
    let encoder = Encoder::new(&*store, id, &run);
    let started = encoder.started(&wanted)?;
    let opening = Opening {
        store: &store,
        id,
        wanted: &wanted,
        options,
        page_events: options.page_events.max(1),
    };
    let seen = opening.look().await?;
    let asked = Instant::now();
    let (hold, page, outcome) = match seen {
        Some(page) if page.head.is_closed() => {
            let outcome = last_outcome(&*store, id, page.head.next_sequence).await?;
            (None, Some(page), Some(outcome))
        }
        seen => opening.take(seen.is_some(), started).await?,
    };
    let length = page.as_ref().map_or(1, |page| page.head.next_sequence);
    let replay = Replay::of(page.as_ref().map_or(0, |page| page.head.next_sequence));
    let mut log = Log {
        store: Arc::clone(&store),
        id: id.clone(),
        run,
        hold: hold.clone(),
        page_events: opening.page_events,
        next_sequence: length,
        in_doubt: false,
        replay,
    };
    if let (Some(page), None) = (&page, &outcome) {
        log.take_in(&page.events)?;
    }
    let replaying = AtomicBool::new(page.is_some() && !log.replay.is_over());
    let lease = hold.as_ref().and_then(|hold| hold.lease);
    // When the lease may have lapsed, somebody else may have it.
    let confirm_after = options
        .confirm_after
        .min(lease.map_or(Duration::MAX, |lease| lease / 2));
    Ok(Core {
        id: id.clone(),
        encoder,
        hold,
        confirm_after,
        slots: Slots::default(),
        log: Mutex::new(log),
        confirmed: LastWord::at(asked),
        replaying,
        outcome: outcome.map(OnceLock::from).unwrap_or_default(),
        halted: OnceLock::new(),
    })
}

/// What a writer starts from: its token, the first page unless the log was just begun, and the outcome if
/// the log has ended.
type Taken = (
    Option<Arc<Hold>>,
    Option<ReadPage>,
    Option<ExecutionOutcome>,
);

struct Opening<'a> {
    store: &'a Arc<dyn EventStore>,
    id: &'a ExecutionId,
    wanted: &'a Anchor,
    options: &'a JournalOptions,
    page_events: usize,
}

impl Opening<'_> {
    /// The first page of the log, if there is one, and it is the one wanted.
    async fn look(&self) -> Result<Option<ReadPage>, JournalError> {
        let request = Read::new(self.id.clone(), 0, self.page_events);
        let page = match (**self.store).read(request).await {
            Ok(page) => page,
            Err(error) if *error.kind() == StoreErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(JournalError::store(self.id, error)),
        };
        let Some(first) = page.events.first() else {
            let reason = "the store returned nothing here, though the log exists";
            return Err(JournalError::corrupt(self.id, 0, reason));
        };
        let recorded = Anchor::read(self.id, first)?;
        match recorded.difference(self.wanted) {
            Some(difference) => Err(JournalError::IdTaken {
                id: self.id.clone(),
                difference,
            }),
            None => Ok(Some(page)),
        }
    }

    /// Takes the fence, and begins the log unless it is there. Two who begin it at once want
    /// the same, or the second is told that the id is taken: it does not matter whose anchor stands.
    async fn take(&self, exists: bool, started: NewEvent) -> Result<Taken, JournalError> {
        let hold = Hold::take(self.store, self.id, self.options).await?;
        let token = hold.as_ref().map(|hold| hold.token);
        // What was seen before the fence was taken may have grown since.
        let mut page = if exists { self.look().await? } else { None };
        let mut attempt = 1;
        while page.is_none() {
            let append = Append::new(self.id.clone(), 0, vec![started.clone()]).with_fence(token);
            let Err(error) = (**self.store).append(append).await else {
                return Ok((hold, None, None));
            };
            let look_again = match error.kind() {
                StoreErrorKind::SequenceConflict { .. }
                | StoreErrorKind::Closed { .. }
                | StoreErrorKind::Unavailable { .. } => attempt < ATTEMPTS,
                _ => false,
            };
            if !look_again {
                return Err(JournalError::refused(self.id, error));
            }
            page = self.look().await?;
            attempt += 1;
        }
        let outcome = match &page {
            Some(page) if page.head.is_closed() => {
                Some(last_outcome(&**self.store, self.id, page.head.next_sequence).await?)
            }
            _ => None,
        };
        Ok((hold, page, outcome))
    }
}
