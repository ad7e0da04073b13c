//! Shards that are not what they should be, restored ones, and ones that join later.

use std::sync::Arc;

use loom_shard_plan::{ShardId, ShardPlan};
use loom_sharded_store::{OpenError, PlanChangeError, ShardedStore};
use loom_spi::{
    DeploymentId, EventStore, List, PlanLedger, Publish, PublishedPlan, ShardIdentity,
    ShardLocation, StoreErrorKind,
};

use crate::ledgers::{Network, grown};
use crate::support::{TestShard, append, id, open, shards, stores};

/// S21.
#[tokio::test]
async fn swapped_or_wiped_shards_are_refused_by_their_identity() {
    let shards = shards(2);
    let deployment = DeploymentId::new("orders").unwrap();
    let plan = ShardPlan::new(2).unwrap();
    let builder = || ShardedStore::builder().deployment(deployment.clone());
    let created = builder()
        .shards(stores(&shards))
        .plan(plan.clone())
        .create()
        .await
        .unwrap();
    append(&created, &id("order-7"), 0, &["placed"])
        .await
        .unwrap();
    let again = builder().shards(stores(&shards)).create().await.unwrap();
    assert_eq!(again.epoch(), created.epoch());

    let swapped = [Arc::clone(&shards[1]), Arc::clone(&shards[0])];
    let refused = builder().shards(stores(&swapped)).open().await.unwrap_err();
    let OpenError::Store(error) = &refused else {
        panic!("{refused}")
    };
    assert!(
        matches!(
            error.kind(),
            StoreErrorKind::WrongShard { found: Some(_), .. }
        ),
        "{error}"
    );
    let wiped = [Arc::clone(&shards[0]), TestShard::new()];
    let refused = builder().shards(stores(&wiped)).open().await.unwrap_err();
    let OpenError::Store(error) = &refused else {
        panic!("{refused}")
    };
    assert!(
        matches!(error.kind(), StoreErrorKind::WrongShard { found: None, .. }),
        "{error}"
    );
    assert_eq!(error.shard(), Some(1));

    // Also if nobody says which deployment it should be, since the shards do.
    for wrong in [&swapped, &wiped] {
        let refused = ShardedStore::builder()
            .shards(stores(wrong))
            .open()
            .await
            .unwrap_err();
        assert!(matches!(refused, OpenError::Store(_)), "{refused}");
    }
    ShardedStore::builder()
        .shards(stores(&shards))
        .open()
        .await
        .unwrap();

    let other = DeploymentId::new("invoices").unwrap();
    let refused = ShardedStore::builder()
        .deployment(other)
        .shards(stores(&shards))
        .open()
        .await
        .unwrap_err();
    assert!(matches!(refused, OpenError::Store(_)), "{refused}");
    let refused = ShardedStore::builder()
        .shards(stores(&shards))
        .create()
        .await
        .unwrap_err();
    assert!(matches!(refused, OpenError::NoDeployment));
    let ledgerless = [TestShard::without_ledger()];
    let refused = builder()
        .shards(stores(&ledgerless))
        .open()
        .await
        .unwrap_err();
    assert!(matches!(refused, OpenError::NoLedger { .. }));
}

/// S23.
#[tokio::test]
async fn a_shard_that_was_restored_from_an_old_backup_is_not_raised() {
    let shards = shards(2);
    let plan = ShardPlan::new(2).unwrap();
    let backup = open(&shards, &plan).await;
    let epoch = backup.epoch().unwrap();
    let mut next = plan.clone();
    for _ in 0..2 {
        next = next.split(2).unwrap();
        backup.publish(next.clone()).await.unwrap();
    }
    // Shard 1 as it was two epochs ago.
    let restored = TestShard::new();
    let old = PublishedPlan::new(epoch, plan.to_bytes());
    restored
        .inner
        .publish(Publish::new(old, None))
        .await
        .unwrap();
    let shards = [Arc::clone(&shards[0]), Arc::clone(&restored)];
    let store = ShardedStore::builder()
        .shards(stores(&shards))
        .open()
        .await
        .unwrap();
    assert_eq!(store.epoch().unwrap().epoch, 3);
    let mut refused = 0;
    for n in 0..20 {
        if let Err(error) = append(&store, &id(&format!("order-{n}")), 0, &["placed"]).await {
            assert!(
                matches!(error.kind(), StoreErrorKind::ShardBehind { .. }),
                "{error}"
            );
            let source = std::error::Error::source(&error).unwrap().to_string();
            assert!(source.contains("repair it"), "{source}");
            refused += 1;
        }
    }
    assert!(refused > 0);
    assert_eq!(
        restored.inner.current().await.unwrap().unwrap().epoch,
        epoch
    );
    let refused = store.publish(next.split(2).unwrap()).await.unwrap_err();
    assert!(
        matches!(
            refused,
            PlanChangeError::FarBehind {
                shard: ShardId(1),
                ..
            }
        ),
        "{refused}"
    );
}

/// S24.
#[tokio::test]
async fn a_running_process_reaches_a_shard_that_joined_after_it_started() {
    let shards = shards(3);
    let deployment = DeploymentId::new("orders").unwrap();
    let network = Network::default();
    network
        .shards
        .lock()
        .unwrap()
        .insert("memory:2".to_owned(), Arc::clone(&shards[2]));
    let builder = || {
        ShardedStore::builder()
            .shards(stores(&shards[..2]))
            .deployment(deployment.clone())
            .connect(network.clone())
    };
    let plan = ShardPlan::new(2).unwrap();
    let node = builder().plan(plan.clone()).create().await.unwrap();
    let other = builder().open().await.unwrap();
    // Nobody knows where it is yet.
    let refused = node.publish(grown(&plan, 3)).await.unwrap_err();
    let PlanChangeError::Shards(OpenError::Connect { shard, .. }) = refused else {
        panic!("{refused}")
    };
    assert_eq!((shard, node.epoch().unwrap().epoch), (ShardId(2), 1));

    node.record_locations(vec![ShardLocation::new(2, "memory:2")])
        .await
        .unwrap();
    node.publish(grown(&plan, 3)).await.unwrap();
    let identity = ShardIdentity::new(deployment, 2);
    assert_eq!(shards[2].inner.identity().await.unwrap(), Some(identity));
    for n in 0..50 {
        append(&other, &id(&format!("order-{n}")), 0, &["placed"])
            .await
            .unwrap();
    }
    assert_eq!(other.shard_ids().len(), 3);
    let epoch = other.epoch();
    let on_new = shards[2]
        .inner
        .list(List::new(100).with_epoch(epoch))
        .await
        .unwrap();
    assert!(!on_new.executions.is_empty());
}

#[tokio::test]
async fn a_node_that_cannot_reach_a_new_shard_says_so_with_the_refusal_that_it_met() {
    let shards = shards(3);
    let plan = ShardPlan::new(2).unwrap();
    let other = ShardedStore::builder()
        .shards(stores(&shards[..2]))
        .plan(plan.clone())
        .open()
        .await
        .unwrap();
    open(&shards, &plan)
        .await
        .publish(grown(&plan, 3))
        .await
        .unwrap();
    let error = append(&other, &id("order-7"), 0, &["placed"])
        .await
        .unwrap_err();
    assert!(
        matches!(error.kind(), StoreErrorKind::StalePlan { .. }),
        "{error}"
    );
    let source = std::error::Error::source(&error).unwrap();
    let cause = std::error::Error::source(source).unwrap().to_string();
    assert!(cause.contains("shard 2, which was not given"), "{cause}");
}

/// S21, for a shard that a running process connects to.
#[tokio::test]
async fn a_wiped_server_in_the_place_of_a_shard_that_joined_is_not_written_to() {
    let shards = shards(3);
    let deployment = DeploymentId::new("orders").unwrap();
    let network = Network::default();
    let put = |shard: &Arc<TestShard>| {
        let mut there = network.shards.lock().unwrap();
        there.insert("memory:2".to_owned(), Arc::clone(shard));
    };
    let builder = || {
        let builder = ShardedStore::builder().shards(stores(&shards[..2]));
        builder
            .deployment(deployment.clone())
            .connect(network.clone())
    };
    let plan = ShardPlan::new(2).unwrap();
    let node = builder().plan(plan.clone()).create().await.unwrap();
    let other = builder().open().await.unwrap();
    put(&shards[2]);
    node.record_locations(vec![ShardLocation::new(2, "memory:2")])
        .await
        .unwrap();
    node.publish(grown(&plan, 3)).await.unwrap();
    let wiped = TestShard::new();
    put(&wiped);
    let error = append(&other, &id("order-7"), 0, &["placed"])
        .await
        .unwrap_err();
    let mut causes = std::iter::successors(std::error::Error::source(&error), |e| e.source());
    let wrong = |cause: &dyn std::error::Error| cause.to_string().contains("expected shard 2 of");
    assert!(causes.any(wrong), "{error:?}");
    assert_eq!(wiped.inner.identity().await.unwrap(), None);
    assert_eq!(wiped.inner.current().await.unwrap(), None);
    put(&shards[2]);
    append(&other, &id("order-7"), 0, &["placed"])
        .await
        .unwrap();
}
