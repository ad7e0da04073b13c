//! What a lane does next: by the seed, and by what it has been answered.

use std::collections::BTreeMap;

use fastrand::Rng;
use loom_tests::chaos::{
    LANES, OWN, Op, Outcome, SHARED, SHORT_LIVED, SLOTS, child_id, own_id, own_prefix, shared_id,
    short_lived_id,
};

/// The longest log before it is closed or deleted.
const LONG: u64 = 40;

/// Operations one after another.
pub(crate) struct Lane {
    pub(crate) number: u64,
    slot: u64,
    /// Begins every tag, so that each occurs once.
    tag: String,
    ops: u64,
    rng: Rng,
    known: BTreeMap<String, Known>,
}

/// What this process has heard of an execution.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Whether anything was read yet.
    seen: bool,
    next: u64,
    closed: bool,
    token: Option<u64>,
    /// A token that was replaced.
    old: Option<u64>,
    children: u64,
}

impl Lane {
    pub(crate) fn new(slot: u64, number: u64, life: u64, seed: u64) -> Self {
        let mixed = seed ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self {
            number,
            slot,
            tag: format!("{slot}-{life}-{number}"),
            ops: 0,
            rng: Rng::with_seed(mixed),
            known: BTreeMap::new(),
        }
    }

    /// The next operation.
    pub(crate) fn choose(&mut self) -> Op {
        self.ops += 1;
        match self.rng.u32(0..1000) {
            0..700 => self.own(),
            700..850 => {
                let id = shared_id(self.rng.u64(0..SHARED));
                self.contended(id, false)
            }
            850..940 => {
                let id = short_lived_id(self.rng.u64(0..SHORT_LIVED));
                self.contended(id, true)
            }
            940..955 => Op::List {
                prefix: own_prefix(self.slot, self.number),
            },
            955..990 => Op::Move { id: self.any() },
            990..994 => Op::Drain,
            _ if self.number == 0 => Op::Pause,
            _ => Op::Move { id: self.any() },
        }
    }

    /// An execution of whichever lane.
    fn any(&mut self) -> String {
        let (slot, lane) = (self.rng.u64(0..SLOTS), self.rng.u64(0..LANES));
        own_id(slot, lane, self.rng.u64(0..OWN))
    }

    fn own(&mut self) -> Op {
        let id = own_id(self.slot, self.number, self.rng.u64(0..OWN));
        let known = self.known.get(&id).copied().unwrap_or_default();
        if !known.seen {
            return Op::Read { id };
        }
        let child = child_id(&id, self.rng.u64(0..=known.children));
        match self.rng.u32(0..100) {
            0..38 if known.closed || known.next > LONG => self.end(id, known),
            0..38 => self.append(id, known.next, known.token, known.next > LONG / 2),
            38..42 => {
                let other = known.next + 1 - 2 * self.rng.u64(0..2).min(known.next);
                self.append(id, other, known.token, false)
            }
            42..48 => self.append(id, known.next, known.old, false),
            48..60 => Op::Read { id },
            60..64 => Op::Head { id },
            64..68 => {
                let expected = self.rng.bool().then_some(known.next);
                Op::Delete { id, expected }
            }
            68..76 => Op::Acquire { id },
            76..83 => Op::Edge {
                child: child_id(&id, known.children),
                parent: id,
            },
            83..87 => Op::Children { parent: id },
            87..90 => Op::Parent { child },
            90 => Op::Forget { parent: id },
            _ => Op::Move { id },
        }
    }

    /// Closes a log, appends to one that is closed, or removes it.
    fn end(&mut self, id: String, known: Known) -> Op {
        match self.rng.u32(0..4) {
            0 => self.append(id, known.next, known.token, true),
            1 => Op::Move { id },
            2 => Op::Read { id },
            _ => Op::Delete {
                id,
                expected: Some(known.next),
            },
        }
    }

    /// As far as this lane knows: others know more.
    fn contended(&mut self, id: String, deleted: bool) -> Op {
        let known = self.known.get(&id).copied().unwrap_or_default();
        match self.rng.u32(0..100) {
            0..55 => self.append(id, known.next, known.token, false),
            55..72 => Op::Read { id },
            72..80 => Op::Acquire { id },
            80..88 if deleted => {
                let expected = self.rng.bool().then_some(known.next);
                Op::Delete { id, expected }
            }
            80..90 => Op::Head { id },
            _ => Op::Move { id },
        }
    }

    fn append(&mut self, id: String, expected: u64, token: Option<u64>, may_close: bool) -> Op {
        Op::Append {
            id,
            expected,
            token,
            tag: format!("{}-{}", self.tag, self.ops),
            events: self.rng.u64(1..=3),
            terminal: may_close && self.rng.u32(0..3) == 0,
        }
    }

    /// Remembers what came of an operation.
    pub(crate) fn learn(&mut self, op: &Op, outcome: &Outcome) {
        let Some(id) = op.id() else { return };
        let known = self.known.entry(id.to_owned()).or_default();
        match (outcome, op) {
            (Outcome::Next(next), Op::Append { terminal, .. }) => {
                (known.next, known.closed) = (*next, *terminal);
            }
            (Outcome::Log { tags, closed }, _) => {
                (known.seen, known.next, known.closed) = (true, tags.len() as u64, *closed);
            }
            (Outcome::Head { next, closed }, _) => (known.next, known.closed) = (*next, *closed),
            (Outcome::Gone, Op::Read { .. } | Op::Head { .. } | Op::Delete { .. }) => {
                (known.seen, known.next, known.closed) = (true, 0, false);
            }
            (Outcome::Removed(_), Op::Delete { .. }) => (known.next, known.closed) = (0, false),
            (Outcome::Removed(_), Op::Forget { .. }) => known.children = 0,
            (Outcome::Conflict { actual }, _) => known.next = *actual,
            (Outcome::Closed { next }, _) => (known.next, known.closed) = (*next, true),
            (Outcome::Fenced { current }, _) if known.token < Some(*current) => {
                known.token = Some(*current);
            }
            (Outcome::Token(token), _) => {
                known.old = known.token;
                known.token = Some(*token);
            }
            (Outcome::Done, Op::Edge { .. }) => known.children += 1,
            (Outcome::Children(children), _) => known.children = children.len() as u64,
            _ => {}
        }
    }
}
