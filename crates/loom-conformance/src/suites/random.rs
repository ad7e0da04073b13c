//! One random operation after another, on the store and on the model.

use std::fmt::{Debug, Display};

use fastrand::Rng;
use loom_spi::{
    AcquireFence, Append, Children, Delete, ExecutionId, ExecutionState, FenceToken, Forget, Head,
    List, ListCursor, NewEvent, Parent, PlanEpoch, Publish, Read, RecordLineage, Require,
    RouteFilter, StoreError, StoreErrorKind, Timestamp,
};

use super::ledger::{plan, published};
use crate::context::Cx;
use crate::model::Model;
use crate::outcome::{Stop, Verdict, check};
use crate::support::id;

/// Which operations a run has besides those on logs.
#[derive(Clone, Copy, Default)]
pub(super) struct Parts {
    pub(super) fences: bool,
    pub(super) lineage: bool,
    pub(super) plans: bool,
}

/// A run with one seed.
pub(super) struct Run<'a> {
    rng: Rng,
    ids: Vec<ExecutionId>,
    model: &'a mut Model,
    done: Vec<String>,
}

/// What the store answered, in a form that can be compared.
fn answer<T: Debug>(result: Result<T, StoreErrorKind>) -> String {
    match result {
        Ok(done) => format!("{done:?}"),
        // Its text is the store's affair.
        Err(StoreErrorKind::InvalidArgument { .. }) => "refused: InvalidArgument".to_owned(),
        Err(kind) => format!("refused: {kind:?}"),
    }
}

fn found<T: Debug>(result: Result<T, StoreError>) -> String {
    answer(result.map_err(|error| error.kind().clone()))
}

impl<'a> Run<'a> {
    /// Goes on with a model, on executions of its own.
    pub(super) fn new(seed: u64, model: &'a mut Model) -> Result<Self, Stop> {
        let ids = (0..5).map(|index| id(format!("{seed}/execution-{index}")));
        Ok(Self {
            rng: Rng::with_seed(seed),
            ids: ids.collect::<Result<_, _>>()?,
            model,
            done: Vec::new(),
        })
    }

    /// The executions that it works on.
    pub(super) fn ids(&self) -> &[ExecutionId] {
        &self.ids
    }

    /// Adds to a failure how it came about.
    pub(super) fn failed(&self, stop: Stop, step: impl Display) -> Stop {
        let Stop::Failed(message) = stop else {
            return stop;
        };
        let recent = &self.done[self.done.len().saturating_sub(12)..];
        Stop::Failed(format!(
            "{step}: {message}\n  the last operations:\n    {}",
            recent.join("\n    ")
        ))
    }

    fn compare(&self, expected: &str, found: &str) -> Verdict {
        check!(expected == found, "expected {expected}\n  found {found}");
        Ok(())
    }

    fn did(&mut self, operation: &impl Debug) {
        self.done.push(format!("{operation:?}"));
    }

    fn chance(&mut self, percent: u8) -> bool {
        self.rng.u8(0..100) < percent
    }

    fn id(&mut self) -> ExecutionId {
        self.ids[self.rng.usize(0..self.ids.len())].clone()
    }

    /// The plan of a request: mostly the one that is current.
    fn epoch(&mut self, parts: Parts) -> Option<PlanEpoch> {
        if !parts.plans || self.chance(80) {
            return self.model.plan();
        }
        let epoch = self.model.plan().map_or(0, |held| held.epoch);
        match self.rng.u8(0..4) {
            0 => None,
            1 => Some(plan(epoch.saturating_sub(1), 0)),
            2 => Some(plan(epoch + 1, 0)),
            _ => Some(plan(epoch, 99)),
        }
    }

    /// Does one operation on both, and compares.
    pub(super) async fn step(&mut self, cx: &Cx, parts: Parts) -> Verdict {
        match self.rng.u8(0..100) {
            0..40 => self.append(cx, parts).await,
            40..50 => self.read(cx, parts).await,
            50..56 => self.head(cx, parts).await,
            56..64 => self.list(cx, parts).await,
            64..72 => self.delete(cx, parts).await,
            72..80 if parts.fences => self.acquire(cx, parts).await,
            80..92 if parts.lineage => self.lineage(cx, parts).await,
            92..95 if parts.plans => self.publish(cx).await,
            _ => self.append(cx, parts).await,
        }
    }

    async fn append(&mut self, cx: &Cx, parts: Parts) -> Verdict {
        let id = self.id();
        let length = self.model.log(&id).len() as u64;
        let expected = match self.rng.u8(0..20) {
            0 => length + 1,
            1 => length.saturating_sub(1),
            2 => 0,
            _ => length,
        };
        let count = self.rng.u64(1..5);
        let mut events: Vec<_> = (0..count).map(|_| self.event()).collect();
        match self.rng.u8(0..40) {
            0 => events.clear(),
            1 => events.push(NewEvent::new("", "")),
            2 => events.insert(0, NewEvent::new("end", "").terminal()),
            3..6 => events.push(NewEvent::new("end", "").terminal()),
            _ => {}
        }
        let fence = self.token(&id, parts);
        let request = Append::new(id, expected, events)
            .with_fence(fence)
            .with_epoch(self.epoch(parts));
        self.did(&request);
        let expected = answer(self.model.append(request.clone()));
        let found = found(
            cx.store()
                .append(request)
                .await
                .map(|done| done.next_sequence),
        );
        self.compare(&expected, &found)
    }

    fn event(&mut self) -> NewEvent {
        let payload: Vec<u8> = (0..self.rng.usize(0..12))
            .map(|_| self.rng.u8(..))
            .collect();
        let kind = format!("kind {}", self.rng.u8(..));
        NewEvent::new(kind, payload).recorded_at(Timestamp::from_millis(self.rng.i64(..)))
    }

    fn token(&mut self, id: &ExecutionId, parts: Parts) -> Option<FenceToken> {
        let held = self.model.fence(id);
        if !parts.fences || self.chance(80) {
            return held;
        }
        match self.rng.u8(0..3) {
            0 => None,
            1 => held.map(|token| FenceToken(token.0.saturating_sub(1))),
            _ => Some(FenceToken(
                held.map_or(0, |token| token.0) + self.rng.u64(1..4),
            )),
        }
    }

    async fn read(&mut self, cx: &Cx, parts: Parts) -> Verdict {
        let (id, from, limit) = (self.id(), self.rng.u64(0..12), self.rng.usize(1..7));
        let request = Read::new(id.clone(), from, limit).with_epoch(self.epoch(parts));
        self.did(&request);
        let found = cx.store().read(request.clone()).await;
        let admitted = self.model.admit(request.epoch);
        let expected = admitted.and_then(|()| self.model.read(&id, from));
        match (expected, found) {
            (Ok((rest, head)), Ok(page)) => {
                check!(
                    page.head == head,
                    "expected {head:?}\n  found {:?}",
                    page.head
                );
                let count = page.events.len();
                let enough = count > 0 || rest.is_empty();
                let right = enough && count <= limit && rest.starts_with(&page.events);
                check!(
                    right,
                    "expected up to {limit} of {rest:?}\n  found {:?}",
                    page.events
                );
                Ok(())
            }
            (expected, found) => self.compare(&answer(expected), &self::found(found)),
        }
    }

    async fn head(&mut self, cx: &Cx, parts: Parts) -> Verdict {
        let request = Head::new(self.id()).with_epoch(self.epoch(parts));
        self.did(&request);
        let admitted = self.model.admit(request.epoch);
        let expected = answer(admitted.map(|()| self.model.head(&request.id)));
        self.compare(&expected, &found(cx.store().head(request).await))
    }

    async fn list(&mut self, cx: &Cx, parts: Parts) -> Verdict {
        let mut request = List::new(self.rng.usize(1..8)).with_epoch(self.epoch(parts));
        if self.chance(50) {
            let modulus = self.rng.u64(1..9);
            request = request.with_route(RouteFilter::new(modulus, self.rng.u64(0..modulus))?);
        }
        if self.chance(30) {
            request = request.with_state(match self.rng.bool() {
                true => ExecutionState::Open,
                false => ExecutionState::Closed,
            });
        }
        if self.chance(30) {
            request = request.with_cursor(ListCursor::after(&self.id()));
        }
        self.did(&request);
        match self.model.admit(request.epoch) {
            Err(refusal) => {
                let expected = answer::<()>(Err(refusal));
                self.compare(&expected, &found(cx.store().list(request).await))
            }
            Ok(()) => {
                let expected = format!("{:?}", self.model.list(&request));
                let found = format!("{:?}", cx.listing(request).await?);
                self.compare(&expected, &found)
            }
        }
    }

    async fn delete(&mut self, cx: &Cx, parts: Parts) -> Verdict {
        let id = self.id();
        let length = self.model.log(&id).len() as u64;
        let expected = match self.rng.u8(0..4) {
            0 => None,
            1 => Some(length + 1),
            _ => Some(length),
        };
        let request = Delete::new(id)
            .with_expected(expected)
            .with_epoch(self.epoch(parts));
        self.did(&request);
        let expected = answer(self.model.delete(&request));
        let found = found(cx.store().delete(request).await.map(|done| done.events));
        self.compare(&expected, &found)
    }

    async fn acquire(&mut self, cx: &Cx, parts: Parts) -> Verdict {
        let mut request = AcquireFence::new(self.id()).with_epoch(self.epoch(parts));
        if self.chance(30) {
            request = request.with_floor(FenceToken(self.rng.u64(0..30)));
        }
        if self.chance(30) {
            request = request.with_require(Require::Exists);
        }
        self.did(&request);
        match (
            self.model.acquire(&request),
            cx.fencing()?.acquire_fence(request.clone()).await,
        ) {
            (Ok(least), Ok(token)) => {
                check!(
                    token >= least,
                    "expected at least token {least}\n  found {token}"
                );
                self.model.acquired(request.id, token);
                Ok(())
            }
            (expected, found) => self.compare(&answer(expected), &self::found(found)),
        }
    }

    async fn lineage(&mut self, cx: &Cx, parts: Parts) -> Verdict {
        let (branches, epoch) = (cx.branches()?, self.epoch(parts));
        let (of, admitted) = (self.id(), self.model.admit(epoch));
        match self.rng.u8(0..10) {
            0..5 => {
                let label = format!("label {}", self.rng.u8(0..2));
                let mut request = RecordLineage::new(of, self.id(), label).with_epoch(epoch);
                if request.parent == request.child {
                    // Which of two reasons to refuse it comes first is not said.
                    request.epoch = self.model.plan();
                }
                self.did(&request);
                let expected = answer(self.model.record_lineage(request.clone()));
                self.compare(&expected, &found(branches.record_lineage(request).await))
            }
            5..7 => {
                let request = Children::new(of).with_epoch(epoch);
                self.did(&request);
                let expected = answer(admitted.map(|()| self.model.children(&request.parent)));
                self.compare(&expected, &found(branches.children(request).await))
            }
            7..9 => {
                let request = Parent::new(of).with_epoch(epoch);
                self.did(&request);
                let expected = answer(admitted.map(|()| self.model.parent(&request.child)));
                self.compare(&expected, &found(branches.parent(request).await))
            }
            _ => {
                let request = Forget::new(of).with_epoch(epoch);
                self.did(&request);
                let expected = answer(admitted.map(|()| self.model.forget(&request.parent)));
                self.compare(&expected, &found(branches.forget(request).await))
            }
        }
    }

    async fn publish(&mut self, cx: &Cx) -> Verdict {
        let held = self.model.plan();
        let epoch = held.map_or(0, |held| held.epoch);
        // Never for two reasons at once: which of them comes first is not said.
        let (new, expected) = if self.chance(80) {
            (plan(epoch + self.rng.u64(0..3), 0), held)
        } else {
            (plan(epoch + 1, 0), Some(plan(epoch, 5)))
        };
        let request = Publish::new(published(new), expected);
        self.did(&request);
        let expected = answer(self.model.publish(&request));
        self.compare(&expected, &found(cx.ledger()?.publish(request).await))
    }
}
