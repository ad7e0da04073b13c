//! What is on its way into a store, and what must not come any more.

use std::collections::{HashMap, HashSet};

use loom_spi::{Event, ExecutionId, Import, Imported, LogHead, StoreErrorKind};

/// Parts of imports that are not complete, and marks that keep late ones out. Both mean something under one
/// plan only.
#[derive(Default)]
pub(crate) struct Arrivals {
    staged: HashMap<ExecutionId, Staged, ahash::RandomState>,
    marks: HashSet<ExecutionId, ahash::RandomState>,
}

/// The beginning of a log.
struct Staged {
    head: Option<LogHead>,
    events: Vec<Event>,
}

/// What became of a part.
pub(crate) enum Part {
    /// More is needed.
    Staged(Imported),
    /// The whole log.
    Complete(Vec<Event>),
}

impl Arrivals {
    /// Remembers that `id` must not be imported.
    pub(crate) fn mark(&mut self, id: &ExecutionId) {
        self.marks.insert(id.clone());
        self.staged.remove(id);
    }

    pub(crate) fn is_marked(&self, id: &ExecutionId) -> bool {
        self.marks.contains(id)
    }

    /// Adds a part of a log to those before it. What is there already is skipped, and another log under the
    /// same id replaces it from the start.
    pub(crate) fn stage(&mut self, import: &Import) -> Result<Part, StoreErrorKind> {
        let first = import.first_sequence();
        let staged = self.staged.get(&import.id);
        let staged = staged.filter(|staged| staged.head == import.sealed.head);
        let reached = staged.map_or(0, |staged| staged.events.len() as u64);
        if first > reached {
            return Err(StoreErrorKind::InvalidArgument {
                reason: format!(
                    "the part starts at event {first}: expected one that starts at event {reached} or before"
                ),
            });
        }
        if let Some(staged) = staged {
            compare(&import.events, &staged.events)?;
        }
        // What overlaps is there already.
        let overlap = usize::try_from(reached - first).unwrap_or(usize::MAX);
        let fresh = import.events.iter().skip(overlap).cloned();
        let mut whole = match self.staged.remove(&import.id) {
            Some(staged) if staged.head == import.sealed.head => staged,
            _ => Staged {
                head: import.sealed.head,
                events: Vec::new(),
            },
        };
        whole.events.extend(fresh);
        let next_sequence = whole.events.len() as u64;
        if next_sequence == import.sealed.events() {
            return Ok(Part::Complete(whole.events));
        }
        self.staged.insert(import.id.clone(), whole);
        Ok(Part::Staged(Imported::Staged { next_sequence }))
    }
}

/// Refuses events that differ from those with the same sequence that are here.
pub(crate) fn compare(events: &[Event], here: &[Event]) -> Result<(), StoreErrorKind> {
    for event in events {
        let place = usize::try_from(event.sequence).unwrap_or(usize::MAX);
        if here.get(place).is_some_and(|known| known != event) {
            return Err(StoreErrorKind::RecordConflict {
                reason: format!("event {} is another one", event.sequence),
            });
        }
    }
    Ok(())
}
