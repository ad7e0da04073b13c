//! Where requests go when nothing migrates, and what the store offers.

use std::sync::Arc;

use loom_shard_plan::{HashFunction, Placement, ShardId, ShardPlan, Topology};
use loom_sharded_store::{OpenError, ShardedStore};
use loom_spi::{
    AcquireFence, Append, Delete, EventStore, ExecutionId, Head, Limits, List, NewEvent, Operation,
    PlanLedger, Read, RouteFilter, StoreErrorKind,
};

use crate::support::{TestShard, append, event, id, open, shards, stores};

#[tokio::test]
async fn without_a_plan_an_execution_is_on_the_shard_of_its_hash_modulo_the_shards() {
    for count in [1, 2, 3, 4, 7] {
        let shards = shards(count);
        let store = ShardedStore::builder()
            .shards(stores(&shards))
            .open()
            .await
            .unwrap();
        assert_eq!(store.plan(), None);
        for n in 0..50 {
            let id = id(&format!("order-{n}"));
            append(&store, &id, 0, &["placed"]).await.unwrap();
            let expected = usize::try_from(id.route_hash().0 % count as u64).unwrap();
            for (place, shard) in shards.iter().enumerate() {
                let found = shard.inner.head(Head::new(id.clone())).await.unwrap();
                assert_eq!(found.is_some(), place == expected, "{id} of {count} shards");
            }
        }
    }
}

#[tokio::test]
async fn with_a_plan_an_execution_is_where_the_plan_says() {
    let shards = shards(3);
    let plan = ShardPlan::new(3).unwrap();
    let store = open(&shards, &plan).await;
    for n in 0..50 {
        let id = id(&format!("order-{n}"));
        append(&store, &id, 0, &["placed"]).await.unwrap();
        let Placement::Settled(expected) = plan.route_id(id.as_str()) else {
            panic!("{plan}")
        };
        for (place, shard) in shards.iter().enumerate() {
            let head = Head::new(id.clone()).with_epoch(store.epoch());
            let found = shard.inner.head(head).await.unwrap();
            assert_eq!(found.is_some(), place == usize::from(expected.get()));
        }
    }
}

#[tokio::test]
async fn a_settled_bucket_costs_one_call_and_no_look() {
    let shards = shards(2);
    let store = open(&shards, &ShardPlan::new(2).unwrap()).await;
    let id = id("order-7");
    shards.iter().for_each(|shard| drop(shard.take_calls()));
    append(&store, &id, 0, &["placed"]).await.unwrap();
    append(&store, &id, 1, &["shipped"]).await.unwrap();
    store.read(Read::new(id.clone(), 0, 10)).await.unwrap();
    store.head(Head::new(id.clone())).await.unwrap();
    store.delete(Delete::new(id)).await.unwrap();
    let mut calls: Vec<_> = shards.iter().map(|shard| shard.take_calls()).collect();
    calls.sort_by_key(Vec::len);
    assert!(calls[0].is_empty(), "{calls:?}");
    let expected = [
        Operation::Append,
        Operation::Append,
        Operation::Read,
        Operation::Head,
        Operation::Delete,
    ];
    assert_eq!(calls[1], expected);
    let stats = store.stats();
    assert_eq!((stats.looks, stats.cache_hits), (0, 0));
}

#[tokio::test]
async fn a_listing_of_one_bucket_asks_its_shard_alone() {
    let shards = shards(3);
    let plan = ShardPlan::new(3).unwrap();
    let store = open(&shards, &plan).await;
    shards.iter().for_each(|shard| drop(shard.take_calls()));
    // Twice as fine as the plan's buckets, so that it still is within one.
    let filter = RouteFilter::new(2 * 4096, 4096 + 17).unwrap();
    store.list(List::new(10).with_route(filter)).await.unwrap();
    let asked: Vec<bool> = shards
        .iter()
        .map(|shard| !shard.take_calls().is_empty())
        .collect();
    let Some(Placement::Settled(shard)) = plan.placement(17) else {
        panic!("{plan}")
    };
    let expected: Vec<bool> = (0..3).map(|place| place == shard.get()).collect();
    assert_eq!(asked, expected);
}

#[tokio::test]
async fn an_error_names_the_shard_that_it_came_from() {
    let shards = shards(2);
    let store = open(&shards, &ShardPlan::new(2).unwrap()).await;
    let on = |shard: u16| {
        let plan = store.plan().unwrap();
        (0..)
            .map(|n| id(&format!("order-{n}")))
            .find(|id| plan.route_id(id.as_str()) == Placement::Settled(ShardId(shard)))
            .unwrap()
    };
    for shard in [0, 1] {
        let id = on(shard);
        let error = store.read(Read::new(id.clone(), 0, 1)).await.unwrap_err();
        assert_eq!(*error.kind(), StoreErrorKind::NotFound);
        assert_eq!((error.shard(), error.execution()), (Some(shard), Some(&id)));
        shards[usize::from(shard)].down(true);
        let error = append(&store, &id, 0, &["placed"]).await.unwrap_err();
        assert!(matches!(error.kind(), StoreErrorKind::Unavailable { .. }));
        assert_eq!(error.shard(), Some(shard));
    }
    let error = store.list(List::new(1)).await.unwrap_err();
    assert!(error.shard().is_some(), "{error}");
}

#[tokio::test]
async fn a_capability_is_offered_only_if_every_shard_offers_it() {
    let plain = [TestShard::plain(), TestShard::without_ledger()];
    let store = ShardedStore::builder()
        .shards(stores(&plain))
        .open()
        .await
        .unwrap();
    let offered = store.capabilities();
    assert!(offered.fencing.is_none() && offered.branches.is_none());

    let full = shards(2);
    let store = ShardedStore::builder()
        .shards(stores(&full))
        .open()
        .await
        .unwrap();
    let offered = store.capabilities();
    assert!(offered.fencing.is_some() && offered.branches.is_some());
    assert!(
        offered.ledger.is_none(),
        "the ledger of a shard leads around the routing"
    );
    assert!(offered.relocation.is_none());
}

#[tokio::test]
async fn a_capability_is_routed_and_not_that_of_some_shard() {
    let shards = shards(2);
    let store = open(&shards, &ShardPlan::new(2).unwrap()).await;
    let mut on_shard = [0, 0];
    for n in 0..20 {
        let id = id(&format!("order-{n}"));
        append(&store, &id, 0, &["placed"]).await.unwrap();
        let fencing = store.capabilities().fencing.unwrap();
        let token = fencing
            .acquire_fence(AcquireFence::new(id.clone()))
            .await
            .unwrap();
        let refused = append(&store, &id, 1, &["late"]).await.unwrap_err();
        assert!(matches!(refused.kind(), StoreErrorKind::Fenced { .. }));
        let request = Append::new(id.clone(), 1, vec![event("shipped")]);
        store.append(request.with_fence(token)).await.unwrap();
        on_shard[usize::from(refused.shard().unwrap())] += 1;
    }
    assert!(on_shard.iter().all(|count| *count > 0), "{on_shard:?}");
}

#[tokio::test]
async fn the_limits_are_the_strictest_of_the_shards_and_hold_on_every_one() {
    let strict = Limits::default().with_max_payload_bytes(8);
    let few = Limits::default().with_max_append_events(2);
    let shards = [TestShard::with_limits(strict), TestShard::with_limits(few)];
    let store = ShardedStore::builder()
        .shards(stores(&shards))
        .open()
        .await
        .unwrap();
    let limits = store.capabilities().limits;
    assert_eq!((limits.max_payload_bytes, limits.max_append_events), (8, 2));
    for n in 0..10 {
        let id = id(&format!("order-{n}"));
        let long = Append::new(id.clone(), 0, vec![NewEvent::new("k", vec![0; 9])]);
        let many = Append::new(id, 0, vec![NewEvent::new("k", ""); 3]);
        for request in [long, many] {
            let error = store.append(request).await.unwrap_err();
            assert!(
                matches!(error.kind(), StoreErrorKind::InvalidArgument { .. }),
                "{error}"
            );
        }
    }
}

#[tokio::test]
async fn stores_that_do_not_make_up_one_store_are_refused() {
    let builder = || ShardedStore::builder().shards(stores(&shards(2)));
    let one = || TestShard::new() as Arc<dyn EventStore>;
    let plan = |shards| ShardPlan::new(shards).unwrap();

    let refused = ShardedStore::builder().open().await.unwrap_err();
    assert!(matches!(refused, OpenError::NoShards));
    let refused = builder().shard(1, one()).open().await.unwrap_err();
    assert!(matches!(
        refused,
        OpenError::DuplicateShard { shard: ShardId(1) }
    ));
    let same = TestShard::new();
    let twice = [Arc::clone(&same), same];
    let refused = ShardedStore::builder()
        .shards(stores(&twice))
        .open()
        .await
        .unwrap_err();
    assert!(matches!(
        refused,
        OpenError::SameStore {
            shard: ShardId(1),
            other: ShardId(0)
        }
    ));
    let refused = builder().shard(3, one()).open().await.unwrap_err();
    assert!(matches!(
        refused,
        OpenError::UnplannedIds { found: ShardId(3) }
    ));
    let refused = builder().plan(plan(3)).open().await.unwrap_err();
    assert!(matches!(
        refused,
        OpenError::MissingShard { shard: ShardId(2) }
    ));
    let refused = builder()
        .shard(2, TestShard::without_ledger())
        .open()
        .await
        .unwrap_err();
    assert!(matches!(
        refused,
        OpenError::MixedLedgers {
            with: ShardId(0),
            without: ShardId(2)
        }
    ));
    let fnv = ShardPlan::first(&Topology::equal(2), 64, HashFunction::Fnv1a64).unwrap();
    let refused = builder().plan(fnv).open().await.unwrap_err();
    assert!(matches!(
        refused,
        OpenError::HashFunction {
            found: HashFunction::Fnv1a64
        }
    ));
}

#[tokio::test]
async fn a_first_plan_that_would_look_elsewhere_for_what_is_there_is_refused() {
    let shards = shards(3);
    let unplanned = ShardedStore::builder()
        .shards(stores(&shards))
        .open()
        .await
        .unwrap();
    let ids: Vec<ExecutionId> = (0..30).map(|n| id(&format!("order-{n}"))).collect();
    for id in &ids {
        append(&unplanned, id, 0, &["placed"]).await.unwrap();
    }
    let other = ShardPlan::new(3).unwrap();
    let refused = ShardedStore::builder()
        .shards(stores(&shards))
        .plan(other)
        .open()
        .await
        .unwrap_err();
    assert!(
        matches!(refused, OpenError::ReroutesUnplanned { shards: 3, .. }),
        "{refused}"
    );
    assert_eq!(shards[0].inner.current().await.unwrap(), None);

    // One that leaves out a shard which is not empty, and one that leaves out an empty one.
    let fewer = ShardPlan::adopting(2).unwrap();
    let builder = ShardedStore::builder().shards(stores(&shards)).plan(fewer);
    let refused = builder.open().await.unwrap_err();
    assert!(matches!(
        refused,
        OpenError::ReroutesUnplanned {
            shard: ShardId(2),
            ..
        }
    ));
    let same = ShardPlan::adopting(3).unwrap();
    let builder = ShardedStore::builder()
        .shards(stores(&shards))
        .shard(3, TestShard::new());
    let planned = builder.plan(same).open().await.unwrap();
    for id in &ids {
        assert!(planned.head(Head::new(id.clone())).await.unwrap().is_some());
        // The process that predates the plan goes on under its first epoch.
        append(&unplanned, id, 1, &["shipped"]).await.unwrap();
    }
}
