//! Stores to measure, and what is put into them.

use std::path::Path;
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use loom_shard_plan::ShardPlan;
use loom_sharded_store::ShardedStore;
use loom_spi::{Append, EventStore, ExecutionId, NewEvent};
use loom_store_memory::MemoryStore;
use loom_store_sqlite::{Options, SqliteStore};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::Failure;

/// A store as callers see it.
pub(crate) type Store = Arc<dyn EventStore>;

/// How many appends are under way at a time where nothing else is said.
pub(crate) const AT_ONCE: usize = 64;

/// Two worker threads, as there are two cores.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()?)
}

pub(crate) fn memory() -> Store {
    Arc::new(MemoryStore::new())
}

/// A folder on the disk that is worked on: temporary folders may be in memory.
pub(crate) fn folder() -> Result<TempDir, Failure> {
    let beside = std::env::current_exe()?;
    let beside = beside.parent().ok_or("the program is in no folder")?;
    Ok(tempfile::tempdir_in(beside)?)
}

/// A new SQLite store that syncs every append (`synchronous=FULL`).
pub(crate) async fn sqlite(folder: &Path, name: &str) -> Result<Store, Failure> {
    let path = folder.join(name);
    Ok(Arc::new(SqliteStore::create(path, Options::new()).await?))
}

/// A sharded store over `stores` under `plan`.
pub(crate) async fn sharded(
    stores: impl IntoIterator<Item = Store>,
    plan: ShardPlan,
) -> Result<ShardedStore, Failure> {
    let builder = ShardedStore::builder().shards(stores).plan(plan);
    Ok(builder.open().await?)
}

/// Logs of `events` events of 256 bytes, the last of which is terminal.
pub(crate) fn closed_logs(executions: usize, events: usize) -> Vec<Append> {
    let log = || {
        let events = (1..=events).map(|n| {
            let event = NewEvent::new("step.completed", vec![7; 256]);
            if n == events { event.terminal() } else { event }
        });
        Append::new(ExecutionId::generate(), 0, events.collect())
    };
    (0..executions).map(|_| log()).collect()
}

/// Appends everything, `at_once` at a time.
pub(crate) async fn append_all(
    store: &Store,
    appends: impl IntoIterator<Item = Append>,
    at_once: usize,
) -> Result<(), Failure> {
    stream::iter(appends)
        .map(|append| (**store).append(append))
        .buffer_unordered(at_once)
        .try_for_each(|_| std::future::ready(Ok(())))
        .await?;
    Ok(())
}
