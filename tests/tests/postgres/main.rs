//! Deployments over real PostgreSQL servers, while a server is away.

#![expect(
    clippy::unwrap_used,
    clippy::unreachable,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;
use std::time::Duration;

use loom_shard_plan::{Placement, RebalanceOptions, ShardPlan};
use loom_sharded_store::{MigrateError, ShardedStore};
use loom_spi::{
    Append, DeploymentId, EventStore, ExecutionId, Head, List, NewEvent, Read, ShardIdentity,
    StoreError, StoreErrorKind,
};
use loom_store_postgres::{Options, PostgresStore};
use loom_store_sqlite::SqliteStore;
use loom_test_postgres::{Cluster, Settings, available};

fn cluster() -> Cluster {
    Cluster::start(&Settings::durable()).unwrap()
}

async fn shard(cluster: &Cluster, deployment: &DeploymentId, shard: u16) -> Arc<dyn EventStore> {
    let place = cluster.url("postgres").parse().unwrap();
    let options = Options::new()
        .with_identity(ShardIdentity::new(deployment.clone(), shard))
        .with_connect_timeout(Duration::from_secs(5));
    Arc::new(PostgresStore::create(&place, options).await.unwrap())
}

fn id(number: u32) -> ExecutionId {
    ExecutionId::new(format!("order-{number}")).unwrap()
}

fn append(number: u32, expected: u64) -> Append {
    let event = NewEvent::new("k", format!("{number} {expected}"));
    Append::new(id(number), expected, vec![event])
}

fn is_unavailable(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Unavailable { .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn while_one_of_three_servers_is_down_what_is_on_the_others_goes_on() {
    const AWAY: u16 = 1;
    if !available() {
        return;
    }
    let mut clusters = [cluster(), cluster(), cluster()];
    let deployment = DeploymentId::generate();
    let plan = ShardPlan::new(3).unwrap();
    let mut builder = ShardedStore::builder()
        .deployment(deployment.clone())
        .plan(plan.clone());
    for (cluster, number) in clusters.iter().zip(0..) {
        builder = builder.shard(number, shard(cluster, &deployment, number).await);
    }
    let store = builder.open().await.unwrap();
    for number in 0..60 {
        store.append(append(number, 0)).await.unwrap();
    }
    let home = |number| match plan.route_id(id(number).as_str()) {
        Placement::Settled(shard) => shard.get(),
        Placement::Migrating { .. } => unreachable!("nothing migrates"),
    };

    clusters[usize::from(AWAY)].stop_immediately();
    let mut away = 0;
    for number in 0..60 {
        let appended = store.append(append(number, 1)).await;
        let looked = store.head(Head::new(id(number))).await;
        if home(number) == AWAY {
            let (appended, looked) = (appended.unwrap_err(), looked.unwrap_err());
            // Never "not there", and said of whom.
            assert!(is_unavailable(&appended) && is_unavailable(&looked));
            assert_eq!(appended.shard(), Some(AWAY));
            away += 1;
        } else {
            assert_eq!(appended.unwrap().next_sequence, 2);
            assert_eq!(looked.unwrap().unwrap().next_sequence, 2);
        }
    }
    assert!(away > 5);
    assert!(is_unavailable(
        &store.list(List::new(10)).await.unwrap_err()
    ));
    // A plan that not all can take is not published, and nothing else is held up by the attempt.
    let next = plan.rebalanced(2, RebalanceOptions::default().allow_shrink(true));
    store.publish(next.unwrap()).await.unwrap_err();
    let other = (0..60).find(|number| home(*number) != AWAY).unwrap();
    store.append(append(other, 2)).await.unwrap();

    clusters[usize::from(AWAY)].start_again().unwrap();
    for number in (0..60).filter(|number| home(*number) == AWAY) {
        // What was under way when the server went may have been done; it was not acknowledged.
        let next = loop {
            match store.head(Head::new(id(number))).await {
                Ok(head) => break head.unwrap().next_sequence,
                Err(error) => assert!(is_unavailable(&error), "{error}"),
            }
        };
        assert_eq!(next, 1, "nobody could have written it");
        store.append(append(number, next)).await.unwrap();
    }
    let page = store.list(List::new(1000)).await.unwrap();
    assert_eq!(page.executions.len(), 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_move_from_a_file_to_a_server_that_crashes_meanwhile_and_are_written_all_the_time()
 {
    const EXECUTIONS: u32 = 80;
    if !available() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut server = cluster();
    let deployment = DeploymentId::generate();
    let options =
        loom_store_sqlite::Options::new().with_identity(ShardIdentity::new(deployment.clone(), 0));
    let file = SqliteStore::create(folder.path().join("0.db"), options)
        .await
        .unwrap();
    let plan = ShardPlan::new(1).unwrap();
    let store = ShardedStore::builder()
        .deployment(deployment.clone())
        .plan(plan.clone())
        .shard(0, Arc::new(file))
        .open()
        .await
        .unwrap();
    for number in 0..EXECUTIONS {
        store.append(append(number, 0)).await.unwrap();
    }
    let joining = shard(&server, &deployment, 1).await;
    store.add_shard(1, joining).await.unwrap();
    let topology = loom_shard_plan::Topology::of(&plan)
        .leaving(loom_shard_plan::ShardId(0))
        .unwrap()
        .joining(loom_shard_plan::ShardId(1), 1)
        .unwrap();
    store
        .publish(plan.rebalance(&topology).unwrap())
        .await
        .unwrap();

    let store = Arc::new(store);
    let writing = {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for sequence in 1..4 {
                for number in 0..EXECUTIONS {
                    write(&store, number, sequence).await;
                }
            }
        })
    };
    for number in 0..EXECUTIONS {
        if number == EXECUTIONS / 2 {
            server = tokio::task::spawn_blocking(move || {
                server.stop_immediately();
                server.start_again().unwrap();
                server
            })
            .await
            .unwrap();
        }
        loop {
            match store.migrate_execution(&id(number)).await {
                Ok(_) => break,
                Err(MigrateError::Store(error)) => assert!(is_unavailable(&error), "{error}"),
                Err(error) => panic!("{error}"),
            }
        }
    }
    writing.await.unwrap();
    store.settle_drained().await.unwrap();
    assert_eq!(store.plan().unwrap().migrating().count(), 0);
    for number in 0..EXECUTIONS {
        let page = store.read(Read::new(id(number), 0, 100)).await.unwrap();
        let payloads: Vec<_> = page
            .events
            .iter()
            .map(|event| event.payload.clone())
            .collect();
        let expected: Vec<_> = (0..4)
            .map(|sequence| format!("{number} {sequence}"))
            .collect();
        assert_eq!(payloads, expected);
    }
    drop(server);
}

/// Writes one event exactly once, whatever happens to the servers meanwhile.
async fn write(store: &ShardedStore, number: u32, sequence: u64) {
    loop {
        match store.append(append(number, sequence)).await {
            Ok(_) => return,
            Err(error) if is_unavailable(&error) => {}
            // It was written, and the answer was lost.
            Err(error) => {
                let conflict = StoreErrorKind::SequenceConflict {
                    expected: sequence,
                    actual: sequence + 1,
                };
                assert_eq!(*error.kind(), conflict);
                return;
            }
        }
    }
}
