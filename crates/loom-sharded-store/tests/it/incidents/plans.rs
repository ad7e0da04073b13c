//! Growing, settling and publishing.

use std::sync::Arc;

use futures_util::FutureExt as _;
use loom_shard_plan::{Placement, ShardId, ShardPlan, Topology};
use loom_sharded_store::{DrainOptions, PlanChangeError, ShardedStore};
use loom_spi::{Append, EventStore, Head, StoreErrorKind};

use super::{Deployment, acquire};
use crate::support::{Call, Fault, TestShard, all_to, append, event, id, kinds, on_shard_0, open};

#[tokio::test]
async fn s3_a_second_rebalance_while_buckets_migrate_is_refused_naming_them_and_changes_nothing() {
    let at = Deployment::new().await;
    at.grow().await;
    let before = at.store.epoch();
    let plan = at.store.plan().unwrap();
    let topology = Topology::of(&plan).joining(ShardId(2), 1).unwrap();
    let refused = plan.rebalance(&topology).unwrap_err();
    assert!(refused.to_string().contains("migrating"), "{refused}");
    assert_eq!(at.store.refresh().await.unwrap(), before);
}

#[tokio::test]
async fn s4_an_append_under_an_old_epoch_that_arrives_after_the_bucket_settled_is_refused_by_the_store()
 {
    let at = Deployment::new().await;
    let order = id("order-7");
    append(&at.store, &order, 0, &["placed"]).await.unwrap();
    let old = at.store.epoch();
    at.grow().await;
    at.drain().await;
    for shard in &at.shards {
        let late = Append::new(order.clone(), 1, vec![event("late")]).with_epoch(old);
        let refused = shard.inner.append(late).await.unwrap_err();
        assert!(
            matches!(refused.kind(), StoreErrorKind::StalePlan { .. }),
            "{refused}"
        );
    }
    assert_eq!(kinds(&at.store, &order).await, ["placed"]);
}

#[tokio::test]
async fn s5_an_execution_created_between_the_drain_check_and_the_settlement_is_never_on_the_source()
{
    let at = Deployment::new().await;
    at.grow().await;
    let (order, node) = (id("order-7"), at.node().await);
    let created = order.clone();
    at.shards[0].before(Call::PublishPlan, move || {
        // The drain check is over.
        append(&node, &created, 0, &["placed"])
            .now_or_never()
            .unwrap()
            .unwrap();
    });
    at.store.settle_drained().await.unwrap();
    assert_eq!(kinds(&at.store, &order).await, ["placed"]);
    assert_eq!(at.records(&order).await, [(1, false)]);
}

#[tokio::test]
async fn s6_one_execution_that_never_ends_holds_up_its_bucket_alone_and_the_report_names_it() {
    let at = Deployment::new().await;
    let endless = id("endless");
    append(&at.store, &endless, 0, &["placed"]).await.unwrap();
    at.grow().await;
    let closed_only = DrainOptions::new();
    let drained = at.store.drain(&closed_only, |_| {}).await.unwrap();
    let settled = drained.settled.unwrap();
    assert_eq!((drained.live, settled.buckets.len()), (1, 7));
    let [left] = &settled.left.buckets[..] else {
        panic!("{settled:?}")
    };
    assert_eq!(left.executions, std::slice::from_ref(&endless));
    // It can be moved all the same, while it goes on.
    at.drain().await;
    append(&at.store, &endless, 1, &["still there"])
        .await
        .unwrap();
}

#[tokio::test]
async fn s7_a_bucket_that_is_not_drained_says_which_shard_holds_which_executions() {
    let at = Deployment::new().await;
    // A fence alone is something to lose, too.
    let (order, fenced) = (id("order-7"), id("fenced"));
    append(&at.store, &order, 0, &["placed"]).await.unwrap();
    acquire(&at.store, &fenced).await;
    at.grow().await;
    for id in [&order, &fenced] {
        let bucket = at.store.plan().unwrap().bucket_of_id(id.as_str());
        let drain = at.store.is_bucket_drained(bucket).await.unwrap();
        assert!(!drain.is_drained());
        assert_eq!(
            (drain.source, drain.executions),
            (Some(ShardId(0)), vec![id.clone()])
        );
        let refused = at.store.settle([bucket]).await.unwrap_err();
        let text = refused.to_string();
        assert!(matches!(refused, PlanChangeError::NotDrained(_)), "{text}");
        assert!(
            text.contains(id.as_str()) && text.contains("shard 0"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn s8_a_publication_that_dies_halfway_is_completed_by_any_node_and_no_node_of_the_old_plan_does_harm()
 {
    for reached in 0..2 {
        let at = Deployment::new().await;
        let (order, old) = (id("order-7"), at.node().await);
        append(&at.store, &order, 0, &["placed"]).await.unwrap();
        let plan = at.store.plan().unwrap();
        // The publication reaches this many shards after it was decided.
        at.shards[1].fault(Fault {
            call: Call::PublishPlan,
            after: reached,
            takes_effect: false,
        });
        let published = at.store.publish(all_to(&plan, 1)).await;
        drop(published);
        let other = at.node().await;
        append(&old, &order, 1, &["by the old node"]).await.unwrap();
        append(&other, &order, 2, &["by another"]).await.unwrap();
        other.refresh().await.unwrap();
        assert_eq!(
            kinds(&old, &order).await,
            ["placed", "by the old node", "by another"]
        );
        assert_eq!(at.records(&order).await.len(), 1);
    }
}

#[tokio::test]
async fn s14_an_older_plan_is_refused_with_the_newer_epoch() {
    let at = Deployment::new().await;
    let backup = at.store.plan().unwrap();
    at.grow().await;
    let refused = at
        .store
        .publish(ShardPlan::clone(&backup))
        .await
        .unwrap_err();
    let current = at.store.epoch().unwrap();
    assert!(
        matches!(refused, PlanChangeError::Superseded { current: c, .. } if c == current),
        "{refused}"
    );
    assert!(refused.to_string().contains("epoch 2"), "{refused}");
}

#[tokio::test]
async fn s18_a_cached_source_is_not_used_after_its_bucket_has_settled() {
    let at = Deployment::new().await;
    let order = id("order-7");
    append(&at.store, &order, 0, &["placed"]).await.unwrap();
    at.grow().await;
    let node = at.node().await;
    assert_eq!(
        kinds(&node, &order).await,
        ["placed"],
        "cached on the source"
    );
    at.drain().await;
    at.shards[0].take_calls();
    append(&node, &order, 1, &["paid"]).await.unwrap();
    append(&node, &order, 2, &["shipped"]).await.unwrap();
    let to_source = at.shards[0].take_calls();
    assert!(
        to_source
            .iter()
            .filter(|call| **call == Call::Append)
            .count()
            <= 1,
        "{to_source:?}"
    );
    assert_eq!(
        kinds(&at.store, &order).await,
        ["placed", "paid", "shipped"]
    );
}

#[tokio::test]
async fn s19_a_plan_whose_publication_was_not_confirmed_is_published_again_without_harm() {
    let at = Deployment::new().await;
    let next = all_to(&at.store.plan().unwrap(), 1);
    at.shards[0].fault(Fault::loses_answer(Call::PublishPlan));
    at.store.publish(next.clone()).await.unwrap_err();
    let published = at.store.publish(next.clone()).await.unwrap();
    assert_eq!(published.epoch.epoch, 2);
    assert!(published.unreached.is_empty());
}

#[tokio::test]
async fn s22_a_process_from_before_the_plan_is_refused_once_it_could_do_harm() {
    let shards = vec![TestShard::relocating(), TestShard::relocating()];
    let old = ShardedStore::builder()
        .shard(0, Arc::clone(&shards[0]) as Arc<dyn EventStore>)
        .open()
        .await
        .unwrap();
    let order = id("order-7");
    append(&old, &order, 0, &["placed"]).await.unwrap();
    let store = open(&shards, &on_shard_0()).await;
    append(&old, &order, 1, &["harmless under the adopted plan"])
        .await
        .unwrap();
    store
        .publish(all_to(&store.plan().unwrap(), 1))
        .await
        .unwrap();
    store.migrate_execution(&order).await.unwrap();
    let refused = append(&old, &order, 0, &["a fresh log"]).await.unwrap_err();
    assert!(
        matches!(refused.kind(), StoreErrorKind::StalePlan { .. }),
        "{refused}"
    );
    assert_eq!(
        store
            .head(Head::new(order))
            .await
            .unwrap()
            .unwrap()
            .next_sequence,
        2
    );
}

#[tokio::test]
async fn a_drained_and_settled_deployment_has_every_bucket_where_the_plan_says() {
    let at = Deployment::new().await;
    for n in 0..20 {
        append(&at.store, &id(&format!("order-{n}")), 0, &["placed"])
            .await
            .unwrap();
    }
    at.grow().await;
    at.drain().await;
    let plan = at.store.plan().unwrap();
    assert!(
        plan.placements()
            .all(|placed| placed == Placement::Settled(ShardId(1)))
    );
    for n in 0..20 {
        assert_eq!(at.records(&id(&format!("order-{n}"))).await, [(1, false)]);
    }
}

#[tokio::test]
async fn a_shard_that_joins_with_something_on_it_is_refused_and_named() {
    let at = Deployment::new().await;
    let old = id("from before");
    // Somebody has used the store for something else.
    append(&at.shards[1].inner, &old, 0, &["placed"])
        .await
        .unwrap();
    let next = all_to(&at.store.plan().unwrap(), 1);
    let refused = at.store.publish(next).await.unwrap_err();
    let PlanChangeError::Used { shard, execution } = &refused else {
        panic!("{refused}")
    };
    assert_eq!((*shard, execution), (ShardId(1), &old));
    assert_eq!(at.store.epoch().unwrap().epoch, 1);
}
