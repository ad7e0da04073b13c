//! Giving up a shard that is gone.

use std::sync::Arc;

use loom_shard_plan::{Placement, RebalanceOptions, ShardId, ShardPlan};
use loom_sharded_store::{AbandonError, Abandonment, PlanChangeError, ShardedStore};
use loom_spi::{
    DeploymentId, EventStore, ExecutionId, Head, PlanEpoch, PlanFingerprint, PlanLedger, Publish,
    PublishedPlan,
};

use crate::ledgers::epochs;
use crate::support::{TestShard, append, id, shards, stores};

fn deployment() -> DeploymentId {
    DeploymentId::new("orders").unwrap()
}

async fn created(shards: &[Arc<TestShard>], plan: &ShardPlan) -> ShardedStore {
    ShardedStore::builder()
        .shards(stores(shards))
        .deployment(deployment())
        .plan(plan.clone())
        .create()
        .await
        .unwrap()
}

fn all_but(shards: &[Arc<TestShard>], gone: usize) -> Vec<(ShardId, Arc<dyn EventStore>)> {
    let shards = (0..).map(ShardId).zip(stores(shards));
    shards
        .filter(|(id, _)| usize::from(id.get()) != gone)
        .collect()
}

async fn prepared(shards: &[Arc<TestShard>], gone: u16) -> Result<Abandonment, AbandonError> {
    let remaining = all_but(shards, usize::from(gone));
    let there = Arc::clone(&shards[usize::from(gone)]) as Arc<dyn EventStore>;
    Abandonment::prepare(deployment(), ShardId(gone), Some(there), remaining, None).await
}

fn on(plan: &ShardPlan, shard: u16) -> ExecutionId {
    (0..)
        .map(|n| id(&format!("order-{n}")))
        .find(|id| plan.route_id(id.as_str()) == Placement::Settled(ShardId(shard)))
        .unwrap()
}

fn published(plan: &ShardPlan) -> PublishedPlan {
    let fingerprint = PlanFingerprint(plan.fingerprint().get());
    PublishedPlan::new(PlanEpoch::new(plan.epoch(), fingerprint), plan.to_bytes())
}

#[tokio::test]
async fn nodes_that_run_follow_and_what_was_on_the_shard_can_be_created_anew() {
    let shards = shards(3);
    let plan = ShardPlan::with_buckets(3, 12).unwrap();
    let node = created(&shards, &plan).await;
    let (lost, kept) = (on(&plan, 1), on(&plan, 2));
    append(&node, &lost, 0, &["placed"]).await.unwrap();
    append(&node, &kept, 0, &["placed"]).await.unwrap();
    shards[1].down(true);
    assert!(append(&node, &lost, 1, &["shipped"]).await.is_err());

    let abandonment = prepared(&shards, 1).await.unwrap();
    assert_eq!(abandonment.shard(), ShardId(1));
    assert_eq!(abandonment.present(), &plan);
    let loss = abandonment.loss();
    assert_eq!((loss.buckets(), loss.of, loss.settled.len()), (4, 12, 4));
    assert!(loss.arriving.is_empty() && loss.departing.is_empty());
    assert!((loss.share() - 1.0 / 3.0).abs() < 1e-9);
    let done = abandonment.publish().await.unwrap();
    assert_eq!(done.epoch.epoch, 2);
    assert!(done.unreached.is_empty());

    // Its next request follows; no restart, no error for what is left.
    append(&node, &kept, 1, &["shipped"]).await.unwrap();
    assert_eq!(node.epoch(), Some(done.epoch));
    assert!(node.head(Head::new(lost.clone())).await.unwrap().is_none());
    append(&node, &lost, 0, &["placed"]).await.unwrap();
    // Plans can be published again.
    let next = node.plan().unwrap();
    let next = next.rebalanced(2, RebalanceOptions::default()).unwrap();
    node.publish(next).await.unwrap();
}

#[tokio::test]
async fn a_shard_that_answers_is_not_given_up_and_a_wiped_one_is() {
    let shards = shards(2);
    created(&shards, &ShardPlan::with_buckets(2, 8).unwrap()).await;
    let alive = prepared(&shards, 1).await.unwrap_err();
    assert!(
        matches!(alive, AbandonError::Answers { shard: ShardId(1) }),
        "{alive}"
    );
    let wiped = [Arc::clone(&shards[0]), TestShard::new()];
    prepared(&wiped, 1).await.unwrap();
    let unknown = Abandonment::prepare(deployment(), ShardId(7), None, all_but(&shards, 7), None);
    assert!(matches!(
        unknown.await.unwrap_err(),
        AbandonError::NotInPlan {
            shard: ShardId(7),
            epoch: 1
        }
    ));
    // Somebody has to be left.
    let too_few = Abandonment::prepare(deployment(), ShardId(7), None, Vec::new(), None);
    assert!(matches!(
        too_few.await.unwrap_err(),
        AbandonError::NobodyLeft { shard: ShardId(7) }
    ));
}

#[tokio::test]
async fn the_deciding_shard_dies_in_the_middle_of_a_publication() {
    let shards = shards(3);
    let plan = ShardPlan::with_buckets(3, 12).unwrap();
    let node = created(&shards, &plan).await;
    // Decided on shard 0, told to shard 1, and then the publisher and shard 0 die.
    let topology = loom_shard_plan::Topology::of(&plan);
    let next = plan
        .rebalance(&topology.weighing(ShardId(2), 2).unwrap())
        .unwrap();
    for shard in &shards[..2] {
        let expected = shard.inner.current().await.unwrap().map(|plan| plan.epoch);
        shard
            .inner
            .publish(Publish::new(published(&next), expected))
            .await
            .unwrap();
    }
    shards[0].down(true);
    let abandonment = prepared(&shards, 0).await.unwrap();
    assert_eq!(abandonment.present(), &next, "the newest that is left");
    let loss = abandonment.loss();
    let departing = next.migrating().filter(|bucket| bucket.from == ShardId(0));
    assert_eq!(loss.departing.iter().count(), departing.count());
    abandonment.publish().await.unwrap();
    assert_eq!(epochs(&shards[1..]).await, [Some(3), Some(3)]);
    node.refresh().await.unwrap_err();
    append(&node, &on(&plan, 1), 0, &["placed"]).await.unwrap();
    assert_eq!(node.epoch().unwrap().epoch, 3);
}

#[tokio::test]
async fn what_was_published_meanwhile_is_looked_at_anew() {
    let shards = shards(3);
    let plan = ShardPlan::with_buckets(3, 12).unwrap();
    created(&shards, &plan).await;
    shards[2].down(true);
    let abandonment = prepared(&shards, 2).await.unwrap();
    let rival = plan.split(2).unwrap();
    let expected = Some(published(&plan).epoch);
    shards[0]
        .inner
        .publish(Publish::new(published(&rival), expected))
        .await
        .unwrap();
    let lost = abandonment.publish().await.unwrap_err();
    assert!(
        matches!(lost, PlanChangeError::Lost { current: Some(current) } if current == published(&rival).epoch),
        "{lost}"
    );
    assert_eq!(prepared(&shards, 2).await.unwrap().next().epoch(), 3);
}
