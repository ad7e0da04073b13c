//! Edges of a parent that may have no log yet.

use super::{append, create, mover};
use crate::op::Op;
use crate::plan::Place::{Migrating, Settled};
use crate::scenario::{Scenario, node};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "lineage-before-creation",
            "edges are recorded before their parent exists, while its bucket begins to migrate and it is created",
            0,
        )
        .plan(1, Settled(0), &[0, 1])
        .plan(2, Migrating(0, 1), &[0, 1])
        .under(1)
        .holds(0, &[], 0, &[1])
        .node(node("recorder", 1, &[Op::Edge(2).x(), Op::Children.x()]))
        .node(node("creator", 1, &[create(1)]))
        .node(node("publisher", 1, &[Op::Publish(2).x()]))
        .node(node("mover", 1, &[Op::Follow(2).x(), Op::Move.x()])),
        Scenario::new(
            "lineage-while-moving",
            "edges are recorded and read while their parent moves",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .under(1)
        .holds(0, &[1], 0, &[1])
        .node(node("recorder", 1, &[Op::Edge(2).x()]).cached(0))
        .node(node("reader", 1, &[Op::Children.x()]))
        .node(node("writer", 1, &[append(1, 2)]))
        .twins(&mover(1)),
        Scenario::new(
            "lineage-forgotten",
            "edges of a parent that has no log are forgotten while it moves, and a helper is late",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .under(1)
        .holds(0, &[], 0, &[1])
        .node(node("forgetter", 1, &[Op::Forget.x(), Op::Children.x()]))
        .node(node("recorder", 1, &[Op::Edge(2).x()]))
        .twins(&mover(1)),
        Scenario::new(
            "lineage-forgotten-with-log",
            "the same with a parent that has a log",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .under(1)
        .holds(0, &[1], 0, &[1])
        .node(node("forgetter", 1, &[Op::Forget.x(), Op::Children.x()]))
        .node(node("deleter", 1, &[Op::Delete.x()]))
        .twins(&mover(1)),
        Scenario::new(
            "lineage-turned",
            "a parent without a log was imported and not retired, its bucket has turned round, and turns again",
            0,
        )
        .plan(1, Migrating(1, 0), &[0, 1])
        .plan(2, Migrating(0, 1), &[0, 1])
        .plan(3, Migrating(1, 0), &[0, 1])
        .under(2)
        .holds_sealed(1, &[], 0, &[1])
        .holds(0, &[], 0, &[1, 2])
        .node(node("recorder", 2, &[Op::Edge(3).x()]))
        .node(node("forgetter", 2, &[Op::Forget.x(), Op::Children.x()]))
        .node(node("publisher", 2, &[Op::Publish(3).x()]))
        .node(mover(2)),
        Scenario::new(
            "lineage-settled",
            "a bucket is settled while edges of a parent without a log are on its source",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .plan(2, Settled(1), &[0, 1])
        .under(1)
        .holds(0, &[], 0, &[1])
        .node(node("reader", 1, &[Op::Children.x()]))
        .node(node("recorder", 1, &[Op::Edge(2).x()]))
        .node(node("publisher", 1, &[Op::Publish(2).x()]))
        .node(mover(1)),
    ]
}
