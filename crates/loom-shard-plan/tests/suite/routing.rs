//! Where ids go.

use std::collections::BTreeSet;

use loom_shard_plan::{HashFunction, Placement, ShardId, ShardPlan, Topology, route_hash};
use proptest::prelude::*;

use crate::chain::{any_plan, cases};

const VECTORS: &str = include_str!("../../../../docs/specification/route-hash-vectors.txt");

/// Id, hash, bucket of 4096.
fn vectors() -> impl Iterator<Item = (&'static str, u64, u32)> {
    VECTORS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut fields = line.split('\t');
            let mut next = || fields.next().unwrap();
            let (id, hash, bucket) = (next(), next(), next());
            (
                id,
                u64::from_str_radix(hash, 16).unwrap(),
                bucket.parse().unwrap(),
            )
        })
}

#[test]
fn the_reference_vectors_hold() {
    let plan = ShardPlan::new(4).unwrap();
    let mut lengths = [0; 256];
    for (id, hash, bucket) in vectors() {
        assert_eq!(route_hash(id), hash, "{id}");
        assert_eq!(plan.hash().hash(id), hash, "{id}");
        assert_eq!(plan.bucket_of_id(id), bucket, "{id}");
        assert_eq!(plan.bucket(hash), bucket, "{id}");
        lengths[id.len()] += 1;
    }
    for length in [1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 255] {
        assert!(lengths[length] > 0, "no vector of {length} bytes");
    }
    assert!(vectors().any(|(id, ..)| !id.is_ascii()));
}

#[test]
fn the_bucket_vectors_hold_for_every_bucket_count_and_function() {
    let vectors = include_str!("../../../../docs/specification/bucket-vectors.txt");
    let (mut counts, mut not_ascii) = (BTreeSet::new(), 0);
    for line in vectors.lines().filter(|line| !line.starts_with('#')) {
        let [id, function, hash, buckets] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let function: HashFunction = function.parse().unwrap();
        let hash = u64::from_str_radix(hash, 16).unwrap();
        assert_eq!(function.hash(id), hash, "{line}");
        not_ascii += u32::from(!id.is_ascii());
        for pair in buckets.split(' ') {
            let (buckets, bucket) = pair.split_once(':').unwrap();
            let (buckets, bucket): (u32, u32) = (buckets.parse().unwrap(), bucket.parse().unwrap());
            let plan = ShardPlan::first(&Topology::equal(1), buckets, function).unwrap();
            assert_eq!(plan.bucket_of_id(id), bucket, "{line}");
            assert_eq!(plan.bucket(hash), bucket, "{line}");
            counts.insert(buckets);
        }
    }
    assert!(counts.is_superset(&BTreeSet::from([1, 3, 1000, 4096, 65_536])));
    assert!(not_ascii > 10);
}

#[test]
fn a_plan_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + Clone + std::panic::UnwindSafe + 'static>() {}
    shared::<ShardPlan>();
    shared::<loom_shard_plan::PlanDiff>();
    shared::<loom_shard_plan::PlanError>();
    shared::<loom_shard_plan::DecodeError>();
    shared::<loom_shard_plan::TransitionError>();
}

#[test]
fn fnv_is_the_published_function() {
    let hash = |id: &str| HashFunction::Fnv1a64.hash(id);
    assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
    assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8);
}

#[test]
fn ids_are_hashed_with_the_function_that_the_plan_names() {
    let plan = ShardPlan::first(&Topology::equal(3), 1000, HashFunction::Fnv1a64).unwrap();
    let bucket = u32::try_from(HashFunction::Fnv1a64.hash("order-42") % 1000).unwrap();
    assert_eq!(plan.bucket_of_id("order-42"), bucket);
    assert_eq!(Some(plan.route_id("order-42")), plan.placement(bucket));
    let mut batch = Vec::new();
    plan.route_batch(&["order-42"], &mut batch);
    assert_eq!(batch[0].get(), plan.route_id("order-42"));
}

#[test]
fn adopting_is_hash_modulo_n_in_every_bucket_for_every_n() {
    for shards in 1..=4096_u16 {
        let plan = ShardPlan::adopting(shards).unwrap();
        let buckets = plan.bucket_count();
        let n = u32::from(shards);
        let rounds = buckets / n;
        assert!(
            buckets.is_multiple_of(n) && rounds.is_power_of_two() && buckets <= 4096,
            "{shards}"
        );
        assert!(buckets * 2 > 4096, "{shards}: {buckets} is not the largest");
        for (bucket, placement) in (0..).zip(plan.placements()) {
            let shard = ShardId(u16::try_from(bucket % n).unwrap());
            assert_eq!(placement, Placement::Settled(shard), "{shards}");
        }
    }
}

#[test]
fn adopting_agrees_with_hash_modulo_n_on_a_million_ids() {
    let hashes: Vec<u64> = (0..1_000_000)
        .map(|n| route_hash(format!("execution-{n}")))
        .collect();
    for shards in [
        1, 2, 3, 4, 5, 7, 12, 48, 100, 127, 300, 1000, 2049, 4095, 4096,
    ] {
        let plan = ShardPlan::adopting(shards).unwrap();
        let n = u64::from(shards);
        let wrong = hashes.iter().filter(|hash| {
            plan.route(**hash) != Placement::Settled(ShardId(u16::try_from(**hash % n).unwrap()))
        });
        assert_eq!(wrong.count(), 0, "{shards} shards");
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn a_hash_is_in_the_bucket_that_is_its_remainder(plan in any_plan(), hash: u64) {
        let bucket = plan.bucket(hash);
        prop_assert_eq!(u64::from(bucket), hash % u64::from(plan.bucket_count()));
        prop_assert_eq!(plan.placement(bucket), Some(plan.route(hash)));
    }

    #[test]
    fn a_batch_is_routed_like_its_ids(plan in any_plan(), ids: Vec<String>) {
        let mut batch = Vec::new();
        plan.route_batch(&["left", "over"], &mut batch);
        // Longer than one step of it.
        let ids: Vec<String> = (0..3).flat_map(|_| ids.clone()).collect();
        plan.route_batch(&ids, &mut batch);
        let one_by_one: Vec<Placement> = ids.iter().map(|id| plan.route_id(id)).collect();
        prop_assert_eq!(batch.iter().map(|packed| packed.get()).collect::<Vec<_>>(), one_by_one);
        for packed in &batch {
            prop_assert_eq!(packed.destination(), packed.get().destination());
            prop_assert_eq!(packed.is_migrating(), packed.get().is_migrating());
        }
    }

    #[test]
    fn a_split_changes_no_route(plan in any_plan(), factor in 2..=5_u32, hashes: [u64; 32]) {
        let Ok(split) = plan.split(factor) else { return Ok(()) };
        prop_assert_eq!(split.bucket_count(), factor * plan.bucket_count());
        for hash in hashes {
            prop_assert_eq!(split.route(hash), plan.route(hash));
            prop_assert_eq!(split.bucket(hash) % plan.bucket_count(), plan.bucket(hash));
        }
        prop_assert_eq!(plan.validate_transition(&split), Ok(()));
        let diff = plan.diff(&split).unwrap();
        prop_assert!(diff.moved().is_empty() && diff.settled().is_empty());
    }
}
