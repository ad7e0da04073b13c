//! Publishers, rivals, and nodes that slept.

use super::{append, create, mover};
use crate::op::Op;
use crate::plan::Place::{Migrating, Settled};
use crate::scenario::{Scenario, node};

pub(super) fn all() -> Vec<Scenario> {
    [rivals(), sleepers(), half_published()].concat()
}

fn rivals() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "rivals-for-destinations",
            "two publishers send a bucket that is on the lowest shard to different destinations",
            0,
        )
        .plan(1, Settled(0), &[0])
        .plan(2, Migrating(0, 1), &[0, 1])
        .plan(2, Migrating(0, 2), &[0, 2])
        .under(1)
        .holds(0, &[1], 0, &[])
        .node(node("one", 1, &[Op::Publish(2).x(), append(1, 2)]))
        .node(node("other", 1, &[Op::Publish(3).x(), append(1, 3)]))
        .node(node("mover", 1, &[Op::Follow(2).x(), Op::Move.x()]))
        .node(node("writer", 1, &[append(1, 4)])),
        Scenario::new(
            "rivals-for-destinations-higher",
            "the same with the bucket on another shard than the lowest, and one that is lower joining",
            1,
        )
        .plan(1, Settled(1), &[1])
        .plan(2, Migrating(1, 0), &[0, 1])
        .plan(2, Migrating(1, 2), &[1, 2])
        .under(1)
        .node(node("one", 1, &[Op::Publish(2).x(), create(1)]))
        .node(node("other", 1, &[Op::Publish(3).x(), create(2)]))
        .node(node("creator", 1, &[create(3)])),
        Scenario::new(
            "settle-against-revert",
            "one publisher settles a bucket while another turns it round, and its source is the lowest shard",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .plan(2, Settled(1), &[1])
        .plan(2, Migrating(1, 0), &[0, 1])
        .under(1)
        .holds(0, &[1], 0, &[])
        .node(node("settler", 1, &[Op::Publish(2).x()]))
        .node(node("reverter", 1, &[Op::Publish(3).x()]))
        .node(node("writer", 1, &[append(1, 2), append(2, 3)]))
        .node(mover(1)),
        Scenario::new(
            "settle-against-revert-higher",
            "the same where another shard is the lowest",
            1,
        )
        .plan(1, Migrating(1, 2), &[0, 1, 2])
        .plan(2, Settled(2), &[0, 2])
        .plan(2, Migrating(2, 1), &[0, 1, 2])
        .under(1)
        .holds(1, &[1], 0, &[])
        .node(node("settler", 1, &[Op::Publish(2).x()]))
        .node(node("reverter", 1, &[Op::Publish(3).x()]))
        .node(node("writer", 1, &[append(1, 2)]))
        .node(mover(1)),
        Scenario::new(
            "stale-publisher",
            "a publisher whose plan was made for an earlier one publishes it late",
            0,
        )
        .plan(1, Settled(0), &[0, 1, 2])
        .plan(2, Migrating(0, 1), &[0, 1, 2])
        .plan(3, Settled(0), &[0, 1, 2])
        .under(1)
        .node(node("publisher", 1, &[Op::Publish(2).x()]))
        .node(node("stale", 1, &[Op::Follow(2).x(), Op::Publish(3).x()]))
        .node(node("creator", 1, &[create(1)]))
        .node(node("reader", 1, &[Op::Read.x()])),
    ]
}

fn sleepers() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "sleeper-over-revert",
            "a node slept since the bucket was settled, and wakes up after it went to another shard and back",
            0,
        )
        .plan(1, Settled(0), &[0, 1])
        .plan(2, Migrating(0, 1), &[0, 1])
        .plan(3, Migrating(1, 0), &[0, 1])
        .under(1)
        .node(node("sleeper", 1, &[create(1), append(1, 2)]))
        .node(node("creator", 1, &[create(3)]))
        .node(node("publisher", 1, &[Op::Publish(2).x(), Op::Publish(3).x()]))
        .node(node("mover", 1, &[Op::Follow(2).x(), Op::Move.x()])),
        Scenario::new(
            "sleeper-over-settle",
            "a node slept since the bucket was settled, and wakes up after it was settled on a third shard",
            0,
        )
        .plan(1, Settled(0), &[0, 1])
        .plan(2, Migrating(0, 2), &[0, 1, 2])
        .plan(3, Settled(2), &[1, 2])
        .under(1)
        .node(node("sleeper", 1, &[create(1), append(1, 2)]))
        .node(node("creator", 1, &[create(3)]))
        .node(node("publisher", 1, &[Op::Publish(2).x(), Op::Publish(3).x()]))
        .node(node("mover", 1, &[Op::Follow(2).x(), Op::Move.x()])),
        Scenario::new(
            "left-without-being-told",
            "a shard has left, was never told, and comes back; a node that slept still has it in its cache",
            1,
        )
        .plan(1, Migrating(1, 0), &[0, 1])
        .plan(2, Settled(0), &[0])
        .plan(3, Migrating(0, 1), &[0, 1])
        .under(1)
        .but(0, 2)
        .holds(0, &[1], 1, &[])
        .node(node("sleeper", 1, &[Op::Acquire.x(), super::append_fenced(1, 2)]).cached(1))
        .node(node("maker", 1, &[Op::Delete.x(), create(3)]))
        .node(node("publisher", 2, &[Op::Publish(3).x()]))
        .node(node("mover", 1, &[Op::Follow(3).x(), Op::Move.x()])),
        Scenario::new(
            "cache-of-a-shard-that-left",
            "a node slept since a bucket migrated from a shard that has left and was never told",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .plan(2, Settled(1), &[1])
        .plan(3, Migrating(1, 2), &[1, 2])
        .under(1)
        .but(1, 2)
        .holds(1, &[1], 0, &[])
        .node(node("sleeper", 1, &[Op::Follow(3).x(), Op::Read.x(), append(1, 2)]).cached(0))
        .node(node("publisher", 2, &[Op::Publish(3).x()]))
        .node(node("mover", 2, &[Op::Follow(3).x(), Op::Move.x()])),
        Scenario::new(
            "epoch-zero",
            "a process that predates plans creates and appends while the first plans are published",
            0,
        )
        .plan(1, Settled(0), &[0, 1])
        .plan(2, Migrating(0, 1), &[0, 1])
        .node(node("old", 0, &[create(1), append(1, 2)]))
        .node(node("publisher", 0, &[Op::Publish(1).x(), Op::Publish(2).x()]))
        .node(node("creator", 0, &[Op::Follow(1).x(), create(3), append(1, 4)]))
        .node(node("reader", 0, &[Op::Follow(2).x(), Op::Read.x()])),
        Scenario::new(
            "epoch-zero-higher",
            "the same with the bucket on another shard than the one that decides",
            1,
        )
        .plan(1, Settled(1), &[0, 1])
        .plan(2, Migrating(1, 0), &[0, 1])
        .holds(1, &[1], 0, &[])
        .node(node("old", 0, &[append(1, 2), Op::Delete.x()]))
        .node(node("publisher", 0, &[Op::Publish(1).x(), Op::Publish(2).x()]))
        .node(node("mover", 0, &[Op::Follow(2).x(), Op::Move.x()]))
        .node(node("writer", 0, &[Op::Follow(1).x(), append(1, 3)])),
    ]
}

fn half_published() -> Vec<Scenario> {
    // Plan 2 is decided on shard 0, and 1 and 2 have not heard of it.
    let half = |name, about| {
        Scenario::new(name, about, 1)
            .plan(1, Settled(1), &[0, 1, 2])
            .plan(2, Migrating(1, 2), &[0, 1, 2])
            .under(1)
            .but(0, 2)
    };
    vec![
        half(
            "half-published-settle",
            "a plan is decided and half published, and the bucket is settled",
        )
        .plan(3, Settled(2), &[0, 1, 2])
        .node(node("creator", 1, &[create(1), append(1, 2)]))
        .node(node("publisher", 2, &[Op::Publish(3).x()]))
        .node(node("other", 2, &[create(3)]))
        .node(node("mover", 2, &[Op::Move.x()])),
        half(
            "half-published-drain",
            "a plan is decided and only the source has not heard of it, and the bucket is settled",
        )
        .but(2, 2)
        .plan(3, Settled(2), &[0, 1, 2])
        .node(node("creator", 1, &[create(1), append(1, 2)]))
        .node(node("publisher", 2, &[Op::Publish(3).x()]))
        .node(node("other", 2, &[create(3), append(1, 4)])),
        half(
            "half-published-revert",
            "a plan is decided and half published, and the bucket turns round",
        )
        .plan(3, Migrating(2, 1), &[0, 1, 2])
        .node(node("creator", 1, &[create(1), append(1, 2)]))
        .node(node("publisher", 2, &[Op::Publish(3).x()]))
        .node(node("other", 2, &[create(3), Op::Read.x()])),
        half(
            "half-published-rivals",
            "two publishers go on from a half published plan",
        )
        .plan(3, Settled(2), &[0, 1, 2])
        .plan(3, Migrating(2, 1), &[0, 1, 2])
        .holds(1, &[1], 0, &[])
        .node(node("settler", 1, &[Op::Publish(3).x()]))
        .node(node("reverter", 2, &[Op::Publish(4).x()]))
        .node(node("writer", 1, &[append(1, 2)]))
        .node(node("mover", 2, &[Op::Move.x()])),
    ]
}
