//! Changes of plan within one process, where shards keep no ledger.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use loom_shard_plan::{Placement, RebalanceOptions, ShardId, ShardPlan};
use loom_sharded_store::{OpenError, PlanChangeError, ShardedStore};
use loom_spi::{EventStore, ExecutionId, Head, Limits};

use crate::support::{TestShard, all_to, append, id, kinds, on_shard_0, open, stores};

fn without_ledgers(count: usize) -> Vec<Arc<TestShard>> {
    (0..count).map(|_| TestShard::without_ledger()).collect()
}

fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn a_deployment_grows_without_a_restart() {
    let mut shards = without_ledgers(4);
    let store = open(&shards, &ShardPlan::new(4).unwrap()).await;
    let ids: Vec<_> = (0..100).map(|n| id(&format!("order-{n}"))).collect();
    for id in &ids {
        append(&store, id, 0, &["placed"]).await.unwrap();
    }
    let grown = store
        .plan()
        .unwrap()
        .rebalanced(5, RebalanceOptions::default())
        .unwrap();
    let refused = store.adopt(grown.clone()).await.unwrap_err();
    assert!(matches!(
        refused,
        PlanChangeError::Shards(OpenError::MissingShard { shard: ShardId(4) })
    ));

    shards.push(TestShard::without_ledger());
    store
        .add_shard(4, Arc::clone(&shards[4]) as Arc<dyn EventStore>)
        .await
        .unwrap();
    assert_eq!(store.shard_ids().len(), 4);
    store.adopt(grown).await.unwrap();
    assert_eq!(store.shard_ids().len(), 5);
    for n in 100..200 {
        append(&store, &id(&format!("order-{n}")), 0, &["placed"])
            .await
            .unwrap();
    }
    for id in &ids {
        append(&store, id, 1, &["shipped"]).await.unwrap();
        assert_eq!(kinds(&store, id).await, ["placed", "shipped"]);
    }
    let listed = shards[4]
        .list(loom_spi::List::new(1000))
        .await
        .unwrap()
        .executions;
    assert!(!listed.is_empty());
    assert!(
        listed.iter().all(|execution| !ids.contains(&execution.id)),
        "old ones stay"
    );
}

#[tokio::test]
async fn adoption_waits_for_operations_of_the_old_plan_and_new_ones_wait_for_it() {
    let shards = without_ledgers(2);
    let store = open(&shards, &on_shard_0()).await;
    let (order, order_8) = (id("order-7"), id("order-8"));
    shards.iter().for_each(|shard| shard.yields());
    let mut under_old = pin!(append(&store, &order, 0, &["placed"]));
    assert!(poll(under_old.as_mut()).is_pending());

    let mut adoption = pin!(store.adopt(all_to(&on_shard_0(), 1)));
    for _ in 0..5 {
        assert!(
            poll(adoption.as_mut()).is_pending(),
            "an operation of the old plan runs"
        );
    }
    let mut under_new = pin!(append(&store, &order_8, 0, &["placed"]));
    for _ in 0..5 {
        assert!(
            poll(under_new.as_mut()).is_pending(),
            "the plan is being replaced"
        );
    }
    let look = |id: &ExecutionId| Head::new(id.clone());
    assert_eq!(shards[0].inner.head(look(&order_8)).await.unwrap(), None);

    under_old.await.unwrap();
    adoption.await.unwrap();
    under_new.await.unwrap();
    assert!(shards[0].inner.head(look(&order)).await.unwrap().is_some());
    assert!(
        shards[1]
            .inner
            .head(look(&order_8))
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test]
async fn an_adoption_that_is_dropped_leaves_the_old_plan_and_lets_everyone_go_on() {
    let shards = without_ledgers(2);
    let store = open(&shards, &on_shard_0()).await;
    shards.iter().for_each(|shard| shard.yields());
    let slow = id("slow");
    let mut running = pin!(append(&store, &slow, 0, &["placed"]));
    assert!(poll(running.as_mut()).is_pending());
    {
        let mut adoption = pin!(store.adopt(all_to(&on_shard_0(), 1)));
        assert!(poll(adoption.as_mut()).is_pending());
        let waiting = id("waiting");
        let mut waits = pin!(append(&store, &waiting, 0, &["placed"]));
        assert!(poll(waits.as_mut()).is_pending());
    }
    assert_eq!(*store.plan().unwrap(), on_shard_0());
    append(&store, &id("order-8"), 0, &["placed"])
        .await
        .unwrap();

    // What was running before still holds the next attempt up.
    let mut adoption = pin!(store.adopt(all_to(&on_shard_0(), 1)));
    assert!(poll(adoption.as_mut()).is_pending());
    running.await.unwrap();
    adoption.await.unwrap();
    append(&store, &id("order-9"), 0, &["placed"])
        .await
        .unwrap();
    assert!(
        shards[1]
            .inner
            .head(Head::new(id("order-9")))
            .await
            .unwrap()
            .is_some()
    );
}

#[test]
fn on_many_threads_no_operation_runs_under_two_plans() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .build()
        .unwrap();
    runtime.block_on(async {
        let shards = without_ledgers(2);
        let store = open(&shards, &on_shard_0()).await;
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (store, stop) = (store.clone(), Arc::clone(&stop));
                tokio::spawn(async move {
                    let mut written = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let id = id(&format!("writer-{writer}/{written}"));
                        append(&store, &id, 0, &["placed"]).await.unwrap();
                        append(&store, &id, 1, &["shipped"]).await.unwrap();
                        assert_eq!(kinds(&store, &id).await, ["placed", "shipped"]);
                        written += 1;
                        tokio::task::yield_now().await;
                    }
                    written
                })
            })
            .collect();
        for _ in 0..200 {
            let plan = store.plan().unwrap();
            let next = if plan.is_migrating() {
                plan.reverted_all(0..8).unwrap()
            } else {
                all_to(&plan, 1)
            };
            store.adopt(next).await.unwrap();
            tokio::task::yield_now().await;
        }
        stop.store(true, Ordering::Relaxed);
        let mut written = 0;
        for writer in writers {
            written += writer.await.unwrap();
        }
        let on_both = {
            let mut ids: Vec<_> = Vec::new();
            for shard in &shards {
                let page = shard
                    .inner
                    .list(loom_spi::List::new(1_000_000))
                    .await
                    .unwrap();
                ids.extend(page.executions.into_iter().map(|execution| execution.id));
            }
            ids
        };
        let distinct: std::collections::BTreeSet<_> = on_both.iter().collect();
        assert_eq!((on_both.len(), distinct.len()), (written, written));
    });
}

/// S14.
#[tokio::test]
async fn an_older_plan_is_refused_and_the_newer_epoch_named() {
    let shards = without_ledgers(2);
    let store = open(&shards, &on_shard_0()).await;
    let newer = all_to(&on_shard_0(), 1);
    store.adopt(newer.clone()).await.unwrap();
    let refused = store.adopt(on_shard_0()).await.unwrap_err();
    let PlanChangeError::Superseded { given, current } = &refused else {
        panic!("{refused}")
    };
    assert_eq!((given.epoch, current.epoch), (1, 2));
    assert!(refused.to_string().contains("epoch 2"), "{refused}");
    let rival = on_shard_0().split(2).unwrap();
    assert_eq!(rival.epoch(), 2);
    let refused = store.adopt(rival).await.unwrap_err();
    assert!(
        matches!(refused, PlanChangeError::Superseded { .. }),
        "{refused}"
    );
    let skipping = newer.reverted(0).unwrap().reverted(0).unwrap();
    let refused = store.adopt(skipping).await.unwrap_err();
    assert!(matches!(refused, PlanChangeError::Refused(_)), "{refused}");
    assert_eq!(*store.plan().unwrap(), newer);
}

#[tokio::test]
async fn an_unplanned_store_takes_a_plan_that_routes_as_it_does_and_no_other() {
    let shards = without_ledgers(3);
    let store = ShardedStore::builder()
        .shards(stores(&shards))
        .open()
        .await
        .unwrap();
    let ids: Vec<_> = (0..30).map(|n| id(&format!("order-{n}"))).collect();
    for id in &ids {
        append(&store, id, 0, &["placed"]).await.unwrap();
    }
    let refused = store.adopt(ShardPlan::new(3).unwrap()).await.unwrap_err();
    assert!(
        matches!(refused, PlanChangeError::ReroutesUnplanned { shards: 3 }),
        "{refused}"
    );
    assert_eq!(store.plan(), None);
    store.adopt(ShardPlan::adopting(3).unwrap()).await.unwrap();
    for id in &ids {
        assert_eq!(kinds(&store, id).await, ["placed"]);
    }
    let shrunk = store.plan().unwrap();
    let shrunk = shrunk
        .rebalanced(2, RebalanceOptions::default().allow_shrink(true))
        .unwrap();
    store.adopt(shrunk).await.unwrap();
    for id in &ids {
        append(&store, id, 1, &["shipped"]).await.unwrap();
    }
}

/// S9, as far as routing goes: the plan's own tests have the rest.
#[tokio::test]
async fn a_shard_that_was_taken_out_is_sent_nothing_once_its_buckets_have_settled() {
    let shards = without_ledgers(3);
    let plan = ShardPlan::new(3).unwrap();
    let store = open(&shards, &plan).await;
    let shrunk = plan
        .rebalanced(2, RebalanceOptions::default().allow_shrink(true))
        .unwrap();
    store.adopt(shrunk).await.unwrap();
    store.settle_drained().await.unwrap();
    assert_eq!(store.shard_ids(), [ShardId(0), ShardId(1)]);
    shards[2].down(true);
    shards[2].take_calls();
    for n in 0..200 {
        append(&store, &id(&format!("order-{n}")), 0, &["placed"])
            .await
            .unwrap();
    }
    assert_eq!(
        store
            .list(loom_spi::List::new(500))
            .await
            .unwrap()
            .executions
            .len(),
        200
    );
    assert!(shards[2].take_calls().is_empty());
    // It may come back.
    let back = store
        .plan()
        .unwrap()
        .rebalanced(3, RebalanceOptions::default())
        .unwrap();
    shards[2].down(false);
    store.adopt(back).await.unwrap();
    assert_eq!(store.shard_ids().len(), 3);
}

#[tokio::test]
async fn a_split_moves_nothing_and_may_be_adopted_while_buckets_migrate() {
    let shards = without_ledgers(2);
    let store = open(&shards, &all_to(&on_shard_0(), 1)).await;
    let order = id("order-7");
    append(&*shards[0], &order, 0, &["placed"]).await.unwrap();
    assert_eq!(kinds(&store, &order).await, ["placed"]);
    let split = store.plan().unwrap().split(4).unwrap();
    store.adopt(split.clone()).await.unwrap();
    assert_eq!(kinds(&store, &order).await, ["placed"]);
    let bucket = split.bucket_of_id(order.as_str());
    assert!(!store.is_bucket_drained(bucket).await.unwrap().is_drained());
    assert_eq!(
        split.placement(bucket),
        Some(Placement::Migrating {
            from: ShardId(0),
            to: ShardId(1)
        })
    );
    let settled = store.settle_drained().await.unwrap();
    assert_eq!(settled.buckets.len(), 31);
}

#[tokio::test]
async fn a_shard_that_offers_less_than_the_others_may_not_join() {
    let shards = without_ledgers(2);
    let store = open(&shards, &on_shard_0()).await;
    let join = |shard: Arc<TestShard>| store.add_shard(7, shard as Arc<dyn EventStore>);
    let refused = join(TestShard::plain()).await.unwrap_err();
    assert!(
        matches!(
            refused,
            OpenError::LessCapable {
                what: "fencing",
                ..
            }
        ),
        "{refused}"
    );
    let limits = Limits::default().with_max_payload_bytes(10);
    let refused = join(TestShard::with_limits_without_ledger(limits))
        .await
        .unwrap_err();
    assert!(
        matches!(refused, OpenError::LessCapable { .. }),
        "{refused}"
    );
    let refused = join(TestShard::new()).await.unwrap_err();
    assert!(
        matches!(
            refused,
            OpenError::MixedLedgers {
                with: ShardId(7),
                ..
            }
        ),
        "{refused}"
    );
    join(TestShard::without_ledger()).await.unwrap();
    let refused = join(TestShard::without_ledger()).await.unwrap_err();
    assert!(
        matches!(refused, OpenError::DuplicateShard { .. }),
        "{refused}"
    );
}
