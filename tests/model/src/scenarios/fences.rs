//! Fences that are taken before the execution exists.

use super::{append_fenced, create, create_fenced, mover};
use crate::op::Op;
use crate::plan::Place::{Migrating, Settled};
use crate::scenario::{Scenario, node};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "fence-before-creation",
            "a fence is taken before the execution exists, the bucket begins to migrate, a newer one is taken, and \
             the older holder wakes up and creates",
            0,
        )
        .plan(1, Settled(0), &[0, 1])
        .plan(2, Migrating(0, 1), &[0, 1])
        .under(1)
        .holds(0, &[], 1, &[])
        .node(node("older", 1, &[create_fenced(1)]).holding(1))
        .node(node("newer", 1, &[Op::Acquire.x(), create_fenced(2)]))
        .node(node("publisher", 1, &[Op::Publish(2).x()]))
        .node(node("mover", 1, &[Op::Follow(2).x(), Op::Move.x()])),
        Scenario::new(
            "fence-before-creation-settle",
            "the same with the bucket settled in between",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .plan(2, Settled(1), &[0, 1])
        .under(1)
        .holds(0, &[], 1, &[])
        .node(node("older", 1, &[create_fenced(1)]).holding(1))
        .node(node("newer", 1, &[Op::Acquire.x(), create_fenced(2)]))
        .node(node("publisher", 1, &[Op::Publish(2).x()]))
        .node(mover(1)),
        Scenario::new(
            "two-fencers",
            "two workers acquire and append while the record moves and is deleted",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .under(1)
        .holds(0, &[1], 1, &[])
        .node(node("fencer", 1, &[Op::Acquire.x(), append_fenced(1, 2)]).cached(0))
        .node(node("other", 1, &[Op::Acquire.x(), append_fenced(1, 3)]))
        .node(node("deleter", 1, &[Op::Delete.x()]))
        .node(mover(1)),
        Scenario::new(
            "fencers-from-nothing",
            "two workers acquire before the execution exists, and create it, while the bucket begins to migrate and \
             turns round",
            0,
        )
        .plan(1, Settled(0), &[0, 1])
        .plan(2, Migrating(0, 1), &[0, 1])
        .plan(3, Migrating(1, 0), &[0, 1])
        .under(1)
        .node(node("fencer", 1, &[Op::Acquire.x(), create_fenced(1)]))
        .node(node("other", 1, &[Op::Acquire.x(), create_fenced(2)]))
        .node(node("publisher", 1, &[Op::Publish(2).x(), Op::Publish(3).x()])),
        Scenario::new(
            "unfenced-creator",
            "somebody creates without a token while another acquires one and the record moves",
            0,
        )
        .plan(1, Settled(0), &[0, 1])
        .plan(2, Migrating(0, 1), &[0, 1])
        .under(1)
        .node(node("fencer", 1, &[Op::Acquire.x(), create_fenced(1)]))
        .node(node("creator", 1, &[create(2)]))
        .node(node("deleter", 1, &[Op::Delete.x()]))
        .node(node("publisher", 1, &[Op::Publish(2).x()])),
    ]
}
