//! Callers of one node.

use std::cell::RefCell;
use std::rc::Rc;

use loom_spi::{
    AcquireFence, Append, BranchRegistry, Children, Delete, EventStore, ExecutionId, FenceToken,
    Forget, Head, List, NewEvent, Read, RecordLineage, StoreError, StoreErrorKind, Timestamp,
};

use super::history::{Answer, History, Request};
use super::world::World;
use crate::ShardedStore;

/// What the callers of all nodes share: they tell each other what they know.
#[derive(Clone)]
pub(super) struct Known(Rc<RefCell<Vec<Of>>>);

#[derive(Clone, Copy, Default)]
struct Of {
    length: u64,
    token: Option<u64>,
}

impl Known {
    pub(super) fn new(executions: usize) -> Self {
        Self(Rc::new(RefCell::new(vec![Of::default(); executions])))
    }
}

#[derive(Clone)]
pub(super) struct Client {
    pub(super) world: World,
    pub(super) history: History,
    pub(super) known: Known,
    pub(super) ids: Rc<Vec<ExecutionId>>,
    pub(super) store: ShardedStore,
    /// Whether it goes on with a plan that is over: then it is refused, which is right.
    pub(super) unplanned: bool,
    /// Whether an unreachable shard is an excuse.
    pub(super) excused: bool,
    pub(super) mood: Mood,
}

/// What a run has more of than of other things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Any,
    /// Reading and listing while things move.
    Looking,
    /// Moves that are begun, called off and begun again.
    Turning,
    /// Deleting and creating again.
    Deleting,
}

impl Client {
    /// Asks for this and that.
    pub(super) async fn work(self, requests: u64) {
        for _ in 0..requests {
            let often = if self.mood == Mood::Looking { 3 } else { 12 };
            if self.world.one_in(often) {
                self.list().await;
                continue;
            }
            // They meet on the first more often than not.
            let execution = match self.world.below(2 * self.ids.len() as u64) {
                place if place < self.ids.len() as u64 => usize::try_from(place).unwrap(),
                _ => 0,
            };
            let request = self.choose(execution);
            self.ask(execution, request).await;
            self.world
                .pauses(if self.unplanned { 200 } else { 3 })
                .await;
        }
    }

    fn choose(&self, execution: usize) -> Request {
        let Of { length, token } = self.known.0.borrow()[execution];
        let chance = match self.mood {
            Mood::Any => self.world.below(24),
            Mood::Turning => self
                .world
                .one_of(&[0, 1, 2, 3, 10, 11, 12, 13, 14, 15, 17, 19]),
            // Appends, reads and look-ups.
            Mood::Looking => self.world.below(15),
            // Creations, deletes and fences.
            Mood::Deleting => self
                .world
                .one_of(&[0, 1, 2, 3, 10, 15, 15, 16, 17, 19, 21, 23]),
        };
        match chance {
            0..=9 => {
                // Mostly what is right, as far as anybody knows.
                let expected = match self.world.below(8) {
                    0 => 0,
                    1 => length + 1,
                    _ => length,
                };
                let fence = match self.world.below(6) {
                    0 => None,
                    1 => token.map(|token| token.saturating_sub(1).max(1)),
                    _ => token,
                };
                Request::Append {
                    expected,
                    payload: self.world.tick(),
                    fence,
                    terminal: self.world.one_in(16),
                }
            }
            10..=12 => Request::Read,
            13..=14 => Request::Head,
            15..=16 => Request::Delete {
                expected: self.world.one_in(2).then_some(length),
            },
            17..=18 => Request::Acquire,
            19..=20 => Request::Record {
                child: self.world.below(3),
            },
            21..=22 => Request::Children,
            _ => Request::Forget,
        }
    }

    pub(super) async fn ask(&self, execution: usize, request: Request) {
        let place = self.history.begin(execution, request.clone());
        let answer = self.perform(execution, &request).await;
        let error = match answer {
            Ok(answer) => {
                self.learn(execution, &request, &answer);
                self.history.answered(place, answer);
                return;
            }
            Err(error) => error,
        };
        match told(&error) {
            Some(answer) => {
                self.learn(execution, &request, &answer);
                self.history.answered(place, answer);
            }
            None => match error.kind() {
                StoreErrorKind::Unavailable { outcome_known, .. } if self.excused => {
                    if *outcome_known {
                        self.history.refused(place);
                    }
                }
                StoreErrorKind::StalePlan { .. } if self.unplanned => self.history.refused(place),
                _ => self.history.violation(format!(
                    "a caller got an error for #{place} {request:?}: {}",
                    chain(&error)
                )),
            },
        }
    }

    fn learn(&self, execution: usize, request: &Request, answer: &Answer) {
        let mut known = self.known.0.borrow_mut();
        let of = &mut known[execution];
        match answer {
            Answer::Appended(length) | Answer::Conflict(length) => of.length = *length,
            Answer::Head(head) => of.length = head.map_or(0, |(length, _)| length),
            Answer::Deleted(_) | Answer::NotFound => of.length = 0,
            Answer::Events(events, _) => of.length = events.len() as u64,
            Answer::Token(token) => of.token = of.token.max(Some(*token)),
            Answer::Fenced(token) if !matches!(request, Request::Acquire) => {
                of.token = of.token.max(Some(*token));
            }
            _ => {}
        }
    }

    async fn perform(&self, execution: usize, request: &Request) -> Result<Answer, StoreError> {
        let id = self.ids[execution].clone();
        let store = &self.store;
        Ok(match request {
            Request::Append {
                expected,
                payload,
                fence,
                terminal,
            } => {
                let event = NewEvent::new("event", payload.to_string())
                    .recorded_at(Timestamp::from_millis(7));
                let event = if *terminal { event.terminal() } else { event };
                let append =
                    Append::new(id, *expected, vec![event]).with_fence(fence.map(FenceToken));
                Answer::Appended(store.append(append).await?.next_sequence)
            }
            Request::Read => {
                let page = store.read(Read::new(id, 0, 1000)).await?;
                let numbers = page.events.iter().map(|event| {
                    let text = std::str::from_utf8(&event.payload).unwrap();
                    text.parse().unwrap()
                });
                Answer::Events(numbers.collect(), page.head.is_closed())
            }
            Request::Head => {
                let head = store.head(Head::new(id)).await?;
                Answer::Head(head.map(|head| (head.next_sequence, head.is_closed())))
            }
            Request::Delete { expected } => {
                let deleted = store
                    .delete(Delete::new(id).with_expected(*expected))
                    .await?;
                Answer::Deleted(deleted.events)
            }
            Request::Acquire => {
                let fencing = store.capabilities().fencing.unwrap();
                Answer::Token(fencing.acquire_fence(AcquireFence::new(id)).await?.0)
            }
            Request::Record { child } => {
                let child = child_of(&id, *child);
                let edge = RecordLineage::new(id, child, "label".to_owned());
                self.branches().record_lineage(edge).await?;
                Answer::Recorded
            }
            Request::Children => {
                let children = self.branches().children(Children::new(id.clone())).await?;
                let number = |child: &ExecutionId| (0..3).find(|n| child_of(&id, *n) == *child);
                let numbers = children.iter().map(|branch| number(&branch.child).unwrap());
                Answer::Children(numbers.collect())
            }
            Request::Forget => Answer::Forgot(self.branches().forget(Forget::new(id)).await?),
        })
    }

    fn branches(&self) -> &dyn BranchRegistry {
        &*self.store.core
    }

    async fn list(&self) {
        let from = self.world.tick();
        let mut executions = Vec::new();
        let mut cursor = None;
        loop {
            match self.store.list(List::new(2).with_cursor(cursor)).await {
                Ok(page) => {
                    for execution in page.executions {
                        let place = self.ids.iter().position(|id| *id == execution.id);
                        executions.push((place.unwrap(), execution.head.next_sequence));
                    }
                    cursor = page.next;
                    if cursor.is_none() {
                        break;
                    }
                }
                Err(error) => {
                    let excused = match error.kind() {
                        StoreErrorKind::Unavailable { .. } => self.excused,
                        StoreErrorKind::StalePlan { .. } => self.unplanned,
                        _ => false,
                    };
                    if !excused {
                        self.history
                            .violation(format!("a caller could not list: {}", chain(&error)));
                    }
                    return;
                }
            }
        }
        self.history.listed(from, executions);
    }
}

/// What a refusal says of the execution, if it says something.
fn told(error: &StoreError) -> Option<Answer> {
    Some(match error.kind() {
        StoreErrorKind::SequenceConflict { actual, .. } => Answer::Conflict(*actual),
        StoreErrorKind::Closed { next_sequence } => Answer::Closed(*next_sequence),
        StoreErrorKind::Fenced { current, .. } => Answer::Fenced(current.0),
        StoreErrorKind::NotFound => Answer::NotFound,
        _ => return None,
    })
}

pub(super) fn child_of(id: &ExecutionId, child: u64) -> ExecutionId {
    ExecutionId::new(format!("{id}/{child}")).unwrap()
}

/// An error with its causes.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
