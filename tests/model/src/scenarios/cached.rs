//! Operations through a cached side.

use super::{append, append_fenced, create, mover};
use crate::op::Op;
use crate::plan::Place::Migrating;
use crate::scenario::{Scenario, node};

fn migrating(name: &'static str, about: &'static str) -> Scenario {
    Scenario::new(name, about, 0)
        .plan(1, Migrating(0, 1), &[0, 1])
        .under(1)
        .holds(0, &[1], 0, &[])
}

pub(super) fn all() -> Vec<Scenario> {
    vec![
        migrating(
            "cached-read-and-append",
            "reads and appends through a cached side while a move is half done, or its mover is dead",
        )
        .node(node("reader", 1, &[Op::Read.x(), Op::Read.x()]).cached(0))
        .node(node("writer", 1, &[append(1, 2), append(2, 3)]).cached(0))
        .twins(&mover(1)),
        migrating(
            "cached-acquire",
            "a worker acquires and appends through a cached side while the record moves",
        )
        .node(node("fencer", 1, &[Op::Acquire.x(), append_fenced(1, 2)]).cached(0))
        .node(node("writer", 1, &[append(1, 3)]).cached(0))
        .node(node("reader", 1, &[Op::Read.x()]))
        .node(mover(1)),
        migrating(
            "cached-delete-and-create",
            "a delete while the record moves, after which somebody creates it whose cache names the source",
        )
        .node(node("deleter", 1, &[Op::Delete.x()]))
        .node(node("creator", 1, &[create(2), append(1, 3)]).cached(0))
        .node(node("reader", 1, &[Op::Read.x()]).cached(0))
        .node(mover(1)),
        migrating(
            "cached-acquire-after-delete",
            "a worker acquires through a cached side that the execution has left, and that was deleted and created anew",
        )
        .node(node("fencer", 1, &[Op::Acquire.x(), append_fenced(1, 3)]).cached(0))
        .node(node("remaker", 1, &[Op::Delete.x(), create(2)]))
        .node(mover(1)),
        Scenario::new(
            "absence-is-not-remembered",
            "an execution is read, created meanwhile and read again after a pause",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .under(1)
        .node(node("reader", 1, &[Op::Read.x(), Op::Follow(1).x(), Op::Read.x()]))
        .node(node("creator", 1, &[create(1)])),
    ]
}
