//! What the tasks of a run do.

use std::collections::BTreeSet;

use futures_util::TryStreamExt as _;
use loom_shard_plan::{ShardId, ShardPlan, Topology};
use loom_sharded_store::{MigrateError, PlanChangeError, ShardedStore};
use loom_spi::{
    AcquireFence, Append, Children, Delete, EventStore, EventStoreExt as _, ExecutionId,
    FenceToken, Head, List, NewEvent, Read, RecordLineage, StoreErrorKind,
};

use super::model::Log;
use super::{SHARDS, World};
use crate::support::{Random, event, id};

/// Works on executions of its own, and compares every answer with the model.
pub(crate) async fn write(world: &World, writer: u64, mut random: Random) {
    let own: Vec<ExecutionId> = (0..4)
        .map(|n| id(&format!("writer-{writer}/{n}")))
        .collect();
    for step in 0..40 {
        let id = random.one_of(&own).clone();
        let node = world.node(&mut random).clone();
        let it = world.model.borrow_mut().of(&id).clone();
        match random.below(9) {
            0..=2 => append(world, &node, &id, step, &mut random).await,
            3 => conflict(&node, &id, it.log.as_ref(), it.fence, &mut random).await,
            4 => read(&node, &id, it.log.as_ref(), &mut random).await,
            5 => {
                let head = node.head(Head::new(id.clone())).await.unwrap();
                let found = head.map(|head| (head.next_sequence, head.is_closed()));
                let known = it.log.map(|log| (log.kinds.len() as u64, log.closed));
                assert_eq!(found, known, "{id}");
            }
            6 if world.scenario.deletes => delete(world, &node, &id).await,
            7 if world.scenario.fences => acquire(world, &node, &id).await,
            8 if world.scenario.lineage => lineage(world, &node, &id, step).await,
            _ => {}
        }
    }
}

/// Creates the execution or appends to it, and closes it now and then.
async fn append(
    world: &World,
    node: &ShardedStore,
    id: &ExecutionId,
    step: usize,
    random: &mut Random,
) {
    let it = {
        let mut model = world.model.borrow_mut();
        model.of(id).begun = true;
        model.of(id).clone()
    };
    let expected = it.log.as_ref().map_or(0, |log| log.kinds.len() as u64);
    let mut events = vec![event(&format!("step {step}"))];
    if world.scenario.nodes > 1 && expected == 0 {
        // Another process may not move it before it has started.
        events.push(event("started"));
    }
    let closes = random.below(3) == 0;
    if closes {
        events.push(event("end").terminal());
    }
    let kinds: Vec<String> = events
        .iter()
        .map(|event: &NewEvent| event.kind.to_string())
        .collect();
    let request = Append::new(id.clone(), expected, events).with_fence(it.fence);
    let answer = node.append(request).await;
    if it.log.as_ref().is_some_and(|log| log.closed) {
        let error = answer.unwrap_err();
        assert_eq!(
            *error.kind(),
            StoreErrorKind::Closed {
                next_sequence: expected
            },
            "{id}"
        );
        return;
    }
    let answer = answer.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(answer.next_sequence, expected + kinds.len() as u64);
    let mut model = world.model.borrow_mut();
    let log = model.of(id).log.get_or_insert_default();
    log.kinds.extend(kinds);
    log.closed = closes;
}

/// An append that has to be refused, without a token or at a wrong place.
async fn conflict(
    node: &ShardedStore,
    id: &ExecutionId,
    log: Option<&Log>,
    fence: Option<FenceToken>,
    random: &mut Random,
) {
    let actual = log.map_or(0, |log| log.kinds.len() as u64);
    let expected = actual + 1 + random.below(3);
    let request = Append::new(id.clone(), expected, vec![event("wrong")]);
    let presented = fence.filter(|_| random.below(2) == 0);
    let error = node
        .append(request.with_fence(presented))
        .await
        .unwrap_err();
    let right = match fence {
        Some(current) if presented.is_none() => StoreErrorKind::Fenced { presented, current },
        _ if log.is_some_and(|log| log.closed) => StoreErrorKind::Closed {
            next_sequence: actual,
        },
        _ => StoreErrorKind::SequenceConflict { expected, actual },
    };
    assert_eq!(*error.kind(), right, "{id}");
}

async fn read(node: &ShardedStore, id: &ExecutionId, log: Option<&Log>, random: &mut Random) {
    let from = random.below(4);
    let answer = node.read(Read::new(id.clone(), from, 3)).await;
    let Some(log) = log else {
        assert_eq!(
            *answer.unwrap_err().kind(),
            StoreErrorKind::NotFound,
            "{id}"
        );
        return;
    };
    let page = answer.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(page.head.next_sequence, log.kinds.len() as u64, "{id}");
    let found: Vec<_> = page
        .events
        .iter()
        .map(|event| event.kind.to_string())
        .collect();
    let skipped = usize::try_from(from).unwrap();
    let known: Vec<_> = log.kinds.iter().skip(skipped).take(3).cloned().collect();
    assert_eq!(found, known, "{id}");
}

async fn delete(world: &World, node: &ShardedStore, id: &ExecutionId) {
    let existed = {
        let mut model = world.model.borrow_mut();
        let it = model.of(id);
        it.deletions += 1;
        it.in_doubt = true;
        it.log.as_ref().map(|log| log.kinds.len() as u64)
    };
    let answer = node.delete(Delete::new(id.clone())).await;
    match existed {
        Some(events) => assert_eq!(answer.unwrap().events, events, "{id}"),
        None => assert_eq!(
            *answer.unwrap_err().kind(),
            StoreErrorKind::NotFound,
            "{id}"
        ),
    }
    let mut model = world.model.borrow_mut();
    model.of(id).log = None;
    model.of(id).in_doubt = false;
}

async fn acquire(world: &World, node: &ShardedStore, id: &ExecutionId) {
    let it = world.model.borrow_mut().of(id).clone();
    if world.scenario.settles && it.log.is_none() {
        // Without its log it would be overlooked when the bucket settles.
        return;
    }
    if world.scenario.nodes > 1 && it.log.as_ref().is_none_or(|log| log.closed) {
        // Another process may be moving it, and nobody may work on it meanwhile.
        return;
    }
    let fencing = node.capabilities().fencing.unwrap();
    let token = fencing.acquire_fence(AcquireFence::new(id.clone())).await;
    let token = token.unwrap_or_else(|error| panic!("{error}"));
    assert!(Some(token) > it.fence, "{id}: {token} after {:?}", it.fence);
    world.model.borrow_mut().of(id).fence = Some(token);
}

async fn lineage(world: &World, node: &ShardedStore, id: &ExecutionId, step: usize) {
    let it = world.model.borrow_mut().of(id).clone();
    let branches = node.capabilities().branches.unwrap();
    // Another process may be moving what is closed, and nobody may work on it meanwhile.
    let quiet = world.scenario.nodes == 1 || it.log.is_some_and(|log| !log.closed);
    if quiet {
        let child = format!("{id}/{step}");
        let edge = RecordLineage::new(id.clone(), crate::support::id(&child), "a".to_owned());
        branches
            .record_lineage(edge)
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        world.model.borrow_mut().of(id).children.push(child);
    }
    let found = branches.children(Children::new(id.clone())).await.unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|branch| branch.child.to_string())
        .collect();
    assert_eq!(found, world.model.borrow_mut().of(id).children, "{id}");
}

/// Moves what can be moved.
pub(crate) async fn move_executions(world: &World, mut random: Random) {
    for _ in 0..80 {
        let ids = world.model.borrow().ids();
        if ids.is_empty() {
            continue;
        }
        let id = random.one_of(&ids).clone();
        match world.node(&mut random).migrate_execution(&id).await {
            Ok(_) | Err(MigrateError::Live { .. } | MigrateError::Held { .. }) => {}
            Err(MigrateError::Store(error)) if *error.kind() == StoreErrorKind::NotFound => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Grows, shrinks, turns round, settles and splits.
pub(crate) async fn plan(world: &World, mut random: Random) {
    for _ in 0..10 {
        let node = world.node(&mut random);
        let plan = ShardPlan::clone(&node.plan().unwrap());
        let migrating: Vec<u32> = plan.migrating().map(|migration| migration.bucket).collect();
        let changed = if migrating.is_empty() {
            let members = 1 + random.below((1 << SHARDS) - 1);
            let topology = (0..SHARDS)
                .filter(|shard| members >> shard & 1 == 1)
                .try_fold(Topology::new(), |topology, shard| {
                    topology.joining(ShardId(shard), 1)
                });
            node.publish(plan.rebalance(&topology.unwrap()).unwrap())
                .await
                .map(drop)
        } else if plan.bucket_count() < 64 && random.below(6) == 0 {
            node.publish(plan.split(2).unwrap()).await.map(drop)
        } else if world.scenario.settles && random.below(2) == 0 {
            node.settle_drained().await.map(drop)
        } else {
            let some = migrating.into_iter().filter(|_| random.below(2) == 0);
            let next = plan.reverted_all(some.collect::<Vec<_>>()).unwrap();
            node.publish(next).await.map(drop)
        };
        match changed {
            Ok(()) => {}
            // Another process was faster.
            Err(
                PlanChangeError::Lost { .. }
                | PlanChangeError::Superseded { .. }
                | PlanChangeError::Refused(_),
            ) if world.scenario.nodes > 1 => {}
            Err(PlanChangeError::Store(error))
                if world.scenario.nodes > 1
                    && matches!(error.kind(), StoreErrorKind::StalePlan { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Lists everything, again and again: what exists all the while is there, once.
pub(crate) async fn list(world: &World, mut random: Random) {
    for _ in 0..12 {
        let before = world.model.borrow().certain();
        let limit = 1 + usize::try_from(random.below(6)).unwrap();
        let node = world.node(&mut random);
        let listed: Vec<_> = node.list_all(List::new(limit)).try_collect().await.unwrap();
        let after = world.model.borrow().certain();
        let listed: Vec<ExecutionId> = listed.into_iter().map(|execution| execution.id).collect();
        let distinct: BTreeSet<_> = listed.iter().cloned().collect();
        assert_eq!(distinct.len(), listed.len(), "listed twice: {listed:?}");
        for (id, deletions) in &before {
            if after.get(id) == Some(deletions) {
                assert!(distinct.contains(id), "{id} is missing from {listed:?}");
            }
        }
        for id in &listed {
            assert!(world.model.borrow().has_begun(id), "{id} was never created");
        }
    }
}
