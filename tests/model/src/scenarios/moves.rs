//! Moves, deletes and helpers that are late.

use super::{append, create, mover};
use crate::op::Op;
use crate::plan::Place::{Migrating, Settled};
use crate::scenario::{Scenario, node};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "late-helper",
            "two movers, one of them slow, while the execution is deleted and created again",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .under(1)
        .holds(0, &[1], 0, &[])
        .node(node("deleter", 1, &[Op::Delete.x()]))
        .node(node("creator", 1, &[create(2)]))
        .node(node("reader", 1, &[Op::Read.x()]))
        .twins(&mover(1)),
        Scenario::new(
            "late-helper-append",
            "two movers, one of them slow, while somebody appends and reads",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .under(1)
        .holds(0, &[1, 2], 0, &[])
        .node(node("writer", 1, &[append(2, 3)]))
        .node(node("reader", 1, &[Op::Read.x(), Op::Read.x()]))
        .twins(&mover(1)),
        Scenario::new(
            "unchanged-over-two-epochs",
            "a bucket migrates unchanged over two epochs while it is deleted and a mover is slow",
            0,
        )
        .plan_of_two(1, Migrating(0, 1), Settled(0), &[0, 1, 2])
        .plan_of_two(2, Migrating(0, 1), Migrating(0, 2), &[0, 1, 2])
        .under(1)
        .holds(0, &[1], 0, &[])
        .node(node("deleter", 1, &[Op::Delete.x()]))
        .node(node("creator", 1, &[create(2)]))
        .node(node("publisher", 1, &[Op::Publish(2).x()]))
        .twins(&mover(1)),
        Scenario::new(
            "create-move-revert",
            "an execution is created and appended to, moves, its bucket turns round, it moves back",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .plan(2, Migrating(1, 0), &[0, 1])
        .under(1)
        .holds(0, &[1], 0, &[])
        .node(node("writer", 1, &[append(1, 2), append(2, 3)]))
        .node(node("mover", 1, &[Op::Move.x(), Op::Follow(2).x(), Op::Move.x()]))
        .node(node("helper", 1, &[Op::Move.x()]))
        .node(node("publisher", 1, &[Op::Publish(2).x()])),
        Scenario::new(
            "delete-at-any-time",
            "an execution moves, its bucket turns round, it moves back; it is deleted at any time and created again, \
             and a helper is late",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .plan(2, Migrating(1, 0), &[0, 1])
        .under(1)
        .holds(0, &[1], 0, &[])
        .node(node("remaker", 1, &[Op::Delete.x(), create(2)]))
        .node(node("mover", 1, &[Op::Move.x(), Op::Follow(2).x(), Op::Move.x()]))
        .node(node("helper", 1, &[Op::Move.x()]))
        .node(node("publisher", 1, &[Op::Publish(2).x()])),
        Scenario::new(
            "return-and-settle",
            "four epochs: an execution moves, its bucket turns round, returns, and is settled",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .plan(2, Migrating(1, 0), &[0, 1])
        .plan(3, Migrating(0, 1), &[0, 1])
        .plan(4, Settled(1), &[0, 1])
        .under(1)
        .holds(0, &[1], 0, &[])
        .node(node("writer", 1, &[append(1, 2)]))
        .node(node(
            "mover",
            1,
            &[Op::Move.x(), Op::Follow(2).x(), Op::Move.x(), Op::Follow(3).x(), Op::Move.x()],
        ))
        .node(node(
            "publisher",
            1,
            &[Op::Publish(2).x(), Op::Publish(3).x(), Op::Publish(4).x()],
        )),
        Scenario::new(
            "whole-life",
            "an execution is created and appended to, moves, its bucket turns round, returns and is settled; it is \
             deleted at any time and created again",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .plan(2, Migrating(1, 0), &[0, 1])
        .plan(3, Migrating(0, 1), &[0, 1])
        .plan(4, Settled(1), &[0, 1])
        .under(1)
        .node(node("author", 1, &[create(1), append(1, 2)]))
        .node(node("remaker", 1, &[Op::Delete.x(), create(3)]))
        .node(node(
            "mover",
            1,
            &[
                Op::Move.x(),
                Op::Follow(2).x(),
                Op::Move.x(),
                Op::Follow(3).x(),
                Op::Move.x(),
            ],
        ))
        .node(node(
            "publisher",
            1,
            &[Op::Publish(2).x(), Op::Publish(3).x(), Op::Publish(4).x()],
        )),
        Scenario::new(
            "delete-then-return",
            "an execution is deleted on the destination, created again, and comes back there two epochs later",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .plan(2, Migrating(1, 0), &[0, 1])
        .plan(3, Migrating(0, 1), &[0, 1])
        .under(1)
        .holds(1, &[1], 0, &[])
        .node(node("remaker", 1, &[Op::Delete.x(), create(2)]))
        .node(node(
            "mover",
            1,
            &[Op::Follow(2).x(), Op::Move.x(), Op::Follow(3).x(), Op::Move.x()],
        ))
        .node(node("publisher", 1, &[Op::Publish(2).x(), Op::Publish(3).x()])),
        Scenario::new(
            "absence",
            "an execution is looked for while it moves",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .under(1)
        .holds(0, &[1], 0, &[])
        .node(node("reader", 1, &[Op::Read.x()]))
        .node(node("writer", 1, &[append(1, 2)]))
        .node(node("deleter", 1, &[Op::Delete.x()]))
        .node(mover(1)),
    ]
}
