//! What is refused, in the words that people get to read.

use insta::assert_snapshot;
use loom_shard_plan::{
    HashFunction, Placement, PlanError, RebalanceOptions, Refusal, ShardId, ShardPlan, Topology,
};

use crate::transition::with_bucket_0;

fn refusals(now: &ShardPlan, next: &ShardPlan) -> String {
    now.validate_transition(next).unwrap_err().to_string()
}

#[test]
fn an_illegal_step_says_which_buckets_what_was_expected_and_what_to_do() {
    let settled = |shard| Placement::Settled(ShardId(shard));
    let migrating = |from, to| Placement::Migrating {
        from: ShardId(from),
        to: ShardId(to),
    };
    let steps = [
        (settled(0), settled(1)),
        (settled(0), migrating(1, 0)),
        (settled(0), migrating(1, 2)),
        (migrating(0, 1), settled(0)),
        (migrating(0, 1), settled(2)),
        (migrating(0, 1), migrating(1, 2)),
        (migrating(0, 1), migrating(2, 1)),
    ];
    let refused =
        steps.map(|(now, next)| refusals(&with_bucket_0(1, now), &with_bucket_0(2, next)));
    assert_snapshot!(refused.join("\n\n"));
}

#[test]
fn a_wrong_epoch_says_which_one_was_expected() {
    let bucket = Placement::Settled(ShardId(0));
    let now = with_bucket_0(5, bucket);
    let refused = [5, 4, 9].map(|epoch| refusals(&now, &with_bucket_0(epoch, bucket)));
    assert_snapshot!(refused.join("\n\n"));
}

#[test]
fn another_hash_or_an_unrelated_bucket_count_cannot_follow() {
    let now = ShardPlan::new(4).unwrap();
    let other = |buckets, hash| {
        let first = ShardPlan::first(&Topology::equal(4), buckets, hash).unwrap();
        first.settled_all([]).unwrap()
    };
    let hashed = other(4096, HashFunction::Fnv1a64);
    let uneven = other(5000, HashFunction::Xxh3_64);
    let halved = other(2048, HashFunction::Xxh3_64);
    let refused = [&hashed, &uneven, &halved].map(|next| refusals(&now, next));
    let incomparable = [&hashed, &uneven].map(|next| now.diff(next).unwrap_err().to_string());
    assert_snapshot!([refused.join("\n\n"), incomparable.join("\n\n")].join("\n\n"));
    assert!(!now.diff(&halved).unwrap().is_legal());
}

#[test]
fn a_split_does_nothing_else() {
    let now = ShardPlan::with_buckets(2, 4).unwrap();
    let split = now.split(2).unwrap().to_string();
    let moved: ShardPlan = split.replace("2-3: 1", "2: 1\n3: 1 -> 0").parse().unwrap();
    assert!(matches!(
        now.validate_transition(&moved).unwrap_err().refusals(),
        [Refusal::SplitChangesMore { shards_changed: false, buckets }] if buckets.to_string() == "3"
    ));
    let joined: ShardPlan = split.replace("shards 0-1", "shards 0-2").parse().unwrap();
    assert_snapshot!([refusals(&now, &moved), refusals(&now, &joined)].join("\n\n"));
}

#[test]
fn a_refused_operation_says_why_and_what_to_do() {
    let plan = ShardPlan::new(4).unwrap();
    let migrating = plan.rebalanced(5, RebalanceOptions::default()).unwrap();
    let last = plan
        .to_string()
        .replace("epoch 1", "epoch 9007199254740991");
    let last: ShardPlan = last.parse().unwrap();
    let topology = || Topology::of(&plan);
    let grow = RebalanceOptions::default();
    let results: Vec<Result<ShardPlan, PlanError>> = vec![
        ShardPlan::new(0),
        ShardPlan::new(5000),
        ShardPlan::with_buckets(1, 0),
        ShardPlan::with_buckets(1, 65_537),
        ShardPlan::adopting(0),
        ShardPlan::adopting(4097),
        plan.split(1),
        plan.split(17),
        plan.settled(4096),
        plan.settled_all([3, 1, 2, 9]),
        migrating.reverted(0),
        migrating.rebalanced(6, grow),
        plan.rebalanced(3, grow),
        plan.rebalanced(0, grow.allow_shrink(true)),
        topology()
            .leaving(ShardId(9))
            .and_then(|to| plan.rebalance(&to)),
        topology()
            .joining(ShardId(1), 1)
            .and_then(|to| plan.rebalance(&to)),
        topology()
            .weighing(ShardId(9), 1)
            .and_then(|to| plan.rebalance(&to)),
        topology().weighing(ShardId(3), 2).and_then(|to| {
            let plan = plan.rebalance(&to)?;
            plan.settled_all(plan.migrating_buckets().iter())?
                .rebalanced(5, grow)
        }),
        plan.rebalance(&topology().pinning(4096, ShardId(0))),
        plan.rebalance(&topology().pinning(0, ShardId(7))),
        last.split(2),
        last.rebalanced(5, grow),
    ];
    let messages = results
        .into_iter()
        .map(|result| result.unwrap_err().to_string());
    assert_snapshot!(messages.collect::<Vec<_>>().join("\n\n"));
}
