//! Moving one execution.

use std::sync::Arc;

use futures_util::FutureExt as _;
use loom_shard_plan::ShardId;
use loom_sharded_store::{MigrateError, Migrated};
use loom_spi::{
    AcquireFence, Append, BranchRegistry, Children, Delete, EventStore, ExecutionId, FenceToken,
    Fencing, Head, Limits, Operation, Read, RecordLineage, StoreErrorKind,
};

use crate::support::{Call, Fault, Migrating, TestShard, append, closed, event, id, kinds, open};

const MOVED: Migrated = Migrated::Moved {
    from: ShardId(0),
    to: ShardId(1),
    events: 3,
};

async fn is_on(shard: &TestShard, id: &ExecutionId) -> bool {
    shard
        .inner
        .head(Head::new(id.clone()))
        .await
        .unwrap()
        .is_some()
}

fn edge(parent: &ExecutionId, child: &str) -> RecordLineage {
    RecordLineage::new(parent.clone(), id(child), child.to_owned())
}

async fn children(shard: &TestShard, parent: &ExecutionId) -> Vec<String> {
    let branches = shard
        .inner
        .children(Children::new(parent.clone()))
        .await
        .unwrap();
    branches.into_iter().map(|branch| branch.label).collect()
}

#[tokio::test]
async fn a_closed_execution_moves_byte_for_byte_with_its_lineage_and_its_fence() {
    let at = Migrating::new().await;
    let order = id("order-7");
    let token = at
        .source()
        .acquire_fence(AcquireFence::new(order.clone()))
        .await
        .unwrap();
    let events = vec![event("placed"), event("shipped"), event("end").terminal()];
    let create = Append::new(order.clone(), 0, events).with_fence(token);
    at.source().append(create).await.unwrap();
    at.source().record_lineage(edge(&order, "a")).await.unwrap();
    at.source().record_lineage(edge(&order, "b")).await.unwrap();
    let before = at
        .source()
        .read(Read::new(order.clone(), 0, 10))
        .await
        .unwrap();

    assert_eq!(at.store.migrate_execution(&order).await.unwrap(), MOVED);
    let after = at
        .destination()
        .read(Read::new(order.clone(), 0, 10))
        .await
        .unwrap();
    assert_eq!(before, after);
    assert!(!is_on(at.source(), &order).await);
    assert_eq!(children(at.source(), &order).await, [""; 0]);
    assert_eq!(children(at.destination(), &order).await, ["a", "b"]);

    // S13: whoever was fenced out stays out, also when the id is used again.
    at.store.delete(Delete::new(order.clone())).await.unwrap();
    let error = append(at.destination(), &order, 0, &["late"])
        .await
        .unwrap_err();
    assert_eq!(
        *error.kind(),
        StoreErrorKind::Fenced {
            presented: None,
            current: token
        }
    );

    let again = at.store.migrate_execution(&order).await.unwrap_err();
    assert!(matches!(&again, MigrateError::Store(e) if *e.kind() == StoreErrorKind::NotFound));
}

#[tokio::test]
async fn an_execution_that_was_not_started_moves_and_one_that_is_about_to_be_does_not() {
    let at = Migrating::new().await;
    let (idle, held) = (id("idle"), id("held"));
    append(at.source(), &idle, 0, &["placed"]).await.unwrap();
    append(at.source(), &held, 0, &["placed"]).await.unwrap();
    let token = at
        .source()
        .acquire_fence(AcquireFence::new(held.clone()))
        .await
        .unwrap();
    let moved = at.store.migrate_execution(&idle).await.unwrap();
    assert_eq!(
        moved,
        Migrated::Moved {
            from: ShardId(0),
            to: ShardId(1),
            events: 1
        }
    );
    append(&at.store, &idle, 1, &["started"]).await.unwrap();

    let refused = at.store.migrate_execution(&held).await.unwrap_err();
    assert!(
        matches!(refused, MigrateError::Held { token: t, .. } if t == token),
        "{refused}"
    );
    assert!(!is_on(at.destination(), &held).await);
}

#[tokio::test]
async fn a_live_execution_stays_and_the_refusal_says_why_and_what_to_do() {
    let at = Migrating::new().await;
    let order = id("order-7");
    append(at.source(), &order, 0, &["placed", "paid"])
        .await
        .unwrap();
    let refused = at.store.migrate_execution(&order).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "cannot migrate execution `order-7` from shard 0: it is open and has 2 events, and one that \
         is appended during the move would be lost; move it once it has closed, or let its bucket \
         drain by itself"
    );
    append(&at.store, &order, 2, &["shipped"]).await.unwrap();
    assert_eq!(
        kinds(at.source(), &order).await,
        ["placed", "paid", "shipped"]
    );
}

#[tokio::test]
async fn where_there_is_nothing_to_move_nothing_is_moved() {
    let at = Migrating::new().await;
    let order = id("order-7");
    append(&at.store, &order, 0, &["placed"]).await.unwrap();
    let there = at.store.migrate_execution(&order).await.unwrap();
    assert_eq!(there, Migrated::AlreadyThere { on: ShardId(1) });
    let settled = open(&[TestShard::new()], &crate::support::on_shard_0()).await;
    let missing = settled.migrate_execution(&order).await.unwrap_err();
    assert!(matches!(&missing, MigrateError::Store(e) if *e.kind() == StoreErrorKind::NotFound));
    append(&settled, &order, 0, &["placed"]).await.unwrap();
    let settled = settled.migrate_execution(&order).await.unwrap();
    assert_eq!(settled, Migrated::Settled { on: ShardId(0) });
}

#[tokio::test]
async fn a_log_that_does_not_fit_one_append_stays_whole_where_it_is() {
    let source = TestShard::without_ledger();
    for limits in [
        Limits::default().with_max_append_events(2),
        Limits::default()
            .with_max_append_bytes(40)
            .with_max_payload_bytes(20),
    ] {
        let shards = vec![
            Arc::clone(&source),
            TestShard::with_limits_without_ledger(limits),
        ];
        let at = Migrating::over(shards).await;
        let order = id("order-7");
        if !is_on(&source, &order).await {
            closed(&*source, &order, &["placed", "shipped"]).await;
        }
        let refused = at.store.migrate_execution(&order).await.unwrap_err();
        assert!(
            matches!(refused, MigrateError::TooLarge { events: 3, .. }),
            "{refused}"
        );
        assert!(!is_on(at.destination(), &order).await);
        assert_eq!(kinds(&at.store, &order).await, ["placed", "shipped", "end"]);
    }
}

#[tokio::test]
async fn lineage_without_a_log_moves_too() {
    let at = Migrating::new().await;
    let order = id("order-7");
    at.source().record_lineage(edge(&order, "a")).await.unwrap();
    let moved = at.store.migrate_execution(&order).await.unwrap();
    assert_eq!(
        moved,
        Migrated::Moved {
            from: ShardId(0),
            to: ShardId(1),
            events: 0
        }
    );
    assert_eq!(children(at.source(), &order).await, [""; 0]);
    assert_eq!(children(at.destination(), &order).await, ["a"]);
}

/// S15. Every call of a move fails once, before it takes effect or after, and the move is repeated, by the
/// same process or by another.
#[tokio::test]
async fn a_move_that_is_interrupted_at_any_step_is_finished_by_repeating_it() {
    let steps: Vec<(usize, Call)> = {
        let at = prepared().await;
        at.store.migrate_execution(&id("order-7")).await.unwrap();
        let mut steps = Vec::new();
        for (shard, calls) in [at.source().take_calls(), at.destination().take_calls()]
            .iter()
            .enumerate()
        {
            steps.extend(calls.iter().map(|call| (shard, *call)));
        }
        steps
    };
    assert!(steps.len() > 8, "{steps:?}");
    for (place, (shard, call)) in steps.iter().enumerate() {
        let after = steps[..place]
            .iter()
            .filter(|step| *step == &(*shard, *call))
            .count();
        for takes_effect in [false, true] {
            for other_process in [false, true] {
                let at = prepared().await;
                at.shards[*shard].fault(Fault {
                    call: *call,
                    after,
                    takes_effect,
                });
                let order = id("order-7");
                let told = at.store.migrate_execution(&order).await;
                let what = format!("{call:?} no. {after} on {shard}, effect: {takes_effect}");
                assert!(told.is_err(), "{what}");
                // Served as before, whatever happened.
                assert_eq!(
                    kinds(&at.store, &order).await,
                    ["placed", "shipped", "end"],
                    "{what}"
                );
                let other = open(&at.shards, &at.plan).await;
                let mover = if other_process { &other } else { &at.store };
                mover.migrate_execution(&order).await.unwrap();
                for store in [&at.store, &other] {
                    assert_eq!(
                        kinds(store, &order).await,
                        ["placed", "shipped", "end"],
                        "{what}"
                    );
                }
                assert!(!is_on(at.source(), &order).await, "{what}");
                assert_eq!(
                    children(at.destination(), &order).await,
                    ["a", "b"],
                    "{what}"
                );
                assert_eq!(children(at.source(), &order).await, [""; 0], "{what}");
            }
        }
    }
}

async fn prepared() -> Migrating {
    let at = Migrating::new().await;
    let order = id("order-7");
    closed(at.source(), &order, &["placed", "shipped"]).await;
    at.source().record_lineage(edge(&order, "a")).await.unwrap();
    at.source().record_lineage(edge(&order, "b")).await.unwrap();
    at.source().take_calls();
    at.destination().take_calls();
    at
}

/// S15, at the same time.
#[test]
fn movers_of_several_processes_at_once_leave_one_copy() {
    for seed in 0..200 {
        let at = prepared().now_or_never().unwrap();
        let others: Vec<_> = (0..3)
            .map(|_| open(&at.shards, &at.plan).now_or_never().unwrap())
            .collect();
        at.shards.iter().for_each(|shard| shard.yields());
        let order = id("order-7");
        let movers = others.iter().map(|store| {
            let order = &order;
            async move { store.migrate_execution(order).await.unwrap() }.boxed_local()
        });
        crate::support::interleave(seed, movers.collect());
        let check = async {
            assert!(!is_on(at.source(), &order).await, "seed {seed}");
            assert_eq!(
                kinds(at.destination(), &order).await,
                ["placed", "shipped", "end"]
            );
            assert_eq!(children(at.destination(), &order).await, ["a", "b"]);
        };
        crate::support::interleave(seed, vec![check.boxed_local()]);
    }
}

/// S12.
#[tokio::test]
async fn a_reader_that_pages_through_a_log_while_it_moves_gets_all_of_it() {
    for at_page in 0..5_u64 {
        let at = Migrating::new().await;
        let order = id("order-7");
        let names: Vec<String> = (0..8).map(|n| format!("step {n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        closed(at.source(), &order, &names).await;
        let other = open(&at.shards, &at.plan).await;
        let mut read = Vec::new();
        for page in 0.. {
            if page == at_page {
                other.migrate_execution(&order).await.unwrap();
            }
            let from = read.len() as u64;
            let page = at
                .store
                .read(Read::new(order.clone(), from, 2))
                .await
                .unwrap();
            read.extend(page.events.into_iter().map(|event| event.kind.to_string()));
            if read.len() as u64 == page.head.next_sequence {
                break;
            }
        }
        assert_eq!(read[..8], names);
        assert_eq!(read[8], "end");
    }
}

#[tokio::test]
async fn a_move_during_which_another_process_starts_the_execution_does_not_remove_it() {
    let at = Migrating::new().await;
    let order = id("order-7");
    append(at.source(), &order, 0, &["placed"]).await.unwrap();
    // ADR 0075 rules this out, and the conditional delete notices it all the same.
    let source = Arc::clone(&at.shards[0]);
    let started = order.clone();
    at.source().before(Operation::Delete, move || {
        append(&source.inner, &started, 1, &["started"])
            .now_or_never()
            .unwrap()
            .unwrap();
    });
    let refused = at.store.migrate_execution(&order).await.unwrap_err();
    assert!(matches!(refused, MigrateError::Changed { .. }), "{refused}");
    assert_eq!(kinds(at.source(), &order).await, ["placed", "started"]);
    assert_eq!(kinds(&at.store, &order).await, ["placed", "started"]);
    assert!(!is_on(at.destination(), &order).await);
}

#[tokio::test]
async fn a_fence_that_the_destination_has_seen_is_no_obstacle() {
    let at = Migrating::new().await;
    let order = id("order-7");
    let floor = AcquireFence::new(order.clone()).with_floor(FenceToken(9));
    at.destination().acquire_fence(floor).await.unwrap();
    closed(at.source(), &order, &["placed", "shipped"]).await;
    assert_eq!(at.store.migrate_execution(&order).await.unwrap(), MOVED);
}

/// A move of an execution that was not started is cut off, the execution starts, and its bucket turns round:
/// what the move left behind is on the destination now.
async fn turned_round(shards: Vec<Arc<TestShard>>) -> (Migrating, ExecutionId) {
    let mut at = Migrating::over(shards).await;
    let order = id("order-7");
    append(at.source(), &order, 0, &["placed"]).await.unwrap();
    at.source().fault(Fault::fails(Operation::Delete));
    at.store.migrate_execution(&order).await.unwrap_err();
    append(&at.store, &order, 1, &["started"]).await.unwrap();
    let back = at.plan.reverted_all(0..8).unwrap();
    at.store.publish(back.clone()).await.unwrap();
    at.plan = back;
    assert_eq!(kinds(&at.shards[0].inner, &order).await, ["placed"]);
    (at, order)
}

#[tokio::test]
async fn what_an_interrupted_move_left_on_a_side_is_not_served_after_the_bucket_has_turned_round() {
    let shards = || vec![TestShard::without_ledger(), TestShard::without_ledger()];
    // Cached or not.
    for forgotten in [false, true] {
        let (at, order) = turned_round(shards()).await;
        let fresh = open(&at.shards, &at.plan).await;
        let store = if forgotten { &fresh } else { &at.store };
        assert_eq!(kinds(store, &order).await, ["placed", "started"]);
        let head = store.head(Head::new(order.clone())).await.unwrap().unwrap();
        assert_eq!(head.next_sequence, 2);
        let listed = store
            .list(loom_spi::List::new(10))
            .await
            .unwrap()
            .executions;
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].head, head);
        let error = append(store, &order, 0, &["placed"]).await.unwrap_err();
        assert_eq!(
            *error.kind(),
            StoreErrorKind::SequenceConflict {
                expected: 0,
                actual: 2
            }
        );
        append(store, &order, 2, &["shipped"]).await.unwrap();
        assert_eq!(kinds(store, &order).await, ["placed", "started", "shipped"]);

        let end = vec![event("end").terminal()];
        store
            .append(Append::new(order.clone(), 3, end))
            .await
            .unwrap();
        let moved = store.migrate_execution(&order).await.unwrap();
        assert_eq!(
            moved,
            Migrated::Moved {
                from: ShardId(1),
                to: ShardId(0),
                events: 4
            }
        );
        assert!(!is_on(&at.shards[1], &order).await);
        assert_eq!(
            kinds(store, &order).await,
            ["placed", "started", "shipped", "end"]
        );
    }
    let (at, order) = turned_round(shards()).await;
    let stale = Delete::new(order.clone()).with_expected(1);
    let error = at.store.delete(stale).await.unwrap_err();
    assert_eq!(
        *error.kind(),
        StoreErrorKind::SequenceConflict {
            expected: 1,
            actual: 2
        }
    );
    let deleted = at.store.delete(Delete::new(order.clone())).await.unwrap();
    assert_eq!(deleted.events, 2);
    assert_eq!(at.store.head(Head::new(order)).await.unwrap(), None);
}
