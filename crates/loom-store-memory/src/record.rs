//! What the store knows of one execution.

use std::time::Duration;

use loom_spi::{
    Event, ExecutionId, ExecutionState, FenceToken, LogHead, NewEvent, PlanEpoch, RecordState,
};

/// A log, a fence and lineage edges, each of which may be absent.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) events: Vec<Event>,
    pub(crate) fence: Option<FenceToken>,
    /// Rarely there; kept apart so that the records of a stripe stay small.
    extra: Option<Box<Extra>>,
}

/// The parts that few records have.
#[derive(Default)]
struct Extra {
    /// Who acquired the fence last, if they said so.
    holder: Option<Holder>,
    /// The branches, in the order recorded. What the parent calls them stands in the store's `Parents`.
    children: Vec<ExecutionId>,
    sealed: bool,
}

/// Who holds a token, and until when others are kept waiting.
pub(crate) struct Holder {
    pub(crate) name: String,
    pub(crate) token: FenceToken,
    /// By the store's clock; `None` when no lease was asked for, or it was released.
    pub(crate) leased_until: Option<Duration>,
}

impl Record {
    /// What the shared rules decide upon.
    pub(crate) fn state(&self, plan: Option<PlanEpoch>) -> RecordState {
        RecordState::new()
            .with_head(self.head())
            .with_fence(self.fence)
            .with_branches(!self.children().is_empty())
            .with_sealed(self.is_sealed())
            .with_plan(plan)
    }

    /// The state of the log, if there is one.
    pub(crate) fn head(&self) -> Option<LogHead> {
        let (first, last) = (self.events.first()?, self.events.last()?);
        let state = if last.terminal {
            ExecutionState::Closed
        } else {
            ExecutionState::Open
        };
        let next = last.sequence + 1;
        let head = LogHead::new(next, state, first.recorded_at, last.recorded_at);
        Some(head.with_sealed(self.is_sealed()))
    }

    /// Adds events that were admitted.
    pub(crate) fn push(&mut self, events: Vec<NewEvent>) {
        let next = self.events.len() as u64;
        if next == 0 {
            // Many logs are a first event and a last one.
            self.events.reserve_exact(events.len() + 1);
        }
        let numbered = (next..).zip(events);
        self.events
            .extend(numbered.map(|(sequence, event)| Event::from_new(sequence, event)));
    }

    /// Whether it may not change, because it is being moved.
    pub(crate) fn is_sealed(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.sealed)
    }

    pub(crate) fn set_sealed(&mut self, sealed: bool) {
        if sealed || self.extra.is_some() {
            self.extra.get_or_insert_default().sealed = sealed;
        }
    }

    pub(crate) fn children(&self) -> &[ExecutionId] {
        self.extra.as_ref().map_or(&[], |extra| &extra.children)
    }

    /// Replaces the edges.
    pub(crate) fn set_children(&mut self, children: Vec<ExecutionId>) {
        if !children.is_empty() || self.extra.is_some() {
            self.extra.get_or_insert_default().children = children;
        }
    }

    /// Adds an edge at the end.
    pub(crate) fn push_child(&mut self, child: ExecutionId) {
        self.extra.get_or_insert_default().children.push(child);
    }

    pub(crate) fn holder(&self) -> Option<&Holder> {
        self.extra.as_ref()?.holder.as_ref()
    }

    pub(crate) fn holder_mut(&mut self) -> Option<&mut Holder> {
        self.extra.as_mut()?.holder.as_mut()
    }

    pub(crate) fn set_holder(&mut self, holder: Option<Holder>) {
        if holder.is_some() || self.extra.is_some() {
            self.extra.get_or_insert_default().holder = holder;
        }
    }

    /// Removes the edges to the branches.
    pub(crate) fn take_children(&mut self) -> Vec<ExecutionId> {
        self.extra
            .as_mut()
            .map_or_else(Vec::new, |extra| std::mem::take(&mut extra.children))
    }

    /// Whether nothing is left of the record.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.fence.is_none() && self.children().is_empty()
    }
}
