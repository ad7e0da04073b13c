//! A rebalance, whatever the topologies before and after it.

use loom_shard_plan::{Placement, Shard, ShardId, ShardPlan, Topology};
use proptest::prelude::*;

use crate::chain::{Step, any_plan, cases, start, steps};
use crate::fairness::{counts, fewest_moves, is_fair, shares};

/// Everything that holds for every rebalance. Gives the settled plan.
fn check(old: &ShardPlan, topology: &Topology) -> Result<Option<ShardPlan>, TestCaseError> {
    let Ok(new) = old.rebalance(topology) else {
        return Ok(None);
    };
    prop_assert_eq!(new.epoch(), old.epoch() + 1);

    let mut moved = 0;
    for (before, after) in old.placements().zip(new.placements()) {
        let from = before.destination();
        match after {
            Placement::Settled(_) => prop_assert_eq!(before, after),
            Placement::Migrating { from: source, to } => {
                prop_assert_eq!(source, from);
                prop_assert_ne!(to, from);
                moved += 1;
            }
        }
    }
    prop_assert_eq!(moved, fewest_moves(old, topology));
    prop_assert!(
        is_fair(&counts(&new), old.bucket_count(), topology),
        "{:?} of {:?}",
        new.loads(),
        topology
    );
    for (bucket, shard) in topology.pins() {
        prop_assert_eq!(new.placement(bucket).unwrap().destination(), shard);
    }

    prop_assert_eq!(old.validate_transition(&new), Ok(()));
    let diff = old.diff(&new).unwrap();
    prop_assert_eq!(u64::from(diff.moved().len()), moved);
    prop_assert_eq!(diff.rollback(), &new.migrating_buckets());

    // Computed once more, from a topology that was put together the other way round.
    let mut mirrored = Topology::new();
    for shard in topology.members().iter().rev() {
        mirrored = mirrored.joining(shard.id(), shard.weight()).unwrap();
    }
    let pins: Vec<_> = topology.pins().collect();
    for (bucket, shard) in pins.into_iter().rev() {
        mirrored = mirrored.pinning(bucket, shard);
    }
    prop_assert_eq!(old.rebalance(&mirrored).unwrap().to_bytes(), new.to_bytes());

    let settled = new.settled_all(new.migrating_buckets().iter()).unwrap();
    prop_assert_eq!(new.validate_transition(&settled), Ok(()));
    prop_assert_eq!(settled.shards(), topology.members());
    let again = settled.rebalance(topology).unwrap();
    prop_assert!(settled.diff(&again).unwrap().is_no_change());
    prop_assert_eq!(again.migrating().count(), 0);
    Ok(Some(settled))
}

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn is_minimal_fair_deterministic_legal_and_done_once(start in start(), steps in steps()) {
        let mut plan = start.plan();
        for step in &steps {
            if let Some(next) = check(&plan, &step.apply(&plan))? {
                plan = next;
            }
        }
    }

    #[test]
    fn from_a_plan_that_is_not_balanced_is_minimal_and_fair(plan in any_plan(), steps in steps()) {
        let plan = plan.settled_all(plan.migrating_buckets().iter()).unwrap();
        check(&plan, &steps[0].apply(&plan))?;
    }

    #[test]
    fn draining_a_shard_empties_exactly_it(start in start(), steps in steps(), which: usize) {
        let mut plan = start.plan();
        for step in &steps {
            if let Ok(next) = plan.rebalance(&step.apply(&plan)) {
                plan = next.settled_all(next.migrating_buckets().iter()).unwrap();
            }
        }
        let Some(drained) = plan.shards().get(which % plan.shards().len()).map(Shard::id)
        else { return Ok(()) };
        let steps = [Step::Weigh { which, weight: 0 }, Step::Leave { which }];
        for topology in steps.map(|step| step.apply(&plan)) {
            let Ok(next) = plan.rebalance(&topology) else { continue };
            prop_assert_eq!(next.buckets_of(drained).len(), 0);
            if can_keep_all_but(&plan, drained, &topology) {
                for moving in next.migrating() {
                    prop_assert_eq!(moving.from, drained);
                }
            }
        }
    }
}

/// Whether all others can keep what they have and everyone be within one bucket of fair. Always so
/// for equal weights, and nearly always for others.
fn can_keep_all_but(plan: &ShardPlan, drained: ShardId, topology: &Topology) -> bool {
    let counts = counts(plan);
    let (mut kept_or_due, mut fits) = (0, true);
    for (id, share) in shares(plan.bucket_count(), topology) {
        let held = if id == drained { 0 } else { counts[&id] };
        let (least, most) = share.bounds();
        fits &= held <= most;
        kept_or_due += held.max(least);
    }
    fits && kept_or_due <= u64::from(plan.bucket_count())
}

#[test]
fn draining_one_of_many_equal_shards_never_costs_another_a_bucket() {
    for shards in 2..=300_u16 {
        let plan = ShardPlan::new(shards).unwrap();
        for drained in [0, shards / 2, shards - 1] {
            let topology = Topology::of(&plan).weighing(ShardId(drained), 0).unwrap();
            let next = plan.rebalance(&topology).unwrap();
            assert!(
                next.migrating()
                    .all(|moving| moving.from == ShardId(drained))
            );
            assert_eq!(
                next.buckets_of(ShardId(drained)).len(),
                0,
                "{shards} shards"
            );
        }
    }
}

#[test]
fn a_shard_that_is_taken_out_has_exactly_no_bucket_whatever_its_id_and_the_number_of_shards() {
    for shards in 2..=100_u16 {
        let plan = ShardPlan::new(shards).unwrap();
        for id in (0..shards).map(ShardId) {
            let topology = Topology::of(&plan).leaving(id).unwrap();
            let next = plan.rebalance(&topology).unwrap();
            assert_eq!(
                next.loads()[usize::from(id.get())].buckets(),
                0,
                "{id} of {shards}"
            );
            let settled = next.settled_all(next.migrating_buckets().iter()).unwrap();
            assert!(settled.shard(id).is_none() && settled.buckets_of(id).is_empty());
        }
    }
}

#[test]
fn growth_from_1_to_201_shards_is_minimal_fair_and_ends_whether_in_one_step_or_in_200() {
    let mut plan = ShardPlan::new(1).unwrap();
    check(&plan, &Topology::equal(201)).unwrap().unwrap();
    for shards in 2..=201 {
        plan = check(&plan, &Topology::equal(shards)).unwrap().unwrap();
    }
    assert_eq!(plan.shards().len(), 201);
}

#[test]
fn rebalancing_a_balanced_plan_moves_nothing_and_says_so() {
    let plan = ShardPlan::new(7).unwrap();
    let again = plan.rebalanced(7, Default::default()).unwrap();
    let diff = plan.diff(&again).unwrap();
    assert!(diff.is_no_change());
    assert!(
        diff.to_string().contains("no change: 0 buckets move"),
        "{diff}"
    );
    assert_eq!(again.epoch(), 2);
}
