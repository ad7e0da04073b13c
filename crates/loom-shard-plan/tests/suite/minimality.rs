//! How many buckets a rebalance moves, and which shares it rounds up, beside every alternative.

use std::cmp::Reverse;

use loom_shard_plan::{HashFunction, ShardId, ShardPlan, Topology};
use proptest::prelude::*;

use crate::chain::{any_plan, cases, start, steps};
use crate::fairness::{
    Counts, Share, assignments, counts, counts_of, distributions, fewest_moves, is_fair, moves_of,
    moves_to, number, once_pinned, shares,
};

fn moved(plan: &ShardPlan) -> u64 {
    plan.migrating().map(|_| 1).sum()
}

/// A plan of a few buckets in any state that a rebalance may start from, fair or not, and a
/// topology: members that stay, join and leave, with any weights, and pins.
fn small(
    shards: u16,
    buckets: std::ops::RangeInclusive<u32>,
) -> impl Strategy<Value = (ShardPlan, Topology)> {
    let weight = || prop_oneof![2 => Just(1_u32), 6 => 1..=9_u32, 1 => Just(0), 1 => 1..=1000_u32];
    let members = || prop::collection::vec((any::<bool>(), weight()), usize::from(shards));
    let pins = || prop::collection::vec((any::<u32>(), any::<prop::sample::Index>()), 0..4);
    (buckets, members(), members(), pins(), pins()).prop_filter_map(
        "no member",
        |(buckets, before, after, pins_before, pins_after)| {
            let topology = |members: Vec<(bool, u32)>, pins: Vec<(u32, prop::sample::Index)>| {
                let mut topology = Topology::new();
                for (id, (is_member, weight)) in (0..).zip(members) {
                    if is_member {
                        topology = topology.joining(ShardId(id), weight).unwrap();
                    }
                }
                for (bucket, which) in pins {
                    if !topology.members().is_empty() {
                        let shard = which.get(topology.members()).id();
                        topology = topology.pinning(bucket % buckets, shard);
                    }
                }
                topology
            };
            let (before, after) = (topology(before, pins_before), topology(after, pins_after));
            let plan = ShardPlan::first(&before, buckets, HashFunction::default()).ok()?;
            plan.rebalance(&after).is_ok().then_some((plan, after))
        },
    )
}

/// Whose share is rounded up, by exchange: nobody who was rounded down comes before anybody who was
/// rounded up. Those that hold more than their whole part come first, as they would have to give
/// one up; then the largest remainder decides, then the lower id.
fn check_who_is_rounded_up(
    old: &ShardPlan,
    topology: &Topology,
    chosen: &Counts,
) -> Result<(), TestCaseError> {
    let (held, _) = once_pinned(old, topology);
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for (id, share) in shares(old.bucket_count(), topology) {
        if share.remainder() == 0 {
            continue;
        }
        let whole = share.bounds().0;
        let rank = (number(&held, id) > whole, share.remainder(), Reverse(id));
        if number(chosen, id) > whole {
            up.push(rank);
        } else {
            down.push(rank);
        }
    }
    if let (Some(last), Some(first)) = (up.iter().min(), down.iter().max()) {
        prop_assert!(last > first, "{last:?} is rounded up and {first:?} is not");
    }
    Ok(())
}

/// Hamilton's method as it is told: one bucket after the other to the largest remainder.
fn largest_remainder(buckets: u32, topology: &Topology) -> Counts {
    let shares = shares(buckets, topology);
    let mut counts: Counts = shares
        .iter()
        .map(|(id, share)| (*id, share.bounds().0))
        .collect();
    let mut remainders: Vec<(u128, Reverse<ShardId>)> = shares
        .iter()
        .map(|(id, share): (_, &Share)| (share.remainder(), Reverse(*id)))
        .collect();
    while counts.values().sum::<u64>() < u64::from(buckets) {
        let largest = *remainders.iter().max().unwrap();
        remainders.retain(|remainder| *remainder != largest);
        *counts.get_mut(&largest.1.0).unwrap() += 1;
    }
    counts
}

proptest! {
    #![proptest_config(cases(1500))]

    /// Every assignment of every bucket to every member, tried out.
    #[test]
    fn no_fair_assignment_of_the_buckets_moves_fewer((plan, topology) in small(4, 1..=7)) {
        prop_assume!(topology.members().len() <= 3);
        let new = plan.rebalance(&topology).unwrap();
        let fewest = assignments(&plan, &topology)
            .filter(|owners| is_fair(&counts_of(owners), plan.bucket_count(), &topology))
            .map(|owners| moves_of(&plan, &owners))
            .min();
        prop_assert_eq!(Some(moved(&new)), fewest);
    }

    /// Every way to share the buckets out, tried out.
    #[test]
    fn no_fair_distribution_of_the_buckets_needs_fewer_moves((plan, topology) in small(6, 1..=20)) {
        prop_assume!(topology.members().len() <= 4);
        let new = plan.rebalance(&topology).unwrap();
        let fewest = distributions(plan.bucket_count(), &topology)
            .into_iter()
            .filter(|counts| is_fair(counts, plan.bucket_count(), &topology))
            .map(|counts| moves_to(&plan, &topology, &counts))
            .min();
        prop_assert_eq!(Some(moved(&new)), fewest);
        // The bound that stands in for this where there is too much to try.
        prop_assert_eq!(fewest, Some(fewest_moves(&plan, &topology)));
        check_who_is_rounded_up(&plan, &topology, &counts(&new))?;
    }

    #[test]
    fn no_choice_of_whose_share_is_rounded_up_needs_fewer_moves(start in start(), steps in steps()) {
        let mut plan = start.plan();
        for step in &steps {
            let topology = step.apply(&plan);
            let Ok(new) = plan.rebalance(&topology) else { continue };
            prop_assert_eq!(moved(&new), fewest_moves(&plan, &topology));
            check_who_is_rounded_up(&plan, &topology, &counts(&new))?;
            plan = new.settled_all(new.migrating_buckets().iter()).unwrap();
        }
    }

    #[test]
    fn nor_from_a_plan_that_is_not_fair(plan in any_plan(), steps in steps()) {
        let plan = plan.settled_all(plan.migrating_buckets().iter()).unwrap();
        let topology = steps[0].apply(&plan);
        if let Ok(new) = plan.rebalance(&topology) {
            prop_assert_eq!(moved(&new), fewest_moves(&plan, &topology));
            check_who_is_rounded_up(&plan, &topology, &counts(&new))?;
        }
    }

    #[test]
    fn a_plan_that_is_fair_already_stays_as_it_is(plan in any_plan(), steps in steps()) {
        let plan = plan.settled_all(plan.migrating_buckets().iter()).unwrap();
        let topology = steps[0].apply(&plan);
        let nothing_pinned_elsewhere = once_pinned(&plan, &topology).1 == 0;
        let stays = nothing_pinned_elsewhere
            && plan.shards().iter().all(|shard| {
                topology.members().iter().any(|member| member.id() == shard.id())
                    || plan.buckets_of(shard.id()).is_empty()
            })
            && is_fair(&counts(&plan), plan.bucket_count(), &topology);
        if let (true, Ok(new)) = (stays, plan.rebalance(&topology)) {
            prop_assert_eq!(moved(&new), 0);
        }
    }

    #[test]
    fn a_first_plan_is_shared_out_by_largest_remainder(start in start(), steps in steps()) {
        let topology = steps.iter().fold(Topology::of(&start.plan()), |topology, step| {
            let buckets = start.plan().bucket_count();
            ShardPlan::first(&topology, buckets, HashFunction::default())
                .map_or(topology, |plan| step.apply(&plan))
        });
        let buckets = start.plan().bucket_count();
        if let Ok(plan) = ShardPlan::first(&topology, buckets, HashFunction::default()) {
            prop_assert_eq!(counts(&plan), largest_remainder(buckets, &topology));
        }
    }
}

/// The case in which largest remainder alone moves more than it has to: a shard that is no larger
/// than before holds its share rounded up, and another one has the larger remainder.
#[test]
fn a_larger_remainder_takes_no_bucket_from_a_share_that_is_rounded_up() {
    let weights = |weights: [u32; 3]| {
        (0..)
            .zip(weights)
            .fold(Topology::new(), |topology, (id, weight)| {
                topology.joining(ShardId(id), weight).unwrap()
            })
    };
    // Shares of 4.0, 3.0 and 3.0; then of 3.9, 2.2 and 3.9.
    let plan = ShardPlan::first(&weights([4, 3, 3]), 10, HashFunction::default()).unwrap();
    let topology = weights([39, 22, 39]);
    assert_eq!(
        largest_remainder(10, &topology)
            .values()
            .collect::<Vec<_>>(),
        [&4, &2, &4]
    );
    let new = plan.rebalance(&topology).unwrap();
    assert_eq!(moved(&new), 0);
    assert!(is_fair(&counts(&new), 10, &topology));
}
