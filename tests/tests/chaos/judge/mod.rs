//! Whether what processes were answered fits together.

mod owned;
mod shared;

use std::collections::{BTreeMap, HashMap, VecDeque};

use loom_tests::chaos::{LANES, Line, OWN, Op, Outcome, SHARED, SHORT_LIVED, SLOTS, Says};
use loom_tests::chaos::{own_id, own_prefix, shared_id, short_lived_id};

use self::owned::Owned;
pub(crate) use self::owned::questions;
use self::shared::{Call, Shared};

/// How much is told of what happened before.
const TOLD: usize = 14;

/// Everything that was answered so far.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    owned: HashMap<String, Owned>,
    shared: BTreeMap<String, Shared>,
    /// By slot and lane.
    under_way: HashMap<(u64, u64), (u64, Op)>,
    /// By execution.
    before: HashMap<String, VecDeque<String>>,
    /// Operations that were acknowledged, and those that a kill left open.
    pub(crate) acknowledged: u64,
    pub(crate) unknown: u64,
}

impl Judge {
    /// A process said something. An error says what is wrong about it.
    pub(crate) fn hear(&mut self, slot: u64, life: u64, line: &Line) -> Result<(), String> {
        let key = (slot, line.lane);
        match &line.says {
            Says::Begin(op) => {
                self.under_way.insert(key, (line.at, op.clone()));
                Ok(())
            }
            Says::End { outcome, epoch } => {
                let Some((begun, op)) = self.under_way.remove(&key) else {
                    return Err(format!("an answer to nothing: {line:?}"));
                };
                self.acknowledged += 1;
                self.note(&op, || {
                    format!(
                        "{} {slot}.{life} plan {epoch}: {op:?} -> {outcome:?}",
                        line.at
                    )
                });
                self.judge(key, op, begun, line.at, outcome)
            }
        }
    }

    /// The process of a slot was killed.
    pub(crate) fn killed(&mut self, slot: u64, life: u64) {
        for lane in 0..LANES {
            let Some((begun, op)) = self.under_way.remove(&(slot, lane)) else {
                continue;
            };
            self.unknown += 1;
            self.note(&op, || format!("{begun} {slot}.{life}: {op:?} -> killed"));
            match op.id().map(str::to_owned) {
                Some(_) if matches!(op, Op::Move { .. }) => {}
                Some(id) if is_own(&id, slot, lane) => {
                    self.owned.entry(id).or_default().interrupted(&op);
                }
                Some(id) => {
                    let ended = None;
                    self.shared(id).add(Call { op, begun, ended });
                }
                None => {}
            }
        }
    }

    /// Whether the process of a slot has answered everything that it began.
    pub(crate) fn is_idle(&self, slot: u64) -> bool {
        self.under_way.keys().all(|(other, _)| *other != slot)
    }

    /// What is wrong with executions that many write.
    pub(crate) fn violations(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (id, shared) in &self.shared {
            if let Some(first) = shared.violations().first() {
                wrong.push(self.told(id, first));
            }
        }
        wrong
    }

    fn judge(
        &mut self,
        (slot, lane): (u64, u64),
        op: Op,
        begun: u64,
        ended: u64,
        outcome: &Outcome,
    ) -> Result<(), String> {
        if let Outcome::Error(error) = outcome {
            return Err(match op.id() {
                Some(id) => self.told(id, &format!("{op:?}: {error}")),
                None => format!("{op:?}: {error}"),
            });
        }
        if let (Op::List { prefix }, Outcome::Listed(listed)) = (&op, outcome) {
            return self.listed(prefix, listed);
        }
        let Some(id) = op.id().map(str::to_owned) else {
            return match outcome {
                Outcome::Done => Ok(()),
                _ => Err(format!("{op:?}: {outcome:?}")),
            };
        };
        if id.starts_with("own-") {
            // Anybody moves what is another lane's.
            if matches!(op, Op::Move { .. }) && !is_own(&id, slot, lane) {
                return match outcome {
                    Outcome::Done | Outcome::Gone => Ok(()),
                    _ => Err(self.told(&id, "that cannot come of moving it")),
                };
            }
            let judged = self.owned.entry(id.clone()).or_default();
            return judged
                .ended(&op, outcome)
                .map_err(|expected| self.told(&id, &expected));
        }
        let ended = Some((ended, outcome.clone()));
        self.shared(id).add(Call { op, begun, ended });
        Ok(())
    }

    /// A listing has all executions of a lane, each once, and no other.
    fn listed(&mut self, prefix: &str, listed: &[(String, u64, bool)]) -> Result<(), String> {
        let mut shown: HashMap<&str, (u64, bool)> = HashMap::new();
        for (id, next, closed) in listed {
            if shown.insert(id, (*next, *closed)).is_some() {
                return Err(self.told(id, "it was listed twice"));
            }
        }
        for number in 0..OWN {
            let id = format!("{prefix}{number}");
            let shown = shown.remove(id.as_str());
            let owned = self.owned.entry(id.clone()).or_default();
            if let Err(expected) = owned.listed(shown) {
                return Err(self.told(&id, &format!("listed as {shown:?}: {expected}")));
            }
        }
        match shown.keys().next() {
            Some(id) => Err(format!("`{id}` is listed, which nobody has created")),
            None => Ok(()),
        }
    }

    fn shared(&mut self, id: String) -> &mut Shared {
        self.shared.entry(id).or_default()
    }

    fn note(&mut self, op: &Op, line: impl FnOnce() -> String) {
        let Some(id) = op.id() else { return };
        let before = self.before.entry(id.to_owned()).or_default();
        if before.len() == TOLD {
            before.pop_front();
        }
        before.push_back(line());
    }

    fn told(&self, id: &str, wrong: &str) -> String {
        let mut text = format!("execution `{id}`: {wrong}; before that:");
        for line in self.before.get(id).into_iter().flatten() {
            text.push_str("\n    ");
            text.push_str(line);
        }
        text
    }
}

fn is_own(id: &str, slot: u64, lane: u64) -> bool {
    id.starts_with(&own_prefix(slot, lane))
}

/// Every execution that processes of the test work on.
pub(crate) fn all_ids() -> Vec<String> {
    let own = (0..SLOTS).flat_map(|slot| {
        (0..LANES).flat_map(move |lane| (0..OWN).map(move |number| own_id(slot, lane, number)))
    });
    let shared = (0..SHARED).map(shared_id);
    own.chain(shared)
        .chain((0..SHORT_LIVED).map(short_lived_id))
        .collect()
}
