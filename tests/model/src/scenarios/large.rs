//! Scenarios with everybody in them: too large for every run of the tests.

use super::{append_fenced, create, mover};
use crate::op::Op;
use crate::plan::Place::{Migrating, Settled};
use crate::scenario::{Scenario, node};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "all-return-and-settle",
            "four epochs: an execution moves, its bucket turns round, returns and is settled, while it is read, deleted, \
             created again and fenced by somebody whose cache is old",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .plan(2, Migrating(1, 0), &[0, 1])
        .plan(3, Migrating(0, 1), &[0, 1])
        .plan(4, Settled(1), &[1, 2])
        .under(1)
        .holds(0, &[1], 1, &[])
        .node(node("remaker", 1, &[Op::Delete.x(), create(2)]))
        .node(node("fencer", 1, &[Op::Acquire.x(), append_fenced(1, 3)]).cached(0))
        .node(node(
            "mover",
            1,
            &[Op::Move.x(), Op::Follow(2).x(), Op::Move.x(), Op::Follow(3).x(), Op::Move.x()],
        ))
        .node(node(
            "publisher",
            1,
            &[Op::Publish(2).x(), Op::Publish(3).x(), Op::Publish(4).x()],
        ))
        .node(node("reader", 1, &[Op::Read.x()])),
        Scenario::new(
            "all-two-fencers",
            "two workers acquire and append, one from the cache, while the record moves twice, is deleted and read",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .plan(2, Migrating(1, 0), &[0, 1])
        .under(1)
        .holds(0, &[1], 1, &[])
        .node(node("fencer", 1, &[Op::Acquire.x(), append_fenced(1, 2)]).cached(0))
        .node(node("other", 1, &[Op::Acquire.x(), append_fenced(1, 3)]))
        .node(node("deleter", 1, &[Op::Delete.x()]))
        .node(node("publisher", 1, &[Op::Publish(2).x()]))
        .twins(&mover(1)),
        Scenario::new(
            "all-rivals",
            "two publishers are rivals for two epochs, with a sleeper, a creator and movers, over three shards",
            1,
        )
        .plan(1, Settled(1), &[0, 1])
        .plan(2, Migrating(1, 0), &[0, 1])
        .plan(2, Migrating(1, 2), &[0, 1, 2])
        .plan(3, Migrating(0, 1), &[0, 1])
        .plan(3, Settled(2), &[0, 2])
        .under(1)
        .node(node("one", 1, &[Op::Publish(2).x(), Op::Publish(4).x()]))
        .node(node("other", 1, &[Op::Publish(3).x(), Op::Publish(5).x()]))
        .node(node("sleeper", 1, &[create(1)]))
        .node(node("creator", 1, &[create(2), Op::Read.x()]))
        .twins(&node("mover", 1, &[Op::Follow(2).x(), Op::Move.x()])),
        Scenario::new(
            "all-lost",
            "a mover, a worker and a publisher lose answers while an execution is deleted, created again and moves back",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .plan(2, Migrating(1, 0), &[0, 1])
        .under(1)
        .holds(0, &[1], 0, &[])
        .node(node("remaker", 1, &[Op::Delete.x(), create(2)]).losing())
        .node(node("fencer", 1, &[Op::Acquire.x(), append_fenced(1, 3)]).losing())
        .node(node("publisher", 1, &[Op::Publish(2).x()]).losing())
        .node(mover(1).losing())
        .losses(1),
    ]
}
