//! The scenarios.

mod cached;
mod everybody;
mod fences;
mod large;
mod lineage;
mod lists;
mod lost;
mod moves;
mod plans;
mod sweep;
mod turned;

pub use sweep::Sweep;

use crate::op::Op;
use crate::op::Step;
use crate::scenario::Scenario;

/// The scenarios that have a name of their own.
#[must_use]
pub fn all() -> Vec<Scenario> {
    [
        fences::all(),
        cached::all(),
        moves::all(),
        turned::all(),
        plans::all(),
        lineage::all(),
        lists::all(),
        lost::all(),
    ]
    .concat()
}

/// All roles at once, with at most so many interruptions.
#[must_use]
pub fn everybody(interruptions: u8) -> Scenario {
    everybody::everybody(interruptions)
}

/// Scenarios with more nodes, which take minutes.
#[must_use]
pub fn large() -> Vec<Scenario> {
    large::all()
}

fn create(event: u8) -> Step {
    Op::Create {
        event,
        fenced: false,
    }
    .x()
}

fn create_fenced(event: u8) -> Step {
    Op::Create {
        event,
        fenced: true,
    }
    .x()
}

fn append(at: u32, event: u8) -> Step {
    Op::Append {
        at,
        event,
        fenced: false,
    }
    .x()
}

fn append_fenced(at: u32, event: u8) -> Step {
    Op::Append {
        at,
        event,
        fenced: true,
    }
    .x()
}

fn mover(plan: u8) -> crate::scenario::Spec {
    crate::scenario::node("mover", plan, &[Op::Move.x()])
}
