//! Finding out on which side of a migrating bucket an execution is.

use std::sync::Arc;

use futures_util::FutureExt as _;
use loom_shard_plan::ShardPlan;
use loom_sharded_store::ShardedStore;
use loom_spi::{
    AcquireFence, Append, Children, Delete, EventStore, ExecutionId, FenceToken, Head, Operation,
    Read, RecordLineage, ReleaseLease, RenewLease, StoreErrorKind,
};

use crate::support::{Call, Migrating, TestShard, append, event, id, kinds, open, stores};

/// The point-reads among some calls.
fn looks(shards: &[&TestShard]) -> usize {
    let calls = shards.iter().flat_map(|shard| shard.take_calls());
    calls.filter(|call| *call == Operation::Head).count()
}

fn calls(at: &Migrating) -> Vec<(u16, Call)> {
    let (source, destination) = (at.source().take_calls(), at.destination().take_calls());
    let destination = destination.into_iter().map(|call| (1, call));
    source
        .into_iter()
        .map(|call| (0, call))
        .chain(destination)
        .collect()
}

#[tokio::test]
async fn an_execution_on_the_source_is_read_and_written_there() {
    let at = Migrating::new().await;
    let order = id("order-7");
    append(at.source(), &order, 0, &["placed"]).await.unwrap();
    append(&at.store, &order, 1, &["shipped"]).await.unwrap();
    assert_eq!(kinds(&at.store, &order).await, ["placed", "shipped"]);
    assert_eq!(kinds(at.source(), &order).await, ["placed", "shipped"]);
    assert_eq!(at.destination().head(Head::new(order)).await.unwrap(), None);
}

#[tokio::test]
async fn an_execution_that_exists_nowhere_starts_on_the_destination() {
    let at = Migrating::new().await;
    let order = id("order-7");
    append(&at.store, &order, 0, &["placed"]).await.unwrap();
    assert_eq!(kinds(at.destination(), &order).await, ["placed"]);
    assert_eq!(at.source().head(Head::new(order)).await.unwrap(), None);
}

#[tokio::test]
async fn hundreds_of_executions_cost_two_point_reads_each_at_most_and_then_cache_hits() {
    let at = Migrating::new().await;
    let ids: Vec<ExecutionId> = (0..300).map(|n| id(&format!("order-{n}"))).collect();
    for (n, id) in ids.iter().enumerate() {
        let shard = if n % 2 == 0 {
            at.source()
        } else {
            at.destination()
        };
        append(shard, id, 0, &["placed"]).await.unwrap();
    }
    calls(&at);
    for id in &ids {
        at.store.read(Read::new(id.clone(), 0, 1)).await.unwrap();
        let looks = looks(&[at.source(), at.destination()]);
        assert!(looks <= 2, "{looks} looks at {id}");
    }
    for id in &ids {
        append(&at.store, id, 1, &["shipped"]).await.unwrap();
        at.store.head(Head::new(id.clone())).await.unwrap();
    }
    let calls = calls(&at);
    assert_eq!(calls.len(), 600, "one call each: {calls:?}");
    assert_eq!(at.store.stats().cache_hits, 600);
}

#[tokio::test]
async fn what_the_cache_forgets_is_looked_up_again() {
    let shards = vec![TestShard::without_ledger(), TestShard::without_ledger()];
    let plan = Migrating::new().await.plan;
    let store = ShardedStore::builder()
        .shards(stores(&shards))
        .plan(plan)
        .cache_capacity(0)
        .open()
        .await
        .unwrap();
    let order = id("order-7");
    append(&*shards[0], &order, 0, &["placed"]).await.unwrap();
    for _ in 0..3 {
        assert_eq!(kinds(&store, &order).await, ["placed"]);
    }
    assert_eq!((store.stats().looks, store.stats().cache_hits), (6, 0));
}

#[tokio::test]
async fn absence_is_not_cached() {
    let at = Migrating::new().await;
    let order = id("order-7");
    for _ in 0..2 {
        assert_eq!(at.store.head(Head::new(order.clone())).await.unwrap(), None);
        assert_eq!(looks(&[at.source(), at.destination()]), 3);
    }
    append(at.source(), &order, 0, &["placed"]).await.unwrap();
    assert_eq!(kinds(&at.store, &order).await, ["placed"]);
}

#[tokio::test]
async fn an_execution_that_moves_between_the_looks_is_found() {
    let at = Migrating::new().await;
    let order = id("order-7");
    append(at.source(), &order, 0, &["placed"]).await.unwrap();
    // After the first look at the destination, and before the one at the source.
    let (source, destination) = (Arc::clone(&at.shards[0]), Arc::clone(&at.shards[1]));
    let moved = order.clone();
    at.source().before(Operation::Head, move || {
        let copied = append(&destination.inner, &moved, 0, &["placed"]).now_or_never();
        copied.unwrap().unwrap();
        let deleted = source.inner.delete(Delete::new(moved)).now_or_never();
        deleted.unwrap().unwrap();
    });
    let head = at.store.head(Head::new(order)).await.unwrap();
    assert_eq!(head.map(|head| head.next_sequence), Some(1));
}

/// Moves an execution behind the back of the store under test, which has it in its cache.
async fn moved_by_another_process(at: &Migrating, order: &ExecutionId) {
    append(at.source(), order, 0, &["placed"]).await.unwrap();
    assert_eq!(kinds(&at.store, order).await, ["placed"]);
    let other = open(&at.shards, &at.plan).await;
    other.migrate_execution(order).await.unwrap();
}

#[tokio::test]
async fn a_cached_side_that_the_execution_has_left_is_given_up() {
    for what in ["read", "head", "append", "acquire", "delete"] {
        let at = Migrating::new().await;
        let order = id("order-7");
        moved_by_another_process(&at, &order).await;
        match what {
            "read" => assert_eq!(kinds(&at.store, &order).await, ["placed"]),
            "head" => assert!(
                at.store
                    .head(Head::new(order.clone()))
                    .await
                    .unwrap()
                    .is_some()
            ),
            "append" => drop(append(&at.store, &order, 1, &["shipped"]).await.unwrap()),
            "acquire" => {
                let fencing = at.store.capabilities().fencing.unwrap();
                fencing
                    .acquire_fence(AcquireFence::new(order.clone()))
                    .await
                    .unwrap();
                let error = append(at.destination(), &order, 1, &["late"])
                    .await
                    .unwrap_err();
                assert!(
                    matches!(error.kind(), StoreErrorKind::Fenced { .. }),
                    "{error}"
                );
            }
            _ => {
                at.store.delete(Delete::new(order.clone())).await.unwrap();
                assert_eq!(
                    at.destination()
                        .head(Head::new(order.clone()))
                        .await
                        .unwrap(),
                    None
                );
            }
        }
        assert_eq!(
            at.source().head(Head::new(order)).await.unwrap(),
            None,
            "{what}"
        );
    }
}

#[tokio::test]
async fn a_creation_does_not_go_to_the_source_even_if_the_cache_says_that_it_is_there() {
    let at = Migrating::new().await;
    let order = id("order-7");
    append(at.source(), &order, 0, &["placed"]).await.unwrap();
    assert_eq!(kinds(&at.store, &order).await, ["placed"]);
    // Retention of another process: the cache still says "source".
    at.source()
        .delete(Delete::new(order.clone()))
        .await
        .unwrap();
    append(&at.store, &order, 0, &["placed again"])
        .await
        .unwrap();
    assert_eq!(kinds(at.destination(), &order).await, ["placed again"]);
    assert_eq!(at.source().head(Head::new(order)).await.unwrap(), None);
}

#[tokio::test]
async fn creating_what_is_on_the_source_is_the_conflict_that_the_source_would_report() {
    let at = Migrating::new().await;
    let order = id("order-7");
    append(at.source(), &order, 0, &["placed", "paid"])
        .await
        .unwrap();
    let error = append(&at.store, &order, 0, &["placed"]).await.unwrap_err();
    assert_eq!(
        *error.kind(),
        StoreErrorKind::SequenceConflict {
            expected: 0,
            actual: 2
        }
    );
    assert_eq!((error.shard(), error.execution()), (Some(0), Some(&order)));

    let done = vec![event("end").terminal()];
    at.source()
        .append(Append::new(order.clone(), 2, done))
        .await
        .unwrap();
    at.source().take_calls();
    let error = append(&at.store, &order, 0, &["placed"]).await.unwrap_err();
    assert_eq!(*error.kind(), StoreErrorKind::Closed { next_sequence: 3 });
    // The source is not asked to create it: it could have been deleted there meanwhile.
    assert!(!at.source().take_calls().contains(&Operation::Append));
    assert_eq!(at.destination().head(Head::new(order)).await.unwrap(), None);
}

/// S1.
#[tokio::test]
async fn a_source_that_cannot_be_reached_is_an_error_that_names_it_and_never_absence() {
    let at = Migrating::new().await;
    let order = id("order-7");
    append(at.source(), &order, 0, &["placed"]).await.unwrap();
    at.source().down(true);
    let errors = [
        at.store
            .read(Read::new(order.clone(), 0, 1))
            .await
            .unwrap_err(),
        at.store.head(Head::new(order.clone())).await.unwrap_err(),
        append(&at.store, &order, 0, &["placed"]).await.unwrap_err(),
        append(&at.store, &order, 1, &["shipped"])
            .await
            .unwrap_err(),
        at.store
            .delete(Delete::new(order.clone()))
            .await
            .unwrap_err(),
    ];
    let operations = [
        Operation::Read,
        Operation::Head,
        Operation::Append,
        Operation::Append,
        Operation::Delete,
    ];
    for (error, operation) in errors.iter().zip(operations) {
        assert!(
            matches!(
                error.kind(),
                StoreErrorKind::Unavailable {
                    outcome_known: true,
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(error.operation(), operation);
        assert_eq!(
            (error.shard(), error.execution()),
            (Some(0), Some(&order)),
            "{error}"
        );
    }
    assert_eq!(
        at.destination()
            .head(Head::new(order.clone()))
            .await
            .unwrap(),
        None
    );

    // A destination that cannot be reached likewise; and what is there needs no source.
    at.source().down(false);
    at.destination().down(true);
    let error = at
        .store
        .read(Read::new(order.clone(), 0, 1))
        .await
        .unwrap_err();
    assert_eq!(error.shard(), Some(1));
    at.destination().down(false);
    let new = id("order-8");
    append(&at.store, &new, 0, &["placed"]).await.unwrap();
    at.source().down(true);
    assert_eq!(kinds(&at.store, &new).await, ["placed"]);
}

/// S2.
#[tokio::test]
async fn different_logs_on_both_sides_are_served_from_the_destination_and_counted() {
    let at = Migrating::new().await;
    let order = id("order-7");
    append(at.source(), &order, 0, &["old"]).await.unwrap();
    append(at.destination(), &order, 0, &["new", "newer"])
        .await
        .unwrap();
    assert_eq!(kinds(&at.store, &order).await, ["new", "newer"]);
    let listed = at
        .store
        .list(loom_spi::List::new(10))
        .await
        .unwrap()
        .executions;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].head.next_sequence, 2);
    assert_eq!(
        at.store.stats().both_sides_differ,
        0,
        "alike as far as a listing can see"
    );
    let error = at.store.migrate_execution(&order).await.unwrap_err();
    assert!(
        matches!(error, loom_sharded_store::MigrateError::Differs { .. }),
        "{error}"
    );
    let error = at
        .store
        .delete(Delete::new(order.clone()))
        .await
        .unwrap_err();
    assert!(
        matches!(error.kind(), StoreErrorKind::RecordConflict { .. }),
        "{error}"
    );
    assert_eq!(at.store.stats().both_sides_differ, 2);
    assert_eq!(kinds(at.source(), &order).await, ["old"]);
    assert_eq!(kinds(at.destination(), &order).await, ["new", "newer"]);
}

#[tokio::test]
async fn a_listing_counts_logs_that_differ_at_a_glance() {
    let at = Migrating::new().await;
    let order = id("order-7");
    append(at.source(), &order, 0, &["one", "two"])
        .await
        .unwrap();
    append(at.destination(), &order, 0, &["new"]).await.unwrap();
    at.store.list(loom_spi::List::new(10)).await.unwrap();
    assert_eq!(at.store.stats().both_sides_differ, 1);
}

#[tokio::test]
async fn a_fence_that_was_taken_on_the_source_holds_on_the_destination() {
    let at = Migrating::new().await;
    let order = id("order-7");
    let fencing = at.store.capabilities().fencing.unwrap();
    // Before the bucket began to migrate.
    let early = loom_spi::Fencing::acquire_fence(at.source(), AcquireFence::new(order.clone()));
    let early = early.await.unwrap();
    let token = fencing
        .acquire_fence(AcquireFence::new(order.clone()))
        .await
        .unwrap();
    assert!(token > early);
    let create = |token| Append::new(order.clone(), 0, vec![event("placed")]).with_fence(token);
    for late in [None, Some(early)] {
        let error = at.store.append(create(late)).await.unwrap_err();
        assert_eq!(
            *error.kind(),
            StoreErrorKind::Fenced {
                presented: late,
                current: token
            },
            "{error}"
        );
    }
    at.store.append(create(Some(token))).await.unwrap();
    assert_eq!(kinds(at.destination(), &order).await, ["placed"]);
    // Also once the source is out of the picture.
    let error = append(at.destination(), &order, 1, &["late"])
        .await
        .unwrap_err();
    assert_eq!(
        *error.kind(),
        StoreErrorKind::Fenced {
            presented: None,
            current: token
        }
    );
}

#[tokio::test]
async fn a_fence_is_acquired_above_what_the_other_side_has_handed_out() {
    let at = Migrating::new().await;
    let order = id("order-7");
    let floor = AcquireFence::new(order.clone()).with_floor(FenceToken(40));
    loom_spi::Fencing::acquire_fence(at.source(), floor)
        .await
        .unwrap();
    let high = Append::new(order.clone(), 0, vec![event("placed")]).with_fence(FenceToken(41));
    at.store.append(high).await.unwrap();
    let fencing = at.store.capabilities().fencing.unwrap();
    let token = fencing
        .acquire_fence(AcquireFence::new(order.clone()))
        .await
        .unwrap();
    assert_eq!(token, FenceToken(42));
}

#[tokio::test]
async fn a_lease_is_renewed_where_it_was_given_also_after_the_execution_started_elsewhere() {
    let at = Migrating::new().await;
    let order = id("order-7");
    let hour = std::time::Duration::from_secs(3600);
    let lease = AcquireFence::new(order.clone())
        .with_holder("one".to_owned())
        .with_lease(hour);
    let token = loom_spi::Fencing::acquire_fence(at.source(), lease)
        .await
        .unwrap();
    let create = Append::new(order.clone(), 0, vec![event("placed")]).with_fence(token);
    at.store.append(create).await.unwrap();
    let fencing = at.store.capabilities().fencing.unwrap();
    fencing
        .renew_lease(RenewLease::new(order.clone(), token, hour))
        .await
        .unwrap();
    fencing
        .release_lease(ReleaseLease::new(order.clone(), token))
        .await
        .unwrap();
    let next = fencing
        .acquire_fence(AcquireFence::new(order.clone()))
        .await
        .unwrap();
    let error = fencing
        .renew_lease(RenewLease::new(order, token, hour))
        .await
        .unwrap_err();
    let presented = Some(token);
    assert_eq!(
        *error.kind(),
        StoreErrorKind::Fenced {
            presented,
            current: next
        }
    );
}

#[tokio::test]
async fn lineage_of_a_parent_stays_with_its_record_and_in_order() {
    let at = Migrating::new().await;
    let incident = id("incident-1");
    let branches = at.store.capabilities().branches.unwrap();
    let record = |child: &str| RecordLineage::new(incident.clone(), id(child), child.to_owned());
    // Without a log, on the source, where an edge is already.
    loom_spi::BranchRegistry::record_lineage(at.source(), record("metrics"))
        .await
        .unwrap();
    branches.record_lineage(record("logs")).await.unwrap();
    branches.record_lineage(record("logs")).await.unwrap();
    let children = |store: &dyn loom_spi::BranchRegistry| {
        let children = store
            .children(Children::new(incident.clone()))
            .now_or_never();
        let children = children.unwrap().unwrap();
        children
            .iter()
            .map(|branch| branch.child.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(children(at.source()), ["metrics", "logs"]);

    // The log starts on the destination, and they go along.
    append(&at.store, &incident, 0, &["opened"]).await.unwrap();
    branches.record_lineage(record("queries")).await.unwrap();
    assert_eq!(children(at.source()), [""; 0]);
    assert_eq!(children(at.destination()), ["metrics", "logs", "queries"]);
    assert_eq!(children(branches), ["metrics", "logs", "queries"]);
    let parent = branches
        .parent(loom_spi::Parent::new(id("logs")))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (parent.parent, parent.label),
        (incident.clone(), "logs".to_owned())
    );
    assert_eq!(
        branches
            .forget(loom_spi::Forget::new(incident.clone()))
            .await
            .unwrap(),
        3
    );
    assert_eq!(children(branches), [""; 0]);
}

#[tokio::test]
async fn a_child_has_one_parent_also_across_shards() {
    let shards = crate::support::shards(4);
    let store = open(&shards, &ShardPlan::new(4).unwrap()).await;
    let branches = store.capabilities().branches.unwrap();
    let child = id("child");
    let record =
        |parent: u32| RecordLineage::new(id(&format!("p-{parent}")), child.clone(), "b".to_owned());
    branches.record_lineage(record(0)).await.unwrap();
    for parent in 1..12 {
        let error = branches.record_lineage(record(parent)).await.unwrap_err();
        assert_eq!(
            *error.kind(),
            StoreErrorKind::LineageConflict {
                parent: id("p-0"),
                label: "b".to_owned()
            }
        );
    }
    branches.record_lineage(record(0)).await.unwrap();
}
