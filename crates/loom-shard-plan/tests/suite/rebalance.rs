//! A rebalance, whatever the topologies before and after it.

use std::collections::BTreeMap;

use loom_shard_plan::{Placement, Shard, ShardId, ShardPlan, Topology};
use proptest::prelude::*;

use crate::chain::{Start, Step, any_plan, cases, start, steps};

/// The fair share of a member as a fraction, or the exact number if pins decide.
#[derive(Debug, Clone, Copy)]
enum Share {
    Pinned(u64),
    Fair { numerator: u128, denominator: u128 },
}

/// What each member should have, by the definition and in the slowest way.
fn shares(buckets: u32, topology: &Topology) -> BTreeMap<ShardId, Share> {
    let mut pins: BTreeMap<ShardId, u64> = BTreeMap::new();
    for (_, shard) in topology.pins() {
        *pins.entry(shard).or_default() += 1;
    }
    let pinned = |id: ShardId| pins.get(&id).copied().unwrap_or(0);
    let mut free: Vec<_> = topology.members().to_vec();
    let mut shares = BTreeMap::new();
    let mut rest = u128::from(buckets);
    loop {
        let weights: u128 = free.iter().map(|shard| u128::from(shard.weight())).sum();
        let over = free.iter().position(|shard| {
            let weight = u128::from(shard.weight());
            weight == 0 || u128::from(pinned(shard.id())) * weights > weight * rest
        });
        let Some(at) = over else {
            for shard in free {
                let numerator = u128::from(shard.weight()) * rest;
                shares.insert(
                    shard.id(),
                    Share::Fair {
                        numerator,
                        denominator: weights,
                    },
                );
            }
            return shares;
        };
        let shard = free.remove(at);
        rest -= u128::from(pinned(shard.id()));
        shares.insert(shard.id(), Share::Pinned(pinned(shard.id())));
    }
}

fn counts(plan: &ShardPlan) -> BTreeMap<ShardId, u64> {
    plan.loads()
        .into_iter()
        .map(|load| (load.shard, u64::from(load.buckets())))
        .collect()
}

fn is_fair(plan: &ShardPlan, topology: &Topology) -> bool {
    let counts = counts(plan);
    shares(plan.bucket_count(), topology)
        .into_iter()
        .all(|(id, share)| {
            let count = counts[&id];
            match share {
                Share::Pinned(exactly) => count == exactly,
                Share::Fair {
                    numerator,
                    denominator,
                } => (u128::from(count) * denominator).abs_diff(numerator) < denominator,
            }
        })
}

/// The fewest moves that lead from `old` to as many buckets a shard as `new` has: every shard loses
/// what it has too much, and what is pinned elsewhere.
fn fewest_moves(old: &ShardPlan, new: &ShardPlan, topology: &Topology) -> u64 {
    let (before, after) = (counts(old), counts(new));
    let mut pinned_in: BTreeMap<ShardId, u64> = BTreeMap::new();
    let mut pinned_out: BTreeMap<ShardId, u64> = BTreeMap::new();
    for (bucket, to) in topology.pins() {
        let from = old.placement(bucket).unwrap().destination();
        if from != to {
            *pinned_in.entry(to).or_default() += 1;
            *pinned_out.entry(from).or_default() += 1;
        }
    }
    let number = |of: &BTreeMap<ShardId, u64>, id| of.get(&id).copied().unwrap_or(0);
    let lost = |(id, held): (&ShardId, &u64)| {
        let too_many = (held + number(&pinned_in, *id)).saturating_sub(number(&after, *id));
        too_many.max(number(&pinned_out, *id))
    };
    before.iter().map(lost).sum()
}

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
    prop_assert_eq!(moved, fewest_moves(old, &new, topology));
    prop_assert!(
        is_fair(&new, topology),
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
        let held = if id == drained {
            0
        } else {
            u128::from(counts[&id])
        };
        let (least, most) = match share {
            Share::Pinned(exactly) => (exactly.into(), exactly.into()),
            Share::Fair {
                numerator,
                denominator,
            } => (numerator / denominator, numerator.div_ceil(denominator)),
        };
        fits &= held <= most;
        kept_or_due += held.max(least);
    }
    fits && kept_or_due <= u128::from(plan.bucket_count())
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

/// Every assignment of a few buckets to a few shards, tried out.
#[test]
fn no_assignment_at_all_with_the_same_fairness_needs_fewer_moves() {
    let starts = [
        Start::Equal {
            shards: 1,
            buckets: 6,
        },
        Start::Equal {
            shards: 3,
            buckets: 7,
        },
        Start::Weighted {
            weights: vec![1, 2, 4],
            buckets: 7,
        },
        Start::Weighted {
            weights: vec![3, 0, 2],
            buckets: 6,
        },
    ];
    let steps = [
        Step::Join { weight: 1 },
        Step::Join { weight: 3 },
        Step::Leave { which: 0 },
        Step::Weigh {
            which: 1,
            weight: 5,
        },
        Step::Weigh {
            which: 0,
            weight: 0,
        },
        Step::Pin {
            buckets: vec![0, 3, 5],
            which: 1,
        },
        Step::Nothing,
    ];
    for (start, step) in starts
        .iter()
        .flat_map(|start| steps.iter().map(move |step| (start, step)))
    {
        let plan = start.plan();
        let topology = step.apply(&plan);
        let Ok(new) = plan.rebalance(&topology) else {
            continue;
        };
        let (moved, wanted) = (new.migrating().count(), counts(&new));
        let fewest = assignments(&plan, &topology)
            .filter(|owners| {
                wanted
                    .iter()
                    .all(|(id, count)| count_of(owners, *id) == *count)
            })
            .map(|owners| {
                let old = plan.placements().map(Placement::destination);
                old.zip(owners).filter(|(old, new)| old != new).count()
            })
            .min();
        assert_eq!(Some(moved), fewest, "{start:?} {step:?}");
    }
}

fn count_of(owners: &[ShardId], shard: ShardId) -> u64 {
    owners.iter().map(|owner| u64::from(*owner == shard)).sum()
}

/// All ways to give the buckets to the members that heed the pins.
fn assignments(plan: &ShardPlan, topology: &Topology) -> impl Iterator<Item = Vec<ShardId>> {
    let members: Vec<ShardId> = topology.members().iter().map(Shard::id).collect();
    let pins: BTreeMap<u32, ShardId> = topology.pins().collect();
    let buckets = plan.bucket_count();
    (0..members.len().pow(buckets)).filter_map(move |mut number| {
        let owners: Vec<ShardId> = (0..buckets)
            .map(|_| {
                let owner = members[number % members.len()];
                number /= members.len();
                owner
            })
            .collect();
        pins.iter()
            .all(|(bucket, shard)| owners[*bucket as usize] == *shard)
            .then_some(owners)
    })
}
