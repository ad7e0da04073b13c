//! Faults that users of comparable systems met, as situations of live executions on shards that can seal records.
//!
//! The numbers are those of the project's list of incidents. Those about the arithmetic of plans (S9, S10, S16, S17) are
//! tests of `loom-shard-plan`; those that need real processes are tests of the command line.

use std::sync::Arc;

use futures_util::FutureExt as _;
use loom_shard_plan::{Placement, ShardId, ShardPlan};
use loom_sharded_store::{DrainOptions, MigrateError, Migrated, PlanChangeError, ShardedStore};
use loom_spi::{
    AcquireFence, Append, Delete, EventStore, ExecutionId, Head, List, PlanLedger as _, Read,
    Records, Relocation as _, StoreErrorKind,
};

use crate::support::{Call, Fault, TestShard, all_to, append, event, id, kinds, on_shard_0, open};

/// Two shards that can seal records, everything on the first, and a node that makes the plans.
struct Deployment {
    shards: Vec<Arc<TestShard>>,
    store: ShardedStore,
}

impl Deployment {
    async fn new() -> Self {
        let shards = vec![TestShard::relocating(), TestShard::relocating()];
        let store = open(&shards, &on_shard_0()).await;
        Self { shards, store }
    }

    /// Another process.
    async fn node(&self) -> ShardedStore {
        open(&self.shards, &on_shard_0()).await
    }

    /// Sends every bucket on its way to the second shard.
    async fn grow(&self) {
        let plan = self.store.plan().unwrap();
        self.store.publish(all_to(&plan, 1)).await.unwrap();
    }

    /// Which shards hold a record of `id`, and whether it is sealed there.
    async fn records(&self, id: &ExecutionId) -> Vec<(u16, bool)> {
        let mut found = Vec::new();
        for (number, shard) in (0..).zip(&self.shards) {
            let epoch = shard.inner.current().await.unwrap().map(|plan| plan.epoch);
            let page = shard
                .inner
                .records(Records::new(1000).with_epoch(epoch))
                .await
                .unwrap();
            let of = page.records.into_iter().filter(|record| record.id == *id);
            found.extend(of.map(|record| (number, record.sealed)));
        }
        found
    }

    /// Moves what is on the sources and settles, until nothing migrates.
    async fn drain(&self) {
        let options = DrainOptions::new().with_live(true);
        let drained = self.store.drain(&options, |_| {}).await.unwrap();
        assert_eq!(
            (drained.stuck, drained.failed_buckets),
            (0, 0),
            "{drained:?}"
        );
        assert!(!self.store.plan().unwrap().is_migrating());
    }
}

async fn acquire(store: &ShardedStore, id: &ExecutionId) -> loom_spi::FenceToken {
    let fencing = store.capabilities().fencing.unwrap();
    fencing
        .acquire_fence(AcquireFence::new(id.clone()))
        .await
        .unwrap()
}

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
async fn s3_a_second_rebalance_while_buckets_migrate_is_refused_naming_them_and_changes_nothing() {
    let at = Deployment::new().await;
    at.grow().await;
    let before = at.store.epoch();
    let plan = at.store.plan().unwrap();
    let topology = loom_shard_plan::Topology::of(&plan)
        .joining(ShardId(2), 1)
        .unwrap();
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
    assert_eq!(left.executions, [endless.clone()]);
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
