//! Which plan may follow which.

use loom_shard_plan::{Placement, PlanError, RebalanceOptions, ShardId, ShardPlan, Topology};
use proptest::prelude::*;

use crate::chain::{any_plan, cases};

/// A plan whose bucket 0 is in this state.
pub(crate) fn with_bucket_0(epoch: u64, placement: Placement) -> ShardPlan {
    format!(
        "loom-shard-plan v1\nepoch {epoch}\nhash xxh3-64\nbuckets 4\nshards 0-3: weight 1\n\
         0: {placement}\n1-3: 3\n"
    )
    .parse()
    .unwrap()
}

fn placements() -> Vec<Placement> {
    let ids = || (0..3).map(ShardId);
    let all = ids().flat_map(|from| ids().map(move |to| (from, to)));
    all.map(|(from, to)| match from == to {
        true => Placement::Settled(to),
        false => Placement::Migrating { from, to },
    })
    .collect()
}

/// Where executions of a bucket may be is where they may be looked for afterwards, but for those
/// that the publisher has made sure of: a bucket settles on its destination when it is drained.
#[test]
fn exactly_the_steps_that_strand_nothing_are_legal_for_a_bucket() {
    for now in placements() {
        for next in placements() {
            let holds = (0..3).map(ShardId).filter(|shard| now.names(*shard));
            let finds_all = holds.clone().all(|shard| next.names(shard));
            let settles = now.is_migrating() && next == Placement::Settled(now.destination());
            // Turning a settled bucket into a destination strands nothing; it is no migration either.
            let from_nowhere = !now.is_migrating()
                && next.is_migrating()
                && next.source() != Some(now.destination());
            let legal = (finds_all && !from_nowhere) || settles;
            let (old, new) = (with_bucket_0(7, now), with_bucket_0(8, next));
            assert_eq!(
                old.validate_transition(&new).is_ok(),
                legal,
                "{now} to {next}"
            );
            assert_eq!(old.diff(&new).unwrap().is_legal(), legal, "{now} to {next}");
        }
    }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn every_derived_plan_is_a_legal_successor(plan in any_plan(), some: u64) {
        let chosen = plan.migrating_buckets();
        let chosen = || chosen.iter().filter(|bucket| some >> (bucket % 64) & 1 == 1);
        let grow = RebalanceOptions::default().allow_shrink(true);
        let derived = [
            plan.settled_all(chosen()),
            plan.reverted_all(chosen()),
            plan.split(2),
            plan.rebalanced(u16::try_from(some % 20).unwrap(), grow),
            plan.rebalance(&Topology::of(&plan)),
        ];
        for next in derived.into_iter().flatten() {
            prop_assert_eq!(next.epoch(), plan.epoch() + 1);
            prop_assert_eq!(plan.validate_transition(&next), Ok(()));
        }
    }

    #[test]
    fn nothing_follows_but_the_next_epoch(plan in any_plan()) {
        let next = plan.settled_all([]).unwrap();
        let after = next.settled_all([]).unwrap();
        prop_assert!(plan.validate_transition(&next).is_ok());
        prop_assert!(plan.validate_transition(&plan).is_err());
        prop_assert!(plan.validate_transition(&after).is_err());
        prop_assert!(next.validate_transition(&plan).is_err());
    }

    #[test]
    fn a_migration_that_is_called_off_ends_where_it_began(plan in any_plan()) {
        let plan = plan.settled_all(plan.migrating_buckets().iter()).unwrap();
        let Ok(grown) = plan.rebalance(&Topology::of(&plan).joining(ShardId(9_999), 1).unwrap())
        else { return Ok(()) };
        let moved = grown.migrating_buckets();
        let back = grown.reverted_all(moved.iter()).unwrap();
        let back = back.settled_all(moved.iter()).unwrap();
        prop_assert!(plan.placements().eq(back.placements()));
        // Then the new shard can be taken out, which moves nothing more than it would have before.
        let moves = |plan: &ShardPlan, to| plan.rebalance(to).unwrap().migrating().count();
        let members = Topology::of(&plan);
        prop_assert_eq!(moves(&back, &members) == 0, moves(&plan, &members) == 0);
    }
}

#[test]
fn a_shard_leaves_with_the_last_bucket_that_names_it_and_not_before() {
    let plan = ShardPlan::with_buckets(3, 9).unwrap();
    let shrink = RebalanceOptions::default().allow_shrink(true);
    let shrunk = plan.rebalanced(2, shrink).unwrap();
    let has = |plan: &ShardPlan| plan.shard(ShardId(2)).is_some();
    assert!(shrunk.shard(ShardId(2)).unwrap().is_leaving());
    let some = shrunk.settled_all([6, 7]).unwrap();
    assert!(has(&some));
    let all = some.settled(8).unwrap();
    assert!(!has(&all));
    assert_eq!(all.diff(&some).unwrap().joins().collect::<Vec<_>>(), []);
    assert_eq!(
        some.diff(&all).unwrap().leaves().collect::<Vec<_>>(),
        [ShardId(2)]
    );

    // Half way back: what had settled is gone, the rest is on its old shard, which stays marked.
    let back = some.reverted(8).unwrap().settled(8).unwrap();
    assert_eq!(back.placement(8), Some(Placement::Settled(ShardId(2))));
    assert!(back.shard(ShardId(2)).unwrap().is_leaving());
    assert!(
        back.warnings()
            .iter()
            .any(|warning| warning.to_string().contains("shard 2 is leaving"))
    );
    let again = back.rebalanced(3, RebalanceOptions::default()).unwrap();
    assert!(!again.shard(ShardId(2)).unwrap().is_leaving());
    let away = back.rebalanced(2, RebalanceOptions::default()).unwrap();
    assert_eq!(away.migrating_buckets().to_string(), "8");
}

#[test]
fn a_member_of_weight_0_stays_a_member_and_a_later_growth_leaves_it_alone() {
    let plan = ShardPlan::new(3).unwrap();
    let drained = plan
        .rebalance(&Topology::of(&plan).weighing(ShardId(1), 0).unwrap())
        .unwrap();
    let drained = drained
        .settled_all(drained.migrating_buckets().iter())
        .unwrap();
    assert_eq!(drained.buckets_of(ShardId(1)).len(), 0);
    assert!(
        drained
            .shard(ShardId(1))
            .is_some_and(|shard| !shard.is_leaving())
    );
    let grown = drained.rebalanced(3, RebalanceOptions::default()).unwrap();
    assert_eq!(grown.buckets_of(ShardId(1)).len(), 0);
    assert!(grown.shard(ShardId(3)).is_some());
}

#[test]
fn growing_shards_of_different_weights_by_a_count_is_refused() {
    let topology = Topology::new()
        .joining(ShardId(0), 1)
        .unwrap()
        .joining(ShardId(1), 2)
        .unwrap();
    let plan = ShardPlan::first(&topology, 12, Default::default()).unwrap();
    let grown = plan.rebalanced(3, RebalanceOptions::default());
    assert_eq!(grown, Err(PlanError::UnequalWeights));
    let shrink = RebalanceOptions::default().allow_shrink(true);
    assert_eq!(plan.rebalanced(1, shrink).unwrap().migrating().count(), 8);
}
