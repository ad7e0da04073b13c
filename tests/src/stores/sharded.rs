//! Stores over several.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use loom_conformance::{Need, StoreFactory, Subject};
use loom_shard_plan::{ShardId, ShardPlan, Topology};
use loom_sharded_store::ShardedStore;
use loom_spi::{BoxError, DeploymentId, EventStore, ShardIdentity};
use loom_store_memory::{ManualClock, MemoryStore};
use loom_store_sqlite::SqliteStore;

use super::single::{SharedClock, with_clock};

const SHARDS: u16 = 4;

/// What every one of these offers.
const OFFERS: &[Need] = &[Need::Fencing, Need::Branches, Need::Clock];

/// New memory stores under one clock.
pub(super) fn memory_shards(clock: &ManualClock, count: u16) -> Vec<Arc<dyn EventStore>> {
    let shard = || MemoryStore::builder().clock(clock.clone()).build();
    (0..count)
        .map(|_| Arc::new(shard()) as Arc<dyn EventStore>)
        .collect()
}

/// The plan that moves every bucket of `plan` from its `SHARDS` shards to as many new ones.
pub(super) fn everything_moves(plan: &ShardPlan) -> Result<ShardPlan, BoxError> {
    let mut topology = Topology::of(plan);
    for shard in 0..SHARDS {
        topology = topology
            .leaving(ShardId(shard))?
            .joining(ShardId(SHARDS + shard), 1)?;
    }
    Ok(plan.rebalance(&topology)?)
}

/// `hash % shards`.
#[derive(Debug)]
pub(super) struct Unplanned;

#[async_trait]
impl StoreFactory for Unplanned {
    async fn create(&self) -> Result<Subject, BoxError> {
        let clock = ManualClock::new();
        let store = ShardedStore::builder()
            .shards(memory_shards(&clock, SHARDS))
            .open()
            .await?;
        Ok(with_clock(Subject::new(store), clock))
    }

    fn promises(&self) -> &[Need] {
        OFFERS
    }
}

/// A plan whose buckets are all settled.
#[derive(Debug)]
pub(super) struct Planned;

#[async_trait]
impl StoreFactory for Planned {
    async fn create(&self) -> Result<Subject, BoxError> {
        let clock = ManualClock::new();
        let store = ShardedStore::builder()
            .shards(memory_shards(&clock, SHARDS))
            .plan(ShardPlan::new(SHARDS)?)
            .open()
            .await?;
        Ok(with_clock(Subject::new(store), clock))
    }

    fn promises(&self) -> &[Need] {
        OFFERS
    }
}

/// A plan whose buckets all migrate, with nothing on the sources.
#[derive(Debug)]
pub(super) struct Migrating;

#[async_trait]
impl StoreFactory for Migrating {
    async fn create(&self) -> Result<Subject, BoxError> {
        let clock = ManualClock::new();
        let plan = ShardPlan::new(SHARDS)?;
        let store = ShardedStore::builder()
            .shards(memory_shards(&clock, 2 * SHARDS))
            .plan(plan.clone())
            .open()
            .await?;
        store.publish(everything_moves(&plan)?).await?;
        Ok(with_clock(Subject::new(store), clock))
    }

    fn promises(&self) -> &[Need] {
        OFFERS
    }
}

/// Files, and a plan whose buckets are all settled.
#[derive(Debug)]
pub(super) struct PlannedSqlite;

#[async_trait]
impl StoreFactory for PlannedSqlite {
    async fn create(&self) -> Result<Subject, BoxError> {
        let folder = tempfile::tempdir()?;
        let files = Files {
            folder: folder.path().to_owned(),
            clock: SharedClock::default(),
            deployment: DeploymentId::generate(),
        };
        for shard in 0..SHARDS {
            files
                .clock
                .create(&files.path(shard), Some(files.identity(shard)))
                .await?;
        }
        let clock = files.clock.clone();
        let store = files.open(Some(ShardPlan::new(SHARDS)?)).await?;
        Ok(clock
            .drive(Subject::from_arc(store))
            .with_reopen(move |store| {
                let files = files.clone();
                async move {
                    drop(store);
                    files.open(None).await
                }
            })
            .with_close(move || async move { Ok(folder.close()?) }))
    }

    fn promises(&self) -> &[Need] {
        &[Need::Fencing, Need::Branches, Need::Clock, Need::Reopen]
    }
}

/// The files of one deployment.
#[derive(Clone, Debug)]
struct Files {
    folder: PathBuf,
    clock: SharedClock,
    deployment: DeploymentId,
}

impl Files {
    fn path(&self, shard: u16) -> PathBuf {
        self.folder.join(format!("shard-{shard}.db"))
    }

    fn identity(&self, shard: u16) -> ShardIdentity {
        ShardIdentity::new(self.deployment.clone(), shard)
    }

    async fn open(&self, plan: Option<ShardPlan>) -> Result<Arc<dyn EventStore>, BoxError> {
        let mut builder = ShardedStore::builder().deployment(self.deployment.clone());
        for shard in 0..SHARDS {
            let options = self.clock.options(Some(self.identity(shard)));
            let store = SqliteStore::open(self.path(shard), options).await?;
            builder = builder.shard(shard, Arc::new(store));
        }
        if let Some(plan) = plan {
            builder = builder.plan(plan);
        }
        Ok(Arc::new(builder.open().await?))
    }
}
