//! What a move that was cut off leaves behind when its bucket turns round.

use super::{append, append_fenced, create, mover};
use crate::op::Op;
use crate::plan::Place::{Migrating, Settled};
use crate::scenario::{Scenario, node};

pub(super) fn all() -> Vec<Scenario> {
    // The bucket went from 1 to 0 and now goes from 0 to 1.
    let turned = |name, about| {
        Scenario::new(name, about, 0)
            .plan(1, Migrating(1, 0), &[0, 1])
            .plan(2, Migrating(0, 1), &[0, 1])
            .under(2)
    };
    vec![
        turned(
            "leftover-on-destination",
            "a move was cut off before its source was retired, and its bucket has turned round",
        )
        .holds_sealed(1, &[1], 0, &[])
        .holds(0, &[1, 2], 0, &[])
        .node(node("writer", 2, &[append(2, 3)]))
        .node(node("reader", 2, &[Op::Read.x()]))
        .node(node("deleter", 2, &[Op::Delete.x()]))
        .twins(&mover(2)),
        turned(
            "leftover-turned-again",
            "a move was cut off before its source was retired, its bucket has turned round, and turns again",
        )
        .plan(3, Migrating(1, 0), &[0, 1])
        .holds_sealed(1, &[1], 0, &[])
        .holds(0, &[1, 2], 0, &[])
        .node(node("writer", 2, &[append(2, 3)]))
        .node(mover(2))
        .node(node("publisher", 2, &[Op::Publish(3).x()]))
        .node(node("reader", 2, &[Op::Read.x()])),
        turned(
            "leftover-deleted-and-created",
            "what such a move left behind is deleted and created again, and moved",
        )
        .holds_sealed(1, &[1], 1, &[])
        .holds(0, &[1, 2], 1, &[])
        .node(node("deleter", 2, &[Op::Delete.x()]))
        .node(node("fencer", 2, &[Op::Acquire.x(), append_fenced(2, 3)]))
        .node(node("creator", 2, &[create(4)]))
        .node(mover(2)),
        turned(
            "begun-then-reverted",
            "a move was cut off after its record was sealed, and its bucket has turned round",
        )
        .holds_sealed(1, &[1], 0, &[])
        .node(node("writer", 2, &[append(1, 2)]))
        .node(node("reader", 2, &[Op::Read.x()]))
        .node(node("deleter", 2, &[Op::Delete.x()]))
        .node(node("creator", 2, &[create(3)]))
        .node(mover(2)),
        turned(
            "begun-then-reverted-fence",
            "the same with a record that has a fence and no log",
        )
        .holds_sealed(1, &[], 1, &[])
        .node(node("fencer", 2, &[Op::Acquire.x(), super::create_fenced(1)]))
        .node(node("older", 2, &[super::create_fenced(2)]).holding(1))
        .node(mover(2)),
        turned(
            "leftover-fence-on-destination",
            "a fence without a log was imported and not retired, and its bucket has turned round",
        )
        .holds_sealed(1, &[], 1, &[])
        .holds(0, &[], 1, &[])
        .node(node("fencer", 2, &[Op::Acquire.x(), super::create_fenced(1)]))
        .node(node("older", 2, &[super::create_fenced(2)]).holding(1))
        .twins(&mover(2)),
        Scenario::new(
            "settled-while-sealed",
            "a move was cut off after its record was sealed, its bucket turned round and is settled where it was",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .plan(2, Migrating(1, 0), &[0, 1])
        .plan(3, Settled(0), &[0, 1])
        .under(1)
        .holds(0, &[1], 0, &[])
        .node(mover(1))
        .node(node("publisher", 1, &[Op::Publish(2).x(), Op::Publish(3).x()]))
        .node(node("writer", 1, &[append(1, 2)]))
        .node(node("reader", 1, &[Op::Read.x()])),
    ]
}
