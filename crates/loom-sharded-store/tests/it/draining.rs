//! Draining and settling.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use loom_shard_plan::{Placement, PlanError, RebalanceOptions, ShardId, ShardPlan};
use loom_sharded_store::{DrainOptions, PlanChangeError, ShardedStore, Share};
use loom_spi::{Delete, EventStore, ExecutionId, Head, Operation, StoreErrorKind};

use crate::support::{
    Migrating, TestShard, all_to, append, closed, id, kinds, on_shard_0, open, shards,
};

/// An execution of some bucket.
fn in_bucket(plan: &ShardPlan, bucket: u32, nth: usize) -> ExecutionId {
    (0..)
        .map(|n| id(&format!("order-{n}")))
        .filter(|id| plan.bucket_of_id(id.as_str()) == bucket)
        .nth(nth)
        .unwrap()
}

/// S7.
#[tokio::test]
async fn what_holds_a_bucket_up_is_named_with_its_shard() {
    let at = Migrating::new().await;
    let held: Vec<ExecutionId> = (0..7).map(|nth| in_bucket(&at.plan, 3, nth)).collect();
    for id in &held {
        append(at.source(), id, 0, &["placed"]).await.unwrap();
    }
    at.source().take_calls();
    let drain = at.store.is_bucket_drained(3).await.unwrap();
    assert_eq!(
        at.source().take_calls(),
        [Operation::List],
        "one range query"
    );
    assert!(!drain.is_drained());
    assert_eq!(
        (drain.source, drain.left, drain.more),
        (Some(ShardId(0)), 7, false)
    );
    assert_eq!(drain.executions.len(), 5);
    assert!(drain.executions.iter().all(|id| held.contains(id)));
    let text = drain.to_string();
    assert!(
        text.starts_with("bucket 3 still has 7 execution(s) on shard 0: `order-"),
        "{text}"
    );
    assert!(text.ends_with(", …"), "{text}");

    assert!(at.store.is_bucket_drained(4).await.unwrap().is_drained());
    let report = at.store.drain_report().await.unwrap();
    assert_eq!(report.buckets.len(), 8);
    assert_eq!(report.drained().collect::<Vec<_>>(), [0, 1, 2, 4, 5, 6, 7]);
    assert_eq!(report.undrained().collect::<Vec<_>>(), [&drain]);

    let mut left = Vec::new();
    let mut cursor = None;
    loop {
        let (page, next) = at.store.left_to_drain(3, cursor, 3).await.unwrap();
        left.extend(page);
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    left.sort();
    let mut held = held;
    held.sort();
    assert_eq!(left, held);
}

#[tokio::test]
async fn a_large_remainder_is_counted_up_to_a_bound() {
    let at = Migrating::new().await;
    for nth in 0..300 {
        append(at.source(), &id(&format!("order-{nth}")), 0, &["placed"])
            .await
            .unwrap();
    }
    let split = at.store.drain_report().await.unwrap();
    let counted: usize = split.buckets.iter().map(|bucket| bucket.left).sum();
    assert_eq!(counted, 300);
    let one = ShardPlan::with_buckets(1, 1).unwrap();
    let shards = vec![Arc::clone(&at.shards[0]), Arc::clone(&at.shards[1])];
    let store = open(&shards, &all_to(&one, 1)).await;
    let drain = store.is_bucket_drained(0).await.unwrap();
    assert_eq!((drain.left, drain.more), (256, true));
    assert!(
        drain.to_string().contains("256 or more execution(s)"),
        "{drain}"
    );
}

#[tokio::test]
async fn a_source_that_answers_with_an_empty_page_and_a_next_one_is_asked_on() {
    let shards = vec![
        TestShard::with_empty_first_page(),
        TestShard::without_ledger(),
    ];
    let at = Migrating::over(shards).await;
    assert!(at.store.is_bucket_drained(3).await.unwrap().is_drained());
    let order = in_bucket(&at.plan, 3, 0);
    append(at.source(), &order, 0, &["placed"]).await.unwrap();
    let drain = at.store.is_bucket_drained(3).await.unwrap();
    assert_eq!(
        (drain.left, drain.more, &drain.executions[0]),
        (1, false, &order)
    );
    let listed = at.store.list(loom_spi::List::new(10)).await.unwrap();
    assert!(
        listed.executions.is_empty() && listed.next.is_some(),
        "{listed:?}"
    );
}

#[tokio::test]
async fn a_bucket_that_does_not_exist_is_refused_and_one_that_is_settled_is_drained() {
    let shards = shards(2);
    let store = open(&shards, &on_shard_0()).await;
    let drain = store.is_bucket_drained(7).await.unwrap();
    assert!(drain.is_drained() && drain.source.is_none());
    assert_eq!(
        store.left_to_drain(7, None, 10).await.unwrap(),
        (Vec::new(), None)
    );
    let error = store.is_bucket_drained(8).await.unwrap_err();
    assert!(
        matches!(error.kind(), StoreErrorKind::InvalidArgument { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("expected 0 to 7"), "{error}");
    assert!(store.drain_report().await.unwrap().buckets.is_empty());
}

#[tokio::test]
async fn a_source_that_cannot_be_reached_is_not_drained() {
    let at = Migrating::new().await;
    at.source().down(true);
    let error = at.store.is_bucket_drained(3).await.unwrap_err();
    assert_eq!(error.shard(), Some(0));
    let error = at.store.settle([3]).await.unwrap_err();
    assert!(matches!(&error, PlanChangeError::Store(error) if error.shard() == Some(0)));
    assert!(at.store.plan().unwrap().is_migrating());
}

#[tokio::test]
async fn settling_an_undrained_bucket_is_refused_and_changes_nothing() {
    let at = Migrating::new().await;
    let order = in_bucket(&at.plan, 3, 0);
    append(at.source(), &order, 0, &["placed"]).await.unwrap();
    let error = at.store.settle([2, 3, 4]).await.unwrap_err();
    let PlanChangeError::NotDrained(undrained) = &error else {
        panic!("{error}")
    };
    assert_eq!(undrained.len(), 1);
    assert!(error.to_string().contains(order.as_str()), "{error}");
    assert_eq!(*at.store.plan().unwrap(), at.plan);

    // Nor by any other door.
    let settled = at.plan.settled(3).unwrap();
    let error = at.store.adopt(settled.clone()).await.unwrap_err();
    assert!(matches!(error, PlanChangeError::NotDrained(_)));
    let error = at.store.publish(settled).await.unwrap_err();
    assert!(matches!(error, PlanChangeError::NotDrained(_)));
    assert_eq!(kinds(&at.store, &order).await, ["placed"]);
}

/// S6.
#[tokio::test]
async fn one_execution_that_never_ends_holds_up_its_own_bucket_and_no_other() {
    let at = Migrating::new().await;
    let endless = in_bucket(&at.plan, 5, 0);
    append(at.source(), &endless, 0, &["placed", "paid"])
        .await
        .unwrap();
    let done: Vec<ExecutionId> = (0..40).map(|n| id(&format!("done-{n}"))).collect();
    for id in &done {
        closed(at.source(), id, &["placed"]).await;
        at.store.migrate_execution(id).await.unwrap();
    }
    let settled = at.store.settle_drained().await.unwrap();
    assert_eq!(settled.buckets, [0, 1, 2, 3, 4, 6, 7]);
    assert_eq!(settled.left.buckets.len(), 1);
    assert_eq!(
        settled.left.buckets[0].executions,
        std::slice::from_ref(&endless)
    );
    assert_eq!(
        settled.epoch.unwrap().epoch,
        at.plan.epoch() + 1,
        "one epoch for all of them"
    );

    let again = at.store.settle_drained().await.unwrap();
    assert!(again.published.is_none() && again.buckets.is_empty());
    assert_eq!(again.epoch, settled.epoch, "nothing drained, no epoch");
    for id in &done {
        assert_eq!(kinds(&at.store, id).await, ["placed", "end"]);
    }
    append(&at.store, &endless, 2, &["shipped"]).await.unwrap();
    at.store.delete(Delete::new(endless)).await.unwrap();
    at.store.settle_drained().await.unwrap();
    assert!(!at.store.plan().unwrap().is_migrating());
}

/// S5.
#[tokio::test]
async fn an_execution_created_between_the_drain_check_and_the_settlement_is_not_lost() {
    let shards = shards(2);
    let store = open(&shards, &on_shard_0()).await;
    store.publish(all_to(&on_shard_0(), 1)).await.unwrap();
    let plan = store.plan().unwrap();
    let order = in_bucket(&plan, 3, 0);
    let other = open(&shards, &plan).await;
    let created = order.clone();
    // The publication follows the drain check.
    shards[0].before(Operation::PublishPlan, move || {
        append(&other, &created, 0, &["placed"])
            .now_or_never()
            .unwrap()
            .unwrap();
    });
    store.settle([3]).await.unwrap();
    assert_eq!(
        store.plan().unwrap().placement(3),
        Some(Placement::Settled(ShardId(1)))
    );
    assert_eq!(kinds(&store, &order).await, ["placed"]);
}

/// S18.
#[tokio::test]
async fn a_cached_source_is_not_used_after_its_bucket_has_settled() {
    let at = Migrating::new().await;
    let order = in_bucket(&at.plan, 3, 0);
    append(at.source(), &order, 0, &["placed"]).await.unwrap();
    assert_eq!(kinds(&at.store, &order).await, ["placed"]);
    // The cache says "source"; retention of another process removes it, and the bucket settles.
    at.source()
        .delete(Delete::new(order.clone()))
        .await
        .unwrap();
    at.store.settle([3]).await.unwrap();
    append(&at.store, &order, 0, &["again"]).await.unwrap();
    assert_eq!(kinds(at.destination(), &order).await, ["again"]);
    // A migration back: the entry of the first one is still in the cache, and says nothing about this one.
    at.store.settle_drained().await.unwrap();
    at.store
        .publish(all_to(&at.store.plan().unwrap(), 0))
        .await
        .unwrap();
    at.source().take_calls();
    assert_eq!(kinds(&at.store, &order).await, ["again"]);
    assert_eq!(at.source().take_calls(), [Operation::Head], "resolved anew");
}

#[tokio::test]
async fn other_buckets_keep_their_cached_resolutions_when_one_settles() {
    let at = Migrating::new().await;
    let (three, four) = (in_bucket(&at.plan, 3, 0), in_bucket(&at.plan, 4, 0));
    append(at.source(), &four, 0, &["placed"]).await.unwrap();
    assert_eq!(kinds(&at.store, &four).await, ["placed"]);
    at.store.settle([3]).await.unwrap();
    let looks = at.store.stats().looks;
    assert_eq!(kinds(&at.store, &four).await, ["placed"]);
    assert_eq!(at.store.stats().looks, looks);
    assert_eq!(at.store.head(Head::new(three)).await.unwrap(), None);
}

/// S19, and S3.
#[tokio::test]
async fn a_settlement_is_repeated_without_harm_and_a_second_rebalance_is_refused_until_then() {
    let shards = shards(3);
    let store = open(&shards, &ShardPlan::new(2).unwrap()).await;
    let plan = store.plan().unwrap();
    let grown = plan.rebalanced(3, RebalanceOptions::default()).unwrap();
    store.publish(grown.clone()).await.unwrap();
    let refused = grown
        .rebalanced(2, RebalanceOptions::default().allow_shrink(true))
        .unwrap_err();
    let PlanError::StillMigrating { buckets } = refused else {
        panic!("{refused}")
    };
    let first = buckets.iter().next().unwrap();
    // A plan that was made by other means is refused too: it would strand what is on shard 0.
    let mut text: String = grown.to_string();
    assert!(text.contains(" -> 2"), "{text}");
    text = text.replace(" -> 2", " -> 1").replace("1 -> 1", "1");
    text = text.replace("epoch 2", "epoch 3");
    let stranding: ShardPlan = text.parse().unwrap();
    let refused = store.publish(stranding).await.unwrap_err();
    assert!(matches!(refused, PlanChangeError::Refused(_)), "{refused}");
    assert_eq!(*store.plan().unwrap(), grown);

    let settled = store.settle(buckets.iter()).await.unwrap();
    let again = store.settle(buckets.iter()).await.unwrap();
    assert_eq!(settled.epoch, again.epoch);
    let plan = ShardPlan::clone(&store.plan().unwrap());
    assert_eq!(
        store.publish(plan.clone()).await.unwrap().epoch,
        settled.epoch
    );
    assert_eq!(store.adopt(plan).await.unwrap().epoch, settled.epoch);
    let unknown = store.settle([first, 99_999]).await.unwrap_err();
    assert!(
        matches!(
            unknown,
            PlanChangeError::Plan(PlanError::NoSuchBucket { .. })
        ),
        "{unknown}"
    );
}

#[tokio::test]
async fn a_store_without_a_plan_has_nothing_to_settle() {
    let shards = shards(2);
    let stores = crate::support::stores(&shards);
    let store = ShardedStore::builder().shards(stores).open().await.unwrap();
    let refused = store.settle([0]).await.unwrap_err();
    assert!(matches!(refused, PlanChangeError::Unplanned));
    let refused = store.settle_drained().await.unwrap_err();
    assert!(matches!(refused, PlanChangeError::Unplanned));
}

/// How long a drain of twelve executions takes on shards whose every call takes 10 ms.
async fn time_to_drain(options: DrainOptions) -> Duration {
    let shards = vec![TestShard::relocating(), TestShard::relocating()];
    let store = open(&shards, &on_shard_0()).await;
    for n in 0..12 {
        append(&store, &id(&format!("order-{n}")), 0, &["placed"])
            .await
            .unwrap();
    }
    store.publish(all_to(&on_shard_0(), 1)).await.unwrap();
    shards
        .iter()
        .for_each(|shard| shard.takes(Duration::from_millis(10)));
    let begun = tokio::time::Instant::now();
    let options = options.with_live(true).with_settle(false);
    let drained = store.drain(&options, |_| {}).await.unwrap();
    assert_eq!((drained.moved, drained.stuck), (12, 0));
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_drain_rests_as_long_as_its_share_says() {
    // One move at a time, so that what it takes in all is the time in which something moves.
    let options = DrainOptions::new().with_at_once(NonZeroUsize::MIN);
    let whole = time_to_drain(options.clone()).await;
    let all = options.clone().with_share(Share::new(1.0).unwrap());
    assert_eq!(time_to_drain(all).await, whole);
    let quarter = options.with_share(Share::new(0.25).unwrap());
    let quarter = time_to_drain(quarter).await;
    // The last rest is nobody's, and looking for the plan is no move.
    let times = quarter.div_duration_f64(whole);
    assert!((3.4..=4.0).contains(&times), "{quarter:?}, {whole:?}");
}
