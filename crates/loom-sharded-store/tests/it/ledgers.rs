//! Several processes over shards that keep the plan.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use loom_shard_plan::{HashFunction, RebalanceOptions, ShardId, ShardPlan, Topology};
use loom_sharded_store::{Connect, OpenError, PlanChangeError, ShardedStore};
use loom_spi::{
    AcquireFence, Append, BoxError, EventStore, EventStoreExt as _, ExecutionId, Head, List,
    Operation, PlanEpoch, PlanLedger, Publish, PublishedPlan, RecordLineage, StoreErrorKind,
};

use crate::support::{
    Fault, TestShard, all_to, append, event, id, kinds, on_shard_0, open, shards, stores,
};

pub(crate) fn grown(plan: &ShardPlan, shards: u16) -> ShardPlan {
    plan.rebalanced(shards, RebalanceOptions::default())
        .unwrap()
}

/// The epochs of the shards.
pub(crate) async fn epochs(shards: &[Arc<TestShard>]) -> Vec<Option<u64>> {
    let mut epochs = Vec::new();
    for shard in shards {
        let plan = shard.inner.current().await.unwrap();
        epochs.push(plan.map(|plan| plan.epoch.epoch));
    }
    epochs
}

/// Finds shards by number, as a resolver would by their location.
#[derive(Debug, Clone, Default)]
pub(crate) struct Network {
    pub(crate) shards: Arc<Mutex<HashMap<String, Arc<TestShard>>>>,
}

#[async_trait]
impl Connect for Network {
    async fn connect(
        &self,
        _: ShardId,
        location: Option<&str>,
    ) -> Result<Arc<dyn EventStore>, BoxError> {
        let location = location.ok_or("the directory does not know it")?;
        let found = self.shards.lock().unwrap().get(location).cloned();
        Ok(found.ok_or("nothing is there")? as Arc<dyn EventStore>)
    }
}

#[tokio::test]
async fn a_process_with_an_older_plan_follows_and_its_callers_see_no_error() {
    let shards = shards(3);
    let plan = ShardPlan::new(2).unwrap();
    let (node, other) = (open(&shards, &plan).await, open(&shards, &plan).await);
    let ids: Vec<ExecutionId> = (0..40).map(|n| id(&format!("order-{n}"))).collect();
    for id in &ids[..20] {
        append(&node, id, 0, &["placed"]).await.unwrap();
    }
    node.publish(grown(&plan, 3)).await.unwrap();
    assert_eq!(other.epoch().unwrap().epoch, 1);
    for id in &ids[..20] {
        append(&other, id, 1, &["shipped"]).await.unwrap();
    }
    for id in &ids[20..] {
        append(&other, id, 0, &["placed"]).await.unwrap();
    }
    assert_eq!(other.epoch(), node.epoch());
    assert_eq!(other.stats().newer_plans, 1);
    assert_eq!(
        node.list(List::new(100)).await.unwrap().executions.len(),
        40
    );
    for id in &ids[..20] {
        assert_eq!(kinds(&node, id).await, ["placed", "shipped"]);
    }
}

#[tokio::test]
async fn every_operation_follows_a_newer_plan() {
    let order = id("order-7");
    for what in 0..10 {
        let shards = shards(2);
        let (node, other) = (
            open(&shards, &on_shard_0()).await,
            open(&shards, &on_shard_0()).await,
        );
        append(&node, &order, 0, &["placed"]).await.unwrap();
        node.publish(all_to(&on_shard_0(), 1)).await.unwrap();
        let offered = other.capabilities();
        let (fencing, branches) = (offered.fencing.unwrap(), offered.branches.unwrap());
        let edge = RecordLineage::new(order.clone(), id("child"), "a".to_owned());
        match what {
            0 => assert!(other.exists(&order).await.unwrap()),
            1 => assert_eq!(kinds(&other, &order).await, ["placed"]),
            2 => drop(append(&other, &order, 1, &["shipped"]).await.unwrap()),
            3 => assert_eq!(other.list(List::new(9)).await.unwrap().executions.len(), 1),
            4 => drop(
                other
                    .delete(loom_spi::Delete::new(order.clone()))
                    .await
                    .unwrap(),
            ),
            5 => drop(
                fencing
                    .acquire_fence(AcquireFence::new(order.clone()))
                    .await
                    .unwrap(),
            ),
            6 => branches.record_lineage(edge).await.unwrap(),
            7 => drop(
                branches
                    .children(loom_spi::Children::new(order.clone()))
                    .await
                    .unwrap(),
            ),
            8 => drop(other.drain_report().await.unwrap()),
            _ => drop(other.migrate_execution(&order).await.unwrap()),
        }
        assert_eq!(other.epoch(), node.epoch(), "operation {what}");
    }
}

/// S4.
#[tokio::test]
async fn an_append_that_was_sent_under_an_old_epoch_is_refused_after_the_bucket_settled() {
    let shards = shards(2);
    let store = open(&shards, &on_shard_0()).await;
    let old = store.epoch();
    store.publish(all_to(&on_shard_0(), 1)).await.unwrap();
    store.settle_drained().await.unwrap();
    let late = Append::new(id("order-7"), 0, vec![event("placed")]).with_epoch(old);
    let error = shards[0].append(late).await.unwrap_err();
    assert!(
        matches!(error.kind(), StoreErrorKind::StalePlan { .. }),
        "{error}"
    );
}

/// S22.
#[tokio::test]
async fn a_process_that_predates_the_plan_is_refused_once_it_could_do_harm() {
    let shards = shards(3);
    let early = ShardedStore::builder()
        .shards(stores(&shards))
        .open()
        .await
        .unwrap();
    append(&early, &id("order-1"), 0, &["placed"])
        .await
        .unwrap();
    let node = open(&shards, &ShardPlan::adopting(3).unwrap()).await;
    append(&early, &id("order-2"), 0, &["placed"])
        .await
        .unwrap();
    let shrunk = node.plan().unwrap();
    let shrunk = shrunk
        .rebalanced(2, RebalanceOptions::default().allow_shrink(true))
        .unwrap();
    node.publish(shrunk).await.unwrap();
    let error = append(&early, &id("order-3"), 0, &["placed"])
        .await
        .unwrap_err();
    assert!(
        matches!(
            error.kind(),
            StoreErrorKind::StalePlan {
                presented: None,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(node.list(List::new(9)).await.unwrap().executions.len(), 2);
}

/// S8.
#[tokio::test]
async fn a_publication_that_dies_after_any_shard_is_completed_by_any_node() {
    for dies_at in 0..5 {
        for takes_effect in [false, true] {
            let shards = shards(5);
            let plan = ShardPlan::new(5).unwrap();
            let (node, other) = (open(&shards, &plan).await, open(&shards, &plan).await);
            let next = plan.split(2).unwrap();
            shards[dies_at].fault(Fault {
                call: Operation::PublishPlan,
                after: 0,
                takes_effect,
            });
            let told = node.publish(next.clone()).await;
            let what = format!("dies at {dies_at}, takes effect: {takes_effect}");
            match told {
                Ok(published) if dies_at > 0 => {
                    assert_eq!(published.unreached.len(), 1, "{what}");
                }
                Err(PlanChangeError::Store(_)) if dies_at == 0 => {}
                told => panic!("{what}: {told:?}"),
            }
            let decided = shards[0]
                .inner
                .current()
                .await
                .unwrap()
                .unwrap()
                .epoch
                .epoch
                == 2;
            assert_eq!(decided, dies_at > 0 || takes_effect, "{what}");
            // Nodes go on either way, and whoever meets a shard that is behind brings it up.
            for n in 0..60 {
                let node = if n % 2 == 0 { &node } else { &other };
                append(node, &id(&format!("order-{n}")), 0, &["placed"])
                    .await
                    .unwrap();
            }
            let expected = if decided { 2 } else { 1 };
            assert_eq!(epochs(&shards).await, [Some(expected); 5], "{what}");
            // S19: the publisher tries again.
            node.publish(next.clone()).await.unwrap();
            assert_eq!(epochs(&shards).await, [Some(2); 5], "{what}");
            assert_eq!(
                other.list(List::new(100)).await.unwrap().executions.len(),
                60
            );
        }
    }
}

#[tokio::test]
async fn of_two_rival_publishers_one_wins_and_the_other_is_told() {
    let shards = shards(3);
    let plan = ShardPlan::new(2).unwrap();
    let (node, other) = (open(&shards, &plan).await, open(&shards, &plan).await);
    let rival = plan.split(2).unwrap();
    // Between the checks of one publisher and its compare and set, the other one publishes.
    let published = rival.clone();
    shards[0].before(Operation::PublishPlan, move || {
        other.publish(published).now_or_never().unwrap().unwrap();
    });
    let lost = node.publish(grown(&plan, 3)).await.unwrap_err();
    let PlanChangeError::Lost {
        current: Some(current),
    } = lost
    else {
        panic!("{lost}")
    };
    assert_eq!(current.epoch, 2);
    append(&node, &id("order-7"), 0, &["placed"]).await.unwrap();
    assert_eq!(*node.plan().unwrap(), rival);
    assert_eq!(epochs(&shards).await, [Some(2), Some(2), Some(1)]);
    // The loser's derives its plan anew, and the shard that it had prepared joins.
    node.publish(grown(&rival, 3)).await.unwrap();
    assert_eq!(epochs(&shards).await, [Some(3); 3]);
}

#[test]
fn two_rivals_at_any_interleaving_leave_one_plan() {
    for seed in 0..150 {
        let shards = shards(3);
        let plan = ShardPlan::with_buckets(2, 8).unwrap();
        let node = || open(&shards, &plan).now_or_never().unwrap();
        let nodes = [node(), node()];
        shards.iter().for_each(|shard| shard.yields());
        let next = [plan.split(2).unwrap(), grown(&plan, 3)];
        let won = Mutex::new(Vec::new());
        let publishers = nodes.iter().zip(&next).map(|(node, next)| {
            let won = &won;
            async move {
                match node.publish(next.clone()).await {
                    Ok(_) => won.lock().unwrap().push(next.fingerprint()),
                    Err(
                        PlanChangeError::Lost { .. }
                        | PlanChangeError::Superseded { .. }
                        | PlanChangeError::Refused(_),
                    ) => {}
                    Err(error) => panic!("seed {seed}: {error}"),
                }
            }
            .boxed_local()
        });
        crate::support::interleave(seed, publishers.collect());
        let won = won.into_inner().unwrap();
        assert_eq!(won.len(), 1, "seed {seed}");
        let check = async {
            for node in &nodes {
                append(node, &id("order-7"), 0, &["placed"]).await.ok();
                assert_eq!(node.plan().unwrap().fingerprint(), won[0], "seed {seed}");
            }
        };
        crate::support::interleave(seed, vec![check.boxed_local()]);
    }
}

#[tokio::test]
async fn a_plan_that_cannot_be_routed_by_is_refused_before_it_is_decided() {
    let shards = shards(1);
    let store = ShardedStore::builder()
        .shards(stores(&shards))
        .open()
        .await
        .unwrap();
    let fnv = ShardPlan::first(&Topology::equal(1), 8, HashFunction::Fnv1a64).unwrap();
    let refused = store.publish(fnv).await.unwrap_err();
    assert!(
        matches!(
            refused,
            PlanChangeError::Shards(OpenError::HashFunction { .. })
        ),
        "{refused}"
    );
    assert_eq!(epochs(&shards).await, [None]);
    store
        .publish(ShardPlan::adopting(1).unwrap())
        .await
        .unwrap();
    assert_eq!(epochs(&shards).await, [Some(1)]);
}

#[tokio::test]
async fn the_plan_is_that_of_the_shards_unless_it_was_never_published() {
    let shards = shards(2);
    let plan = ShardPlan::new(2).unwrap();
    let node = open(&shards, &plan).await;
    let next = plan.split(2).unwrap();
    node.publish(next.clone()).await.unwrap();
    let opened = ShardedStore::builder()
        .shards(stores(&shards))
        .open()
        .await
        .unwrap();
    assert_eq!(*opened.plan().unwrap(), next);
    // The configuration of a node may be behind.
    assert_eq!(*open(&shards, &plan).await.plan().unwrap(), next);
    for unpublished in [next.split(2).unwrap(), grown(&plan, 2)] {
        let builder = ShardedStore::builder()
            .shards(stores(&shards))
            .plan(unpublished.clone());
        let refused = builder.open().await.unwrap_err();
        assert!(
            matches!(refused, OpenError::NotPublished { .. }),
            "{refused}"
        );
        let refused = node.adopt(unpublished).await.unwrap_err();
        assert!(
            matches!(refused, PlanChangeError::NotPublished { .. }),
            "{refused}"
        );
    }
    assert_eq!(node.adopt(next).await.unwrap().epoch, node.epoch().unwrap());
    assert_eq!(node.refresh().await.unwrap(), node.epoch());
}

#[tokio::test]
async fn plans_that_cannot_be_right_are_refused_at_open() {
    let published =
        |epoch: PlanEpoch, bytes: Vec<u8>| Publish::new(PublishedPlan::new(epoch, bytes), None);
    let plan = ShardPlan::new(1).unwrap();
    let name = |plan: &ShardPlan| {
        PlanEpoch::new(
            plan.epoch(),
            loom_spi::PlanFingerprint(plan.fingerprint().get()),
        )
    };
    let open = |shards: Vec<Arc<TestShard>>| async move {
        ShardedStore::builder()
            .shards(stores(&shards))
            .open()
            .await
            .unwrap_err()
    };
    let garbled = TestShard::new();
    garbled
        .inner
        .publish(published(name(&plan), vec![1, 2, 3]))
        .await
        .unwrap();
    let refused = open(vec![garbled]).await;
    assert!(
        matches!(
            refused,
            OpenError::UnreadablePlan {
                shard: ShardId(0),
                ..
            }
        ),
        "{refused}"
    );

    let mislabelled = TestShard::new();
    let other = ShardPlan::with_buckets(1, 8).unwrap();
    mislabelled
        .inner
        .publish(published(name(&other), plan.to_bytes()))
        .await
        .unwrap();
    let refused = open(vec![mislabelled]).await;
    assert!(
        matches!(refused, OpenError::MislabelledPlan { .. }),
        "{refused}"
    );

    let rivals = shards(2);
    rivals[0]
        .inner
        .publish(published(name(&plan), plan.to_bytes()))
        .await
        .unwrap();
    rivals[1]
        .inner
        .publish(published(name(&other), other.to_bytes()))
        .await
        .unwrap();
    let refused = open(rivals).await;
    assert!(
        matches!(
            refused,
            OpenError::RivalPlans {
                shard: ShardId(1),
                ..
            }
        ),
        "{refused}"
    );
}

#[tokio::test]
async fn a_shard_that_left_the_plan_and_was_switched_off_sends_its_visitors_to_the_others() {
    let shards = shards(3);
    let plan = ShardPlan::new(3).unwrap();
    let (node, sleeper) = (open(&shards, &plan).await, open(&shards, &plan).await);
    let shrunk = plan
        .rebalanced(2, RebalanceOptions::default().allow_shrink(true))
        .unwrap();
    node.publish(shrunk).await.unwrap();
    node.settle_drained().await.unwrap();
    assert_eq!(node.shard_ids().len(), 2);
    shards[2].down(true);
    for n in 0..50 {
        append(&sleeper, &id(&format!("order-{n}")), 0, &["placed"])
            .await
            .unwrap();
    }
    assert_eq!(sleeper.epoch(), node.epoch());
}

#[tokio::test]
async fn a_shard_that_is_down_is_an_error_and_blocks_the_next_publication_alone() {
    let shards = shards(2);
    let plan = ShardPlan::new(2).unwrap();
    let store = open(&shards, &plan).await;
    shards[1].down(true);
    let (mut served, mut refused) = (0, 0);
    for n in 0..20 {
        match append(&store, &id(&format!("order-{n}")), 0, &["placed"]).await {
            Ok(_) => served += 1,
            Err(error) => {
                assert!(
                    matches!(error.kind(), StoreErrorKind::Unavailable { .. }),
                    "{error}"
                );
                refused += 1;
            }
        }
    }
    assert!(served > 0 && refused > 0);
    let next = plan.split(2).unwrap();
    assert!(matches!(
        store.publish(next.clone()).await,
        Err(PlanChangeError::Store(_))
    ));
    assert_eq!(epochs(&shards).await, [Some(1), Some(1)]);
    shards[1].down(false);
    store.publish(next).await.unwrap();
}

#[tokio::test]
async fn an_append_whose_answer_was_lost_is_not_repeated() {
    let shards = shards(2);
    let store = open(&shards, &on_shard_0()).await;
    shards[0].fault(Fault::loses_answer(Operation::Append));
    let error = append(&store, &id("order-7"), 0, &["placed"])
        .await
        .unwrap_err();
    assert!(
        matches!(
            error.kind(),
            StoreErrorKind::Unavailable {
                outcome_known: false,
                ..
            }
        ),
        "{error}"
    );
    let appends = shards[0].take_calls();
    assert_eq!(
        appends
            .iter()
            .filter(|call| **call == Operation::Append)
            .count(),
        1
    );
    let head = store.head(Head::new(id("order-7"))).await.unwrap().unwrap();
    assert_eq!(head.next_sequence, 1);
}
