//! Faults that users of comparable systems met, as situations of live executions on shards that can seal records.
//!
//! The numbers are those of the project's list of incidents. Those about the arithmetic of plans (S9, S10, S16, S17) are
//! tests of `loom-shard-plan`; those that need real processes are tests of the command line.

mod moves;
mod plans;

use std::sync::Arc;

use loom_sharded_store::{DrainOptions, ShardedStore};
use loom_spi::{
    AcquireFence, EventStore, ExecutionId, FenceToken, PlanLedger as _, Records, Relocation as _,
};

use crate::support::{TestShard, all_to, on_shard_0, open};

/// Two shards that can seal records, everything on the first, and a node that makes the plans.
pub(super) struct Deployment {
    pub(super) shards: Vec<Arc<TestShard>>,
    pub(super) store: ShardedStore,
}

impl Deployment {
    pub(super) async fn new() -> Self {
        let shards = vec![TestShard::relocating(), TestShard::relocating()];
        let store = open(&shards, &on_shard_0()).await;
        Self { shards, store }
    }

    /// Another process.
    pub(super) async fn node(&self) -> ShardedStore {
        open(&self.shards, &on_shard_0()).await
    }

    /// Sends every bucket on its way to the second shard.
    pub(super) async fn grow(&self) {
        let plan = self.store.plan().unwrap();
        self.store.publish(all_to(&plan, 1)).await.unwrap();
    }

    /// Which shards hold a record of `id`, and whether it is sealed there.
    pub(super) async fn records(&self, id: &ExecutionId) -> Vec<(u16, bool)> {
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
    pub(super) async fn drain(&self) {
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

pub(super) async fn acquire(store: &ShardedStore, id: &ExecutionId) -> FenceToken {
    let fencing = store.capabilities().fencing.unwrap();
    fencing
        .acquire_fence(AcquireFence::new(id.clone()))
        .await
        .unwrap()
}
