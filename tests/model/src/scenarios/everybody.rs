//! Everybody at once, with a bound on how often a node is interrupted.

use super::{append, append_fenced, create, mover};
use crate::op::Op;
use crate::plan::Place::{Migrating, Settled};
use crate::scenario::{Scenario, node};

/// Ten nodes, three shards and four epochs, in which a node is interrupted at most so many times.
pub(super) fn everybody(interruptions: u8) -> Scenario {
    Scenario::new(
        &format!("everybody-interrupted-{interruptions}"),
        "a bucket turns round, returns and is settled, while two movers, a creator, a deleter, a reader, two fencers and a sleeper \
         with an old cache work on an execution, and a rival publishes another plan",
        0,
    )
    .plan(1, Migrating(0, 1), &[0, 1])
    .plan(2, Migrating(1, 0), &[0, 1])
    .plan(3, Migrating(0, 1), &[0, 1])
    .plan(3, Settled(0), &[0, 2])
    .plan(4, Settled(1), &[1, 2])
    .under(1)
    .holds(0, &[1], 1, &[4])
    .node(node("publisher", 1, &[Op::Publish(2).x(), Op::Publish(3).x(), Op::Publish(5).x()]))
    .node(node("rival", 1, &[Op::Follow(2).x(), Op::Publish(4).x()]))
    .node(node("creator", 1, &[create(2)]))
    .node(node("deleter", 1, &[Op::Delete.x()]))
    .node(node("reader", 1, &[Op::Read.x()]))
    .node(node("fencer", 1, &[Op::Acquire.x(), append_fenced(1, 3)]).cached(0))
    .node(node("other", 1, &[Op::Acquire.x(), append_fenced(1, 5)]))
    .node(node("sleeper", 1, &[append(1, 6)]).cached(0))
    .twins(&mover(1))
    .interruptions(interruptions)
}
