//! Finding, reading, changing and moving executions while their buckets migrate.

use futures_util::FutureExt as _;
use loom_sharded_store::{DrainOptions, MigrateError, Migrated};
use loom_spi::{Append, Delete, EventStore, ExecutionId, Head, List, Read, StoreErrorKind};

use super::{Deployment, acquire};
use crate::support::{Call, Fault, TestShard, append, event, id, kinds};

#[tokio::test]
async fn s1_a_source_that_cannot_be_reached_is_an_error_that_names_it_and_never_absence() {
    let at = Deployment::new().await;
    let order = id("order-7");
    append(&at.store, &order, 0, &["placed"]).await.unwrap();
    at.grow().await;
    at.shards[0].down(true);
    let read = at
        .store
        .read(Read::new(order.clone(), 0, 9))
        .await
        .unwrap_err();
    let created = append(&at.store, &order, 0, &["again"]).await.unwrap_err();
    let deleted = at
        .store
        .delete(Delete::new(order.clone()))
        .await
        .unwrap_err();
    for error in [read, created, deleted] {
        assert!(
            matches!(error.kind(), StoreErrorKind::Unavailable { .. }),
            "{error}"
        );
        assert_eq!(error.shard(), Some(0), "{error}");
    }
    at.shards[0].down(false);
    assert_eq!(kinds(&at.store, &order).await, ["placed"]);
    assert_eq!(at.records(&order).await, [(0, false)]);
}

#[tokio::test]
async fn s2_different_logs_on_both_sides_are_served_from_the_destination_counted_and_moved_by_nobody()
 {
    let at = Deployment::new().await;
    let order = id("order-7");
    append(&at.store, &order, 0, &["placed"]).await.unwrap();
    at.grow().await;
    // Somebody has written around the protocol.
    let create = Append::new(order.clone(), 0, vec![event("other")]).with_epoch(at.store.epoch());
    at.shards[1].inner.append(create).await.unwrap();

    assert_eq!(kinds(&at.store, &order).await, ["other"]);
    let refused = at.store.migrate_execution(&order).await.unwrap_err();
    assert!(matches!(refused, MigrateError::Differs { .. }), "{refused}");
    let drained = at
        .store
        .drain(&DrainOptions::new().with_live(true), |_| {})
        .await
        .unwrap();
    assert_eq!((drained.moved, drained.stuck), (0, 1));
    assert_eq!(
        at.records(&order).await,
        [(0, false), (1, false)],
        "as they were"
    );
    assert_eq!(at.store.stats().both_sides_differ, 2);
    let refused = at
        .store
        .delete(Delete::new(order.clone()))
        .await
        .unwrap_err();
    assert!(
        matches!(refused.kind(), StoreErrorKind::RecordConflict { .. }),
        "{refused}"
    );
}

#[tokio::test]
async fn s11_a_listing_while_executions_move_has_each_once() {
    let at = Deployment::new().await;
    let ids: Vec<ExecutionId> = (0..40).map(|n| id(&format!("order-{n}"))).collect();
    for id in &ids {
        append(&at.store, id, 0, &["placed"]).await.unwrap();
    }
    at.grow().await;
    let mover = at.node().await;
    let (mut listed, mut cursor, mut moving) = (Vec::new(), None, ids.iter());
    loop {
        let next = moving.next().cloned();
        let mover = mover.clone();
        at.shards[1].before(Call::List, move || {
            // After the sources were read, before the destinations are.
            if let Some(id) = next {
                mover
                    .migrate_execution(&id)
                    .now_or_never()
                    .unwrap()
                    .unwrap();
            }
        });
        let page = at
            .store
            .list(List::new(3).with_cursor(cursor))
            .await
            .unwrap();
        listed.extend(page.executions.into_iter().map(|execution| execution.id));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let mut sorted = listed.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!((listed.len(), sorted.len()), (40, 40));
}

#[tokio::test]
async fn s12_a_reader_that_pages_through_a_log_while_it_moves_and_goes_on_gets_all_of_it() {
    let at = Deployment::new().await;
    let order = id("order-7");
    append(&at.store, &order, 0, &["a", "b", "c", "d", "e"])
        .await
        .unwrap();
    at.grow().await;
    for step in [Call::Seal, Call::Import, Call::Retire] {
        let (node, moved) = (at.node().await, order.clone());
        let shard = usize::from(step == Call::Import);
        let reader = at.store.clone();
        at.shards[shard].before(step, move || {
            let read = kinds(&reader, &moved).now_or_never().unwrap();
            assert_eq!(read[..5], ["a", "b", "c", "d", "e"], "before {step:?}");
        });
        node.migrate_execution(&order).await.unwrap();
        assert_eq!(kinds(&at.store, &order).await, ["a", "b", "c", "d", "e"]);
        // Back again, for the next step.
        let all: Vec<u32> = (0..8).collect();
        at.store.revert(all.clone()).await.unwrap();
        at.store.migrate_execution(&order).await.unwrap();
        at.store.revert(all).await.unwrap();
    }
}

#[tokio::test]
async fn s13_a_writer_that_holds_a_fence_is_judged_by_it_on_the_destination() {
    let at = Deployment::new().await;
    let order = id("order-7");
    append(&at.store, &order, 0, &["placed"]).await.unwrap();
    let first = acquire(&at.store, &order).await;
    let second = acquire(&at.store, &order).await;
    at.grow().await;
    at.store.migrate_execution(&order).await.unwrap();
    let write = |fence| Append::new(order.clone(), 1, vec![event("paid")]).with_fence(fence);
    let refused = at.store.append(write(first)).await.unwrap_err();
    assert_eq!(
        *refused.kind(),
        StoreErrorKind::Fenced {
            presented: Some(first),
            current: second
        }
    );
    at.store.append(write(second)).await.unwrap();
    assert!(acquire(&at.store, &order).await > second);
}

#[tokio::test]
async fn s13_a_fence_from_before_the_execution_holds_although_it_is_created_after_the_growth() {
    let at = Deployment::new().await;
    let order = id("order-7");
    let older = acquire(&at.store, &order).await;
    at.grow().await;
    let newer = acquire(&at.store, &order).await;
    assert!(newer > older);
    // The older holder wakes up.
    let create = |fence| Append::new(order.clone(), 0, vec![event("placed")]).with_fence(fence);
    let refused = at.store.append(create(older)).await.unwrap_err();
    assert!(
        matches!(refused.kind(), StoreErrorKind::Fenced { .. }),
        "{refused}"
    );
    at.store.append(create(newer)).await.unwrap();
    assert_eq!(at.records(&order).await, [(1, false)]);
}

#[tokio::test]
async fn s15_a_move_that_is_interrupted_at_any_step_and_repeated_by_anybody_comes_to_one_copy() {
    let steps = [
        (0, Call::Inspect),
        (1, Call::Inspect),
        (0, Call::Seal),
        (0, Call::Read),
        (1, Call::Import),
        (0, Call::Retire),
    ];
    for (shard, call) in steps {
        for takes_effect in [false, true] {
            let at = Deployment::new().await;
            let order = id("order-7");
            append(&at.store, &order, 0, &["placed", "paid"])
                .await
                .unwrap();
            let token = acquire(&at.store, &order).await;
            at.grow().await;
            at.shards[shard].fault(Fault {
                call,
                after: 0,
                takes_effect,
            });
            at.store.migrate_execution(&order).await.unwrap_err();
            // Whatever has happened, it is served, also for changes, by whoever comes.
            let other = at.node().await;
            assert_eq!(
                kinds(&other, &order).await,
                ["placed", "paid"],
                "{call:?} {takes_effect}"
            );
            let write = Append::new(order.clone(), 2, vec![event("shipped")]).with_fence(token);
            other.append(write).await.unwrap();
            assert_eq!(
                kinds(&at.store, &order).await,
                ["placed", "paid", "shipped"]
            );
            at.store.migrate_execution(&order).await.unwrap();
            assert_eq!(
                at.records(&order).await,
                [(1, false)],
                "{call:?} {takes_effect}"
            );
            at.drain().await;
        }
    }
}

#[tokio::test]
async fn s15_what_a_called_off_move_left_sealed_is_changed_and_removed_as_if_nothing_had_been() {
    // Sealed on the source, and: imported or not; then the growth is called off, and settled where it was or not.
    for (imported, settled) in [(false, false), (false, true), (true, false), (true, true)] {
        let at = Deployment::new().await;
        let order = id("order-7");
        append(&at.store, &order, 0, &["placed"]).await.unwrap();
        at.grow().await;
        at.shards[1].fault(Fault {
            call: Call::Import,
            after: 0,
            takes_effect: imported,
        });
        at.store.migrate_execution(&order).await.unwrap_err();
        at.store.revert((0..8).collect::<Vec<u32>>()).await.unwrap();
        if settled {
            at.drain().await;
        }
        append(&at.node().await, &order, 1, &["paid"])
            .await
            .unwrap();
        assert_eq!(
            kinds(&at.store, &order).await,
            ["placed", "paid"],
            "{imported} {settled}"
        );
        at.drain().await;
        assert_eq!(
            at.records(&order).await,
            [(0, false)],
            "{imported} {settled}"
        );
    }
}

#[tokio::test]
async fn s15_two_sealed_copies_that_a_reader_saw_at_two_moments_are_not_absence() {
    let at = Deployment::new().await;
    let order = id("order-7");
    append(&at.store, &order, 0, &["placed"]).await.unwrap();
    at.grow().await;
    at.shards[0].fault(Fault::fails(Call::Retire));
    at.store.migrate_execution(&order).await.unwrap_err();
    // The sealed copy on shard 0 is a leftover now, and shard 0 the destination.
    at.store.revert((0..8).collect::<Vec<u32>>()).await.unwrap();
    assert_eq!(at.records(&order).await, [(0, true), (1, false)]);
    let (node, moved) = (at.node().await, order.clone());
    at.shards[0].fault(Fault::fails(Call::Import));
    at.shards[1].before(Call::Head, move || {
        // The reader has seen the leftover, which goes, and then sees the other one, which is sealed.
        let stopped = node.migrate_execution(&moved).now_or_never().unwrap();
        assert!(
            matches!(stopped, Err(MigrateError::Store(_))),
            "{stopped:?}"
        );
    });
    assert_eq!(kinds(&at.store, &order).await, ["placed"]);
    assert_eq!(at.records(&order).await, [(1, true)]);
}

#[tokio::test]
async fn s20_hundreds_of_executions_cost_two_point_reads_each_and_then_cache_hits() {
    let at = Deployment::new().await;
    let ids: Vec<ExecutionId> = (0..300).map(|n| id(&format!("order-{n}"))).collect();
    for id in &ids {
        append(&at.store, id, 0, &["placed"]).await.unwrap();
    }
    at.grow().await;
    for id in ids.iter().step_by(2) {
        at.store.migrate_execution(id).await.unwrap();
    }
    let node = at.node().await;
    for shard in &at.shards {
        shard.take_calls();
    }
    for id in &ids {
        node.read(Read::new(id.clone(), 0, 9)).await.unwrap();
    }
    let looks = |shard: &TestShard| {
        let calls = shard.take_calls();
        calls.iter().filter(|call| **call == Call::Head).count()
    };
    let first = at.shards.iter().map(|shard| looks(shard)).sum::<usize>();
    assert!(first <= 600, "{first} looks for 300 executions");
    let before = node.stats();
    for id in &ids {
        node.read(Read::new(id.clone(), 0, 9)).await.unwrap();
    }
    assert_eq!(at.shards.iter().map(|shard| looks(shard)).sum::<usize>(), 0);
    assert_eq!(node.stats().cache_hits - before.cache_hits, 300);
}

#[tokio::test]
async fn a_delete_between_any_two_steps_of_a_move_is_not_undone_by_the_mover() {
    for (shard, call) in [
        (0, Call::Seal),
        (0, Call::Read),
        (1, Call::Import),
        (0, Call::Retire),
    ] {
        let at = Deployment::new().await;
        let order = id("order-7");
        append(&at.store, &order, 0, &["placed"]).await.unwrap();
        at.grow().await;
        let (node, deleted) = (at.node().await, order.clone());
        at.shards[shard].before(call, move || {
            let delete = node.delete(Delete::new(deleted));
            delete.now_or_never().unwrap().unwrap();
        });
        // It is gone, or the mover finds that out.
        match at.store.migrate_execution(&order).await {
            Ok(Migrated::Moved { .. }) => {}
            Err(MigrateError::Store(error)) => {
                assert_eq!(*error.kind(), StoreErrorKind::NotFound, "{call:?}");
            }
            other => panic!("{call:?}: {other:?}"),
        }
        assert_eq!(
            at.store.head(Head::new(order.clone())).await.unwrap(),
            None,
            "{call:?}"
        );
        append(&at.store, &order, 0, &["again"]).await.unwrap();
        at.drain().await;
        assert_eq!(kinds(&at.store, &order).await, ["again"], "{call:?}");
    }
}

#[tokio::test]
async fn what_was_deleted_under_this_plan_and_came_back_from_a_backup_stays_deleted() {
    let at = Deployment::new().await;
    let order = id("order-7");
    append(&at.store, &order, 0, &["placed"]).await.unwrap();
    at.grow().await;
    at.store.migrate_execution(&order).await.unwrap();
    at.store.delete(Delete::new(order.clone())).await.unwrap();
    let back = Append::new(order.clone(), 0, vec![event("placed")]).with_epoch(at.store.epoch());
    at.shards[0].inner.append(back).await.unwrap();
    at.drain().await;
    assert!(at.records(&order).await.is_empty());
    append(&at.store, &order, 0, &["anew"]).await.unwrap();
}

#[tokio::test]
async fn a_repair_of_a_shard_that_is_in_use_leaves_to_the_movers_what_is_theirs() {
    for shard in 0..2 {
        let at = Deployment::new().await;
        let order = id("order-7");
        append(&at.store, &order, 0, &["placed"]).await.unwrap();
        at.grow().await;
        let (node, call) = (at.node().await, Call::Import);
        let (repaired, seen) = (order.clone(), std::sync::Arc::clone(&at.shards[0]));
        at.shards[1].before(call, move || {
            // The record is sealed on the source, and on its way.
            let repair = node.repair(shard).now_or_never().unwrap().unwrap();
            repair.run(|_| {}).now_or_never().unwrap().unwrap();
            let head = Head::new(repaired).with_epoch(node.epoch());
            let head = seen.inner.head(head).now_or_never().unwrap().unwrap();
            assert!(head.unwrap().sealed);
        });
        at.store.migrate_execution(&order).await.unwrap();
        assert_eq!(at.records(&order).await, [(1, false)]);
        assert_eq!(kinds(&at.store, &order).await, ["placed"]);
    }
}
