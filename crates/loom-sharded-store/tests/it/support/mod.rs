//! What the tests share.

mod fault;
mod interleave;
mod relocation;
mod shard;

pub(crate) use fault::{Call, Fault};
pub(crate) use interleave::{Random, interleave};
pub(crate) use shard::TestShard;

use std::sync::Arc;

use loom_shard_plan::{ShardId, ShardPlan, Topology};
use loom_sharded_store::ShardedStore;
use loom_spi::{Append, Appended, EventStore, ExecutionId, NewEvent, Read, StoreError, Timestamp};

/// Shards to build stores from and to look into.
pub(crate) fn shards(count: usize) -> Vec<Arc<TestShard>> {
    (0..count).map(|_| TestShard::new()).collect()
}

/// The same as the stores of shards 0, 1, 2, …
pub(crate) fn stores(shards: &[Arc<TestShard>]) -> impl Iterator<Item = Arc<dyn EventStore>> {
    shards
        .iter()
        .map(|shard| Arc::clone(shard) as Arc<dyn EventStore>)
}

/// Opens shards under a plan.
pub(crate) async fn open(shards: &[Arc<TestShard>], plan: &ShardPlan) -> ShardedStore {
    ShardedStore::builder()
        .shards(stores(shards))
        .plan(plan.clone())
        .open()
        .await
        .unwrap()
}

/// Few buckets, all on shard 0.
pub(crate) fn on_shard_0() -> ShardPlan {
    ShardPlan::with_buckets(1, 8).unwrap()
}

/// The plan after `plan` in which every bucket is on its way to shard `to`, or already there.
pub(crate) fn all_to(plan: &ShardPlan, to: u16) -> ShardPlan {
    let topology = Topology::new().joining(ShardId(to), 1).unwrap();
    plan.rebalance(&topology).unwrap()
}

/// Two shards without ledgers, every bucket on its way from the first to the second, and a store that is
/// still under the plan before, to put things on the first.
pub(crate) struct Migrating {
    pub(crate) shards: Vec<Arc<TestShard>>,
    pub(crate) store: ShardedStore,
    pub(crate) plan: ShardPlan,
}

impl Migrating {
    pub(crate) async fn new() -> Self {
        Self::over(vec![
            TestShard::without_ledger(),
            TestShard::without_ledger(),
        ])
        .await
    }

    pub(crate) async fn over(shards: Vec<Arc<TestShard>>) -> Self {
        let plan = all_to(&on_shard_0(), 1);
        let store = open(&shards, &plan).await;
        Self {
            shards,
            store,
            plan,
        }
    }

    pub(crate) fn source(&self) -> &TestShard {
        &self.shards[0]
    }

    pub(crate) fn destination(&self) -> &TestShard {
        &self.shards[1]
    }
}

pub(crate) fn id(name: &str) -> ExecutionId {
    ExecutionId::new(name).unwrap()
}

/// An event that can be told from others, and made again.
pub(crate) fn event(name: &str) -> NewEvent {
    NewEvent::new(name.to_owned(), format!("payload of {name}"))
        .recorded_at(Timestamp::from_millis(1_700_000_000_000))
}

pub(crate) async fn append(
    store: &dyn EventStore,
    id: &ExecutionId,
    expected: u64,
    kinds: &[&str],
) -> Result<Appended, StoreError> {
    let events = kinds.iter().map(|kind| event(kind)).collect();
    store
        .append(Append::new(id.clone(), expected, events))
        .await
}

/// Creates an execution that is closed at once.
pub(crate) async fn closed(store: &dyn EventStore, id: &ExecutionId, kinds: &[&str]) {
    let mut events: Vec<NewEvent> = kinds.iter().map(|kind| event(kind)).collect();
    events.push(event("end").terminal());
    store
        .append(Append::new(id.clone(), 0, events))
        .await
        .unwrap();
}

/// The kinds of all events of a log, read two at a time.
pub(crate) async fn kinds(store: &dyn EventStore, id: &ExecutionId) -> Vec<String> {
    let mut kinds = Vec::new();
    loop {
        let page = store
            .read(Read::new(id.clone(), kinds.len() as u64, 2))
            .await
            .unwrap();
        kinds.extend(page.events.iter().map(|event| event.kind.to_string()));
        if kinds.len() as u64 >= page.head.next_sequence {
            return kinds;
        }
    }
}
