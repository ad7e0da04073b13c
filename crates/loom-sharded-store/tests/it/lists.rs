//! Listing over many shards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::{FutureExt as _, TryStreamExt as _};
use loom_shard_plan::{RebalanceOptions, ShardPlan};
use loom_sharded_store::ShardedStore;
use loom_spi::{
    Append, Delete, EventStore, EventStoreExt as _, ExecutionId, ExecutionState, List, ListCursor,
    Operation, RouteFilter,
};
use proptest::prelude::*;

use crate::support::{Migrating, TestShard, append, closed, event, id, open, stores};

async fn all(store: &dyn EventStore, request: List) -> Vec<ExecutionId> {
    let executions: Vec<_> = store.list_all(request).try_collect().await.unwrap();
    executions
        .into_iter()
        .map(|execution| execution.id)
        .collect()
}

/// In list order, as any single store would have them.
fn in_list_order(ids: impl IntoIterator<Item = ExecutionId>) -> Vec<ExecutionId> {
    let mut ids: Vec<_> = ids.into_iter().collect();
    ids.sort_by_key(|id| (id.route_hash().index_key(), id.clone()));
    ids
}

#[tokio::test]
async fn a_copy_where_the_plan_does_not_look_is_not_listed() {
    let shards = crate::support::shards(2);
    let store = open(&shards, &crate::support::on_shard_0()).await;
    append(&store, &id("order-7"), 0, &["placed"])
        .await
        .unwrap();
    let stray = Append::new(id("stray"), 0, vec![event("placed")]).with_epoch(store.epoch());
    // Shard 1 is not part of the plan, and has no plan.
    shards[1]
        .inner
        .append(stray.with_epoch(None))
        .await
        .unwrap();
    assert_eq!(all(&store, List::new(10)).await, [id("order-7")]);
}

#[tokio::test]
async fn the_state_is_that_of_the_copy_that_counts() {
    let at = Migrating::new().await;
    let order = id("order-7");
    // What an interrupted move of an execution that was not started leaves behind.
    append(at.source(), &order, 0, &["placed"]).await.unwrap();
    append(at.destination(), &order, 0, &["placed"])
        .await
        .unwrap();
    let end = vec![event("end").terminal()];
    at.store
        .append(Append::new(order.clone(), 1, end))
        .await
        .unwrap();
    let listed = |state| List::new(10).with_state(state);
    assert_eq!(all(&at.store, listed(ExecutionState::Open)).await, []);
    assert_eq!(
        all(&at.store, listed(ExecutionState::Closed)).await,
        [order]
    );
    assert_eq!(at.store.stats().both_sides_differ, 0);
}

/// S11.
#[tokio::test]
async fn an_execution_that_moves_while_a_page_is_read_is_listed_once() {
    let at = Migrating::new().await;
    let ids: Vec<ExecutionId> = (0..20).map(|n| id(&format!("order-{n}"))).collect();
    for id in &ids {
        closed(at.source(), id, &["placed"]).await;
    }
    let expected = in_list_order(ids.clone());
    let other = Arc::new(open(&at.shards, &at.plan).await);
    for (shard, when) in [
        (0, "before the source is read"),
        (1, "before the destination is"),
    ] {
        let moved = expected[shard].clone();
        let other = Arc::clone(&other);
        at.shards[shard].before(Operation::List, move || {
            other
                .migrate_execution(&moved)
                .now_or_never()
                .unwrap()
                .unwrap();
        });
        assert_eq!(all(&at.store, List::new(7)).await, expected, "{when}");
    }
    // Between two pages, at every place.
    for (place, moved) in ids.iter().enumerate().skip(2) {
        let first = at.store.list(List::new(place)).await.unwrap();
        other.migrate_execution(moved).await.unwrap();
        let rest = all(&at.store, List::new(100).with_cursor(first.next)).await;
        let listed = first.executions.into_iter().map(|execution| execution.id);
        assert_eq!(listed.chain(rest).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn a_shard_that_is_both_source_and_destination_is_listed_whole() {
    // Two of three shards trade buckets: what one gives the other gets, in both directions at once.
    let shards: Vec<_> = (0..3).map(|_| TestShard::new()).collect();
    let plan = ShardPlan::with_buckets(3, 12).unwrap();
    let store = open(&shards, &plan).await;
    let mut ids: Vec<ExecutionId> = (0..60).map(|n| id(&format!("order-{n}"))).collect();
    for id in &ids {
        append(&store, id, 0, &["placed"]).await.unwrap();
    }
    let trading = plan
        .rebalanced(2, RebalanceOptions::default().allow_shrink(true))
        .unwrap();
    store.publish(trading.clone()).await.unwrap();
    let reverted = trading
        .migrating()
        .map(|migration| migration.bucket)
        .take(2);
    store
        .publish(trading.reverted_all(reverted).unwrap())
        .await
        .unwrap();
    for n in 60..120 {
        ids.push(id(&format!("order-{n}")));
        append(&store, &ids[n], 0, &["placed"]).await.unwrap();
    }
    for limit in [1, 7, 500] {
        assert_eq!(
            all(&store, List::new(limit)).await,
            in_list_order(ids.clone())
        );
    }
}

/// One execution of a property.
#[derive(Clone, Debug)]
struct Placed {
    name: u16,
    closed: bool,
    /// On the source, the destination, or both.
    on: u8,
}

fn placed() -> impl Strategy<Value = Placed> {
    (0..60_u16, any::<bool>(), 0..3_u8).prop_map(|(name, closed, on)| Placed { name, closed, on })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_listing_is_complete_in_order_and_without_repeats_however_pages_fall(
        placed in proptest::collection::vec(placed(), 0..40),
        limit in 1..12_usize,
        pages in (1..6_usize, 1..6_usize),
        state in prop_oneof![
            Just(None),
            Just(Some(ExecutionState::Open)),
            Just(Some(ExecutionState::Closed)),
        ],
        modulus in 1..9_u64,
        start in 0..70_u16,
    ) {
        let check = async {
            let shards =
                vec![TestShard::with_short_pages(pages.0), TestShard::with_short_pages(pages.1)];
            let at = Migrating::over(shards).await;
            let mut expected = BTreeMap::new();
            for Placed { name, closed, on } in &placed {
                let id = id(&format!("order-{name}"));
                if expected.contains_key(&id) {
                    continue;
                }
                let mut only = event("placed");
                only.terminal = *closed;
                for shard in 0..2 {
                    if *on == 2 || *on == shard {
                        let create = Append::new(id.clone(), 0, vec![only.clone()]);
                        at.shards[usize::from(shard)].append(create).await.unwrap();
                    }
                }
                expected.insert(id, *closed);
            }
            let filter = RouteFilter::new(modulus, modulus - 1).unwrap();
            let cursor = (start < 60).then(|| ListCursor::after(&id(&format!("order-{start}"))));
            let after = cursor.as_ref().map(|cursor| {
                let (key, id) = cursor.position();
                (key, id.clone())
            });
            let expected = in_list_order(expected.into_iter().filter_map(|(id, closed)| {
                let is = if closed { ExecutionState::Closed } else { ExecutionState::Open };
                let place = (id.route_hash().index_key(), id.clone());
                let wanted = state.is_none_or(|state| state == is)
                    && filter.matches(id.route_hash())
                    && after.as_ref().is_none_or(|after| place > *after);
                wanted.then_some(id)
            }));
            let request =
                List::new(limit).with_route(filter).with_state(state).with_cursor(cursor);
            (all(&at.store, request).await, expected)
        };
        let (found, expected) = check.now_or_never().unwrap();
        prop_assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn a_listing_goes_on_over_a_change_of_plan() {
    let shards: Vec<_> = (0..5).map(|_| TestShard::new()).collect();
    let store = ShardedStore::builder()
        .shards(stores(&shards))
        .plan(ShardPlan::new(4).unwrap())
        .open()
        .await
        .unwrap();
    let ids: Vec<ExecutionId> = (0..300).map(|n| id(&format!("order-{n}"))).collect();
    for id in &ids {
        closed(&store, id, &["placed"]).await;
    }
    let mut listed = Vec::new();
    let mut cursor = None;
    for step in 0.. {
        let page = store.list(List::new(20).with_cursor(cursor)).await.unwrap();
        listed.extend(page.executions.into_iter().map(|execution| execution.id));
        let plan = store.plan().unwrap();
        match step {
            2 => {
                let grown = plan.rebalanced(5, RebalanceOptions::default()).unwrap();
                store.publish(grown).await.unwrap();
            }
            5 => {
                for id in &ids {
                    store.migrate_execution(id).await.unwrap();
                }
            }
            8 => drop(store.settle_drained().await.unwrap()),
            _ => {}
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert!(!store.plan().unwrap().is_migrating());
    assert_eq!(listed, in_list_order(ids));
    let distinct: BTreeSet<_> = listed.iter().collect();
    assert_eq!(distinct.len(), 300);
    store.delete(Delete::new(id("order-0"))).await.unwrap();
    assert_eq!(all(&store, List::new(50)).await.len(), 299);
}
