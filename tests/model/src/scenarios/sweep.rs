//! Every few operations, on everything that may be there when a bucket migrates.

use crate::op::{Op, Step};
use crate::plan::Place::{Migrating, Settled};
use crate::scenario::{Scenario, Spec, node};

/// A record as the table below has it: log, fence, edges, and whether it is sealed.
type Part = (&'static [u8], u8, &'static [u8], bool);

/// What is on the source and on the destination.
type Sides = (&'static str, Option<Part>, Option<Part>);

const WHOLE: Part = (&[1], 1, &[1], false);
const LONGER: Part = (&[1, 2], 1, &[1], false);
const BARE: Part = (&[], 1, &[1], false);
const fn sealed(part: Part) -> Part {
    (part.0, part.1, part.2, true)
}

/// Everything that the protocol can leave: with a log and without; not moved, sealed, imported, retired; and the
/// same from before the bucket turned round.
const STARTS: &[Sides] = &[
    ("nothing", None, None),
    ("source", Some(WHOLE), None),
    ("source-sealed", Some(sealed(WHOLE)), None),
    ("imported", Some(sealed(WHOLE)), Some(LONGER)),
    ("moved", None, Some(WHOLE)),
    ("leftover", Some(LONGER), Some(sealed(WHOLE))),
    ("begun", None, Some(sealed(WHOLE))),
    ("bare-source", Some(BARE), None),
    ("bare-source-sealed", Some(sealed(BARE)), None),
    ("bare-imported", Some(sealed(BARE)), Some(BARE)),
    ("bare-moved", None, Some(BARE)),
    ("bare-leftover", Some(BARE), Some(sealed(BARE))),
    ("bare-begun", None, Some(sealed(BARE))),
];

const WORKERS: &[&str] = &[
    "create", "append", "delete", "acquire", "record", "forget", "read", "move",
];

/// What becomes of the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// It turns round.
    Turns,
    /// It turns round, and one request goes astray.
    Loses,
    /// It is settled.
    Settles,
    /// It turns round twice.
    Returns,
}

impl Sweep {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Turns, Self::Loses, Self::Settles, Self::Returns];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::Loses => "loses",
            Self::Settles => "settles",
            Self::Returns => "returns",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|sweep| sweep.name() == name)
    }

    /// One scenario for each start and each set of `count` workers, with a mover and a publisher.
    #[must_use]
    pub fn of(self, count: usize) -> Vec<Scenario> {
        let sets = combinations(count, 0);
        STARTS
            .iter()
            .flat_map(|start| sets.iter().map(|workers| scenario(self, start, workers)))
            .collect()
    }
}

/// Every choice of `count` workers from the `from`th on, in order and with repetition.
fn combinations(count: usize, from: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for first in from..WORKERS.len() {
        for mut rest in combinations(count - 1, first) {
            rest.insert(0, first);
            all.push(rest);
        }
    }
    all
}

fn scenario(sweep: Sweep, start: &Sides, workers: &[usize]) -> Scenario {
    let (name, on_source, on_destination) = start;
    let names: Vec<&str> = workers.iter().map(|worker| WORKERS[*worker]).collect();
    let third = match sweep {
        Sweep::Settles => Settled(1),
        _ => Migrating(1, 0),
    };
    let mut scenario = Scenario::new(
        &format!("{}/{name}/{}", sweep.name(), names.join("+")),
        "workers at what a bucket may hold, with a mover and a publisher",
        0,
    )
    .plan(1, Migrating(1, 0), &[0, 1])
    .plan(2, Migrating(0, 1), &[0, 1])
    .plan(3, third, &[0, 1])
    .plan(4, Migrating(0, 1), &[0, 1])
    .under(2);
    for (shard, part) in [(0, on_source), (1, on_destination)] {
        if let Some((log, fence, edges, sealed)) = part {
            scenario = scenario.record(shard, 0, log, *fence, edges, *sealed);
        }
    }
    for (event, worker) in (2..).zip(workers) {
        let spec = worker_of(&scenario, WORKERS[*worker], event + 1);
        scenario = scenario.node(spec);
    }
    let mut moves = vec![Op::Move.x()];
    if sweep != Sweep::Loses {
        moves.extend([Op::Follow(3).x(), Op::Move.x()]);
    }
    let mut publications = vec![Op::Publish(3).x()];
    if sweep == Sweep::Returns {
        moves.extend([Op::Follow(4).x(), Op::Move.x()]);
        publications.push(Op::Publish(4).x());
    }
    scenario = scenario
        .node(node("mover", 2, &moves))
        .node(node("publisher", 2, &publications));
    if sweep == Sweep::Loses {
        for node in &mut scenario.nodes {
            node.loses = true;
        }
        scenario = scenario.losses(1);
    }
    scenario
}

fn worker_of(scenario: &Scenario, name: &'static str, event: u8) -> Spec {
    let (length, token) = (scenario.truth.logs[0].len(), scenario.truth.tokens[0]);
    let fenced = true;
    let append: Step = if length == 0 {
        Op::Create { event, fenced }.x()
    } else {
        Op::Append {
            at: length,
            event,
            fenced,
        }
        .x()
    };
    let program = match name {
        "create" => vec![Op::Create { event, fenced }.x()],
        "append" => vec![append],
        "delete" => vec![Op::Delete.x()],
        "acquire" => vec![Op::Acquire.x(), append],
        "record" => vec![Op::Edge(event).x(), Op::Children.x()],
        "forget" => vec![Op::Forget.x(), Op::Children.x()],
        "read" => vec![Op::Read.x()],
        _ => vec![Op::Move.x()],
    };
    node(name, 2, &program).holding(token)
}
