//! Listings: two executions, whose buckets go opposite ways.

use super::{append, mover};
use crate::op::Op;
use crate::plan::Place::{Migrating, Settled};
use crate::scenario::{Scenario, node};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "list-while-moving",
            "two executions are listed while they move in opposite directions",
            0,
        )
        .plan_of_two(1, Migrating(0, 1), Migrating(1, 0), &[0, 1])
        .under(1)
        .holds(0, &[1], 0, &[])
        .holds_y(1, &[2])
        .node(node("lister", 1, &[Op::List.x()]))
        .node(node("mover", 1, &[Op::Move.x()]))
        .node(node("other", 1, &[Op::Move.y()]))
        .node(node("writer", 1, &[append(1, 3)]))
        .node(node("deleter", 1, &[Op::Delete.y()])),
        Scenario::new(
            "list-while-turning",
            "two executions are listed while one moves back, since its bucket turns round, and the other is settled",
            0,
        )
        .plan_of_two(1, Migrating(0, 1), Migrating(1, 2), &[0, 1, 2])
        .plan_of_two(2, Migrating(1, 0), Settled(2), &[0, 1, 2])
        .under(1)
        .holds(1, &[1], 0, &[])
        .holds_y(2, &[2])
        .node(node("lister", 1, &[Op::List.x()]))
        .node(node("publisher", 1, &[Op::Publish(2).x()]))
        .node(node("mover", 1, &[Op::Follow(2).x(), Op::Move.x()]))
        .node(node("writer", 1, &[append(1, 3)])),
        Scenario::new(
            "list-after-settle",
            "a bucket is settled with a copy left on its source, where a listing looks for others",
            0,
        )
        .plan_of_two(1, Migrating(0, 1), Settled(0), &[0, 1])
        .plan_of_two(2, Settled(1), Settled(0), &[0, 1])
        .under(1)
        .holds_sealed(0, &[1], 0, &[])
        .holds(1, &[1], 0, &[])
        .holds_y(0, &[2])
        .node(node("lister", 1, &[Op::List.x(), Op::Follow(2).x(), Op::List.x()]))
        .node(node("deleter", 1, &[Op::Delete.x()]))
        .node(node("publisher", 1, &[Op::Publish(2).x()]))
        .node(mover(1)),
        Scenario::new(
            "list-with-leftover",
            "an execution is listed of which a cut off move has left a copy, and its bucket has turned round",
            0,
        )
        .plan_of_two(1, Migrating(1, 0), Settled(2), &[0, 1, 2])
        .plan_of_two(2, Migrating(0, 1), Settled(2), &[0, 1, 2])
        .under(2)
        .holds_sealed(1, &[1], 0, &[])
        .holds(0, &[1, 2], 0, &[])
        .holds_y(2, &[3])
        .node(node("lister", 2, &[Op::List.x()]))
        .node(node("writer", 2, &[append(2, 4)]))
        .node(node("deleter", 2, &[Op::Delete.x()]))
        .node(mover(2)),
    ]
}
