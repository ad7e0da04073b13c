//! A store as simple as it can be: what the random cases compare with. It shares no code with the rules
//! that stores use, so that a mistake in those is found.

use std::collections::BTreeMap;

use loom_spi::{
    Append, Branch, Delete, Event, ExecutionId, ExecutionState, ExecutionSummary, FenceToken, List,
    LogHead, ParentLink, PlanEpoch, Publish, RecordLineage, Require, StoreErrorKind,
};

#[derive(Default)]
pub(crate) struct Model {
    logs: BTreeMap<(i64, ExecutionId), Vec<Event>>,
    fences: BTreeMap<ExecutionId, FenceToken>,
    /// Parent, child and label, in the order recorded.
    edges: Vec<(ExecutionId, ExecutionId, String)>,
    plan: Option<PlanEpoch>,
}

type Answer<T> = Result<T, StoreErrorKind>;

fn invalid<T>() -> Answer<T> {
    Err(StoreErrorKind::InvalidArgument {
        reason: String::new(),
    })
}

fn place(id: &ExecutionId) -> (i64, ExecutionId) {
    (id.route_hash().index_key(), id.clone())
}

fn head_of(log: &[Event]) -> Option<LogHead> {
    let (first, last) = (log.first()?, log.last()?);
    let state = match last.terminal {
        true => ExecutionState::Closed,
        false => ExecutionState::Open,
    };
    let length = log.len() as u64;
    Some(LogHead::new(
        length,
        state,
        first.recorded_at,
        last.recorded_at,
    ))
}

impl Model {
    pub(crate) fn plan(&self) -> Option<PlanEpoch> {
        self.plan
    }

    pub(crate) fn fence(&self, id: &ExecutionId) -> Option<FenceToken> {
        self.fences.get(id).copied()
    }

    pub(crate) fn log(&self, id: &ExecutionId) -> &[Event] {
        self.logs.get(&place(id)).map_or(&[], Vec::as_slice)
    }

    /// Whether a request under this plan is served.
    pub(crate) fn admit(&self, asked: Option<PlanEpoch>) -> Answer<()> {
        match (self.plan, asked) {
            (held, asked) if held == asked => Ok(()),
            (Some(held), None) if held.epoch < 2 => Ok(()),
            (Some(held), asked) if asked.is_none_or(|asked| asked.epoch <= held.epoch) => {
                Err(StoreErrorKind::StalePlan {
                    presented: asked,
                    current: held,
                })
            }
            (held, Some(asked)) => Err(StoreErrorKind::ShardBehind {
                presented: asked,
                current: held,
            }),
            (_, None) => Ok(()),
        }
    }

    pub(crate) fn append(&mut self, request: Append) -> Answer<u64> {
        let Append {
            id,
            expected,
            events,
            fence,
            epoch,
            ..
        } = request;
        let misplaced = events.iter().rev().skip(1).any(|event| event.terminal);
        if events.is_empty() || misplaced || events.iter().any(|event| event.kind.is_empty()) {
            return invalid();
        }
        self.admit(epoch)?;
        if let Some(current) = self.fence(&id)
            && fence < Some(current)
        {
            return Err(StoreErrorKind::Fenced {
                presented: fence,
                current,
            });
        }
        let log = self.log(&id);
        let actual = log.len() as u64;
        if log.last().is_some_and(|event| event.terminal) {
            return Err(StoreErrorKind::Closed {
                next_sequence: actual,
            });
        }
        if expected != actual {
            return Err(StoreErrorKind::SequenceConflict { expected, actual });
        }
        if let Some(token) = fence {
            self.fences.insert(id.clone(), token);
        }
        let log = self.logs.entry(place(&id)).or_default();
        for event in events {
            log.push(Event::from_new(log.len() as u64, event));
        }
        Ok(log.len() as u64)
    }

    pub(crate) fn read(&self, id: &ExecutionId, from: u64) -> Answer<(&[Event], LogHead)> {
        let log = self.log(id);
        let head = head_of(log).ok_or(StoreErrorKind::NotFound)?;
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(log.len());
        Ok((&log[from..], head))
    }

    pub(crate) fn head(&self, id: &ExecutionId) -> Option<LogHead> {
        head_of(self.log(id))
    }

    /// Everything that a request selects, whatever its limit.
    pub(crate) fn list(&self, request: &List) -> Vec<ExecutionSummary> {
        let after = request.cursor.as_ref().map(|cursor| {
            let (key, id) = cursor.position();
            (key, id.clone())
        });
        let rows = self.logs.iter().filter_map(|(place, log)| {
            let (head, hash) = (head_of(log)?, place.1.route_hash().0);
            let selected = after.as_ref().is_none_or(|after| place > after)
                && request.state.is_none_or(|state| state == head.state)
                && request
                    .route
                    .is_none_or(|route| hash % route.modulus() == route.residue());
            selected.then(|| ExecutionSummary::new(place.1.clone(), head))
        });
        rows.collect()
    }

    pub(crate) fn delete(&mut self, request: &Delete) -> Answer<u64> {
        self.admit(request.epoch)?;
        let actual = self.log(&request.id).len() as u64;
        if actual == 0 {
            return Err(StoreErrorKind::NotFound);
        }
        match request.expected {
            Some(expected) if expected != actual => {
                Err(StoreErrorKind::SequenceConflict { expected, actual })
            }
            _ => {
                self.logs.remove(&place(&request.id));
                Ok(actual)
            }
        }
    }

    /// The least token that may be handed out.
    pub(crate) fn acquire(&self, request: &loom_spi::AcquireFence) -> Answer<FenceToken> {
        self.admit(request.epoch)?;
        let id = &request.id;
        let exists = !self.log(id).is_empty()
            || self.fences.contains_key(id)
            || self.edges.iter().any(|(parent, _, _)| parent == id);
        if request.require == Require::Exists && !exists {
            return Err(StoreErrorKind::NotFound);
        }
        let next = self.fence(id).map_or(0, |seen| seen.0 + 1);
        Ok(FenceToken(next).max(request.floor.unwrap_or(FenceToken(0))))
    }

    pub(crate) fn acquired(&mut self, id: ExecutionId, token: FenceToken) {
        self.fences.insert(id, token);
    }

    pub(crate) fn record_lineage(&mut self, request: RecordLineage) -> Answer<()> {
        if request.parent == request.child {
            return invalid();
        }
        self.admit(request.epoch)?;
        match self.parent(&request.child) {
            None => {
                let RecordLineage {
                    parent,
                    child,
                    label,
                    ..
                } = request;
                self.edges.push((parent, child, label));
                Ok(())
            }
            Some(link) if link.parent == request.parent && link.label == request.label => Ok(()),
            Some(link) => Err(StoreErrorKind::LineageConflict {
                parent: link.parent,
                label: link.label,
            }),
        }
    }

    pub(crate) fn children(&self, of: &ExecutionId) -> Vec<Branch> {
        let edges = self.edges.iter().filter(|(parent, _, _)| parent == of);
        edges
            .map(|(_, child, label)| Branch::new(child.clone(), label))
            .collect()
    }

    pub(crate) fn parent(&self, of: &ExecutionId) -> Option<ParentLink> {
        let edge = self.edges.iter().find(|(_, child, _)| child == of);
        edge.map(|(parent, _, label)| ParentLink::new(parent.clone(), label))
    }

    pub(crate) fn forget(&mut self, of: &ExecutionId) -> u64 {
        let before = self.edges.len();
        self.edges.retain(|(parent, _, _)| parent != of);
        (before - self.edges.len()) as u64
    }

    pub(crate) fn publish(&mut self, request: &Publish) -> Answer<()> {
        let new = request.plan.epoch;
        if self.plan == Some(new) {
            return Ok(());
        }
        if self.plan != request.expected {
            return Err(StoreErrorKind::PublishConflict { current: self.plan });
        }
        let least = self.plan.map_or(1, |held| held.epoch + 1);
        if new.epoch < least {
            return invalid();
        }
        self.plan = Some(new);
        Ok(())
    }
}
