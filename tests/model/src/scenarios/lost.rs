//! Requests whose answers are lost, and that take effect late or never.

use super::{append, append_fenced, create, mover};
use crate::op::Op;
use crate::plan::Place::{Migrating, Settled};
use crate::scenario::{Scenario, node};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "lost-while-moving",
            "a mover loses an answer, and its request takes effect late, while others append and delete",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .under(1)
        .holds(0, &[1], 0, &[])
        .node(node("writer", 1, &[append(1, 2)]))
        .node(node("remaker", 1, &[Op::Delete.x(), create(3)]))
        .node(mover(1).losing())
        .losses(1),
        Scenario::new(
            "lost-append",
            "a worker loses an answer while the record moves, and tries again",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .under(1)
        .holds(0, &[1], 1, &[])
        .node(node("fencer", 1, &[Op::Acquire.x(), append_fenced(1, 2), append_fenced(2, 3)]).losing())
        .node(node("older", 1, &[append_fenced(1, 4)]).holding(1))
        .node(mover(1))
        .losses(1),
        Scenario::new(
            "lost-publication",
            "a publisher loses an answer while another is its rival, and both try again",
            0,
        )
        .plan(1, Settled(0), &[0, 1])
        .plan(2, Migrating(0, 1), &[0, 1])
        .plan(3, Migrating(1, 0), &[0, 1])
        .under(1)
        .node(node("publisher", 1, &[Op::Publish(2).x(), Op::Publish(3).x()]).losing())
        .node(node("other", 1, &[Op::Publish(2).x()]))
        .node(node("creator", 1, &[create(1), append(1, 2)]))
        .losses(1),
        Scenario::new(
            "lost-publication-and-mark",
            "a publication takes effect a second time, late, after an execution was deleted under the plan",
            0,
        )
        .plan(1, Settled(1), &[0, 1])
        .plan(2, Migrating(1, 0), &[0, 1])
        .under(1)
        .holds(1, &[1], 0, &[])
        .node(node("publisher", 1, &[Op::Publish(2).x()]).losing())
        .node(node("deleter", 1, &[Op::Follow(2).x(), Op::Delete.x()]))
        .twins(&node("mover", 1, &[Op::Follow(2).x(), Op::Move.x()]))
        .losses(1),
        Scenario::new(
            "lost-late-unseal",
            "a move is cut off and its bucket turns round twice; whatever was asked of a shard may take effect late",
            0,
        )
        .plan(1, Migrating(1, 0), &[0, 1])
        .plan(2, Migrating(0, 1), &[0, 1])
        .plan(3, Migrating(1, 0), &[0, 1])
        .under(2)
        .holds_sealed(1, &[1], 0, &[])
        .node(node("writer", 2, &[append(1, 2)]).losing())
        .node(node("publisher", 2, &[Op::Publish(3).x()]))
        .node(node("mover", 2, &[Op::Follow(3).x(), Op::Move.x()]).losing())
        .losses(1),
        Scenario::new(
            "lost-lineage",
            "a recorder loses an answer while the parent moves, and tries again",
            0,
        )
        .plan(1, Migrating(0, 1), &[0, 1])
        .under(1)
        .holds(0, &[], 0, &[1])
        .node(node("recorder", 1, &[Op::Edge(2).x(), Op::Children.x()]).losing())
        .node(node("creator", 1, &[create(1)]))
        .node(mover(1).losing())
        .losses(1),
    ]
}
