//! Requests and answers of [`Relocation`](crate::Relocation).

use crate::request::request;
use crate::{
    AcquireFence, Branch, Event, ExecutionId, FenceToken, ListCursor, LogHead, RecordLineage,
    RouteFilter, StoreErrorKind, Timestamp,
};

request! {
    /// Looks at one record.
    Inspect {
        /// The execution.
        id: ExecutionId,
    }
    optional {}
}

request! {
    /// Asks to seal a record.
    Seal {
        /// The execution.
        id: ExecutionId,
    }
    optional {}
}

/// A record that can no longer change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SealedRecord {
    /// The log, if the record has one. Says that it is sealed.
    pub head: Option<LogHead>,
    /// The highest fence token, if it was ever fenced.
    pub fence: Option<FenceToken>,
    /// Who acquired that token, if they gave a name.
    pub holder: Option<String>,
    /// Its branches, in the order recorded.
    pub branches: Vec<Branch>,
}

impl SealedRecord {
    /// For implementers of stores.
    #[must_use]
    pub fn new(head: Option<LogHead>, fence: Option<FenceToken>, branches: Vec<Branch>) -> Self {
        Self {
            head,
            fence,
            holder: None,
            branches,
        }
    }

    /// Sets who acquired the highest token.
    #[must_use]
    pub fn with_holder(mut self, holder: impl Into<Option<String>>) -> Self {
        self.holder = holder.into();
        self
    }

    /// What no store would have given out, if there is something of that kind.
    fn impossible(&self, id: &ExecutionId) -> Option<String> {
        if self.head.is_some_and(|head| head.next_sequence == 0) {
            return Some("the sealed head is of a log without events: expected none".to_owned());
        }
        if let Some(fence) = self.fence.filter(|fence| *fence > FenceToken::MAX) {
            return Some(format!(
                "fence tokens end at {}, this one is {fence}",
                FenceToken::MAX
            ));
        }
        let holder = AcquireFence::new(id.clone()).with_holder(self.holder.clone());
        let edges = self.branches.iter().map(|branch| {
            RecordLineage::new(id.clone(), branch.child.clone(), branch.label.clone()).check()
        });
        let refusal = edges.chain([holder.check()]).find_map(Result::err);
        refusal.map(|refusal| refusal.to_string())
    }

    /// The time that the head gives an event that is the first or the last of the log, if it is of another one.
    fn mistimed(&self, event: &Event) -> Option<Timestamp> {
        let head = self.head?;
        let first = (event.sequence == 0).then_some(head.created_at);
        let last = (event.sequence + 1 == head.next_sequence).then_some(head.updated_at);
        let mut times = [first, last].into_iter().flatten();
        times.find(|time| *time != event.recorded_at)
    }

    /// How many events the log has; 0 when there is no log.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.head.map_or(0, |head| head.next_sequence)
    }
}

request! {
    /// Delivers a record, or a part of its log. The record becomes visible when as many events have arrived
    /// as `sealed` says there are.
    Import {
        /// The execution.
        id: ExecutionId,
        /// What [`Relocation::seal`](crate::Relocation::seal) returned on the source.
        sealed: SealedRecord,
        /// The next events of the log; none when the record has no log.
        events: Vec<Event>,
    }
    optional {}
}

impl Import {
    /// The sequence of the first event of this part; where the log ends when there is none.
    #[must_use]
    pub fn first_sequence(&self) -> u64 {
        let first = self.events.first().map(|event| event.sequence);
        first.unwrap_or_else(|| self.sealed.events())
    }

    /// The sequence after the last event of this part.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.first_sequence()
            .saturating_add(self.events.len() as u64)
    }

    /// Checks what can be said without looking at the store: for implementers.
    ///
    /// # Errors
    /// [`StoreErrorKind::InvalidArgument`] when events are missing between the first and the last, when there
    /// are more than the sealed head says, none although there is a log, when an event other than the last of a
    /// closed log is terminal, when the times of the first or the last event are not those of the head, or when
    /// the fence, its holder or an edge is one that a store would not have taken.
    pub fn check(&self) -> Result<(), StoreErrorKind> {
        let events = self.sealed.events();
        let first = self.first_sequence();
        let expected = (first..).zip(&self.events);
        let gap = expected
            .clone()
            .find(|(next, event)| *next != event.sequence);
        let closed = self.sealed.head.is_some_and(|head| head.is_closed());
        let misplaced = expected.clone().find(|(next, event)| {
            let last = next.checked_add(1) == Some(events);
            event.terminal != (last && closed)
        });
        let reason = if let Some(reason) = self.sealed.impossible(&self.id) {
            reason
        } else if let Some((next, event)) = gap {
            format!(
                "event {} follows event {}: expected {next}",
                event.sequence,
                next - 1
            )
        } else if events > 0 && self.events.is_empty() {
            format!("the part has no events: expected some of the {events} of the log")
        } else if first.saturating_add(self.events.len() as u64) > events {
            format!(
                "the part ends before sequence {}: expected at most the {events} of the sealed log",
                self.next_sequence()
            )
        } else if let Some((next, event)) = misplaced {
            let is = if event.terminal { "is" } else { "is not" };
            format!(
                "event {next} {is} terminal: expected the last event of a closed log, and no other, to be"
            )
        } else if let Some((event, expected)) = self
            .events
            .iter()
            .find_map(|event| Some((event, self.sealed.mistimed(event)?)))
        {
            format!(
                "event {} was recorded at {}: expected {expected}, as the sealed head says",
                event.sequence, event.recorded_at
            )
        } else {
            return Ok(());
        };
        Err(StoreErrorKind::InvalidArgument { reason })
    }
}

/// What a part of an import did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Imported {
    /// More parts are needed, from this sequence on, which may be further than the part reached.
    Staged {
        /// The first sequence of the next part.
        next_sequence: u64,
    },
    /// The record is complete and visible.
    Visible,
    /// It was there before.
    AlreadyThere,
}

request! {
    /// Asks to remove a sealed record.
    Retire {
        /// The execution.
        id: ExecutionId,
    }
    optional {}
}

request! {
    /// Asks to make a sealed record writable again.
    Unseal {
        /// The execution.
        id: ExecutionId,
    }
    optional {}
}

request! {
    /// Lists records in list order.
    Records {
        /// The most records wanted, at least 1.
        limit: usize,
    }
    optional {
        /// Where to go on; `None` starts at the beginning.
        cursor: Option<ListCursor> = None, with_cursor(impl Into<Option<ListCursor>>),
        /// Only records whose hash matches.
        route: Option<RouteFilter> = None, with_route(impl Into<Option<RouteFilter>>),
    }
}

/// Some records, in list order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordPage {
    /// In list order, each id once.
    pub records: Vec<RecordSummary>,
    /// Where to go on; `None` when this was the last page.
    pub next: Option<ListCursor>,
}

impl RecordPage {
    /// For implementers of stores.
    #[must_use]
    pub fn new(records: Vec<RecordSummary>, next: Option<ListCursor>) -> Self {
        Self { records, next }
    }
}

/// One record in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordSummary {
    /// Its id.
    pub id: ExecutionId,
    /// Its log, if it has one.
    pub head: Option<LogHead>,
    /// The highest fence token, if it was ever fenced.
    pub fence: Option<FenceToken>,
    /// How many branches it has.
    pub branches: u64,
    /// Whether it is sealed.
    pub sealed: bool,
}

impl RecordSummary {
    /// For implementers of stores.
    #[must_use]
    pub fn new(
        id: ExecutionId,
        head: Option<LogHead>,
        fence: Option<FenceToken>,
        branches: u64,
        sealed: bool,
    ) -> Self {
        Self {
            id,
            head,
            fence,
            branches,
            sealed,
        }
    }
}
