//! The store shows every behaviour that it can.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use loom_conformance::{Need, StoreFactory, Subject};
use loom_spi::{BoxError, EventStore, Timestamp};
use loom_store_sqlite::{Options, SqliteStore};

struct Sqlite;

#[async_trait]
impl StoreFactory for Sqlite {
    async fn create(&self) -> Result<Subject, BoxError> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("shard.db");
        let millis = Arc::new(AtomicI64::new(1_700_000_000_000));
        let now = {
            let millis = Arc::clone(&millis);
            move || Timestamp::from_millis(millis.load(Ordering::SeqCst))
        };
        let options = Options::new().with_clock(now);
        let store = Arc::new(SqliteStore::create(&path, options.clone()).await?);
        let reopen = move |store: Arc<dyn EventStore>| {
            let (path, options) = (path.clone(), options.clone());
            async move {
                // Not closed first: the store has to come through without.
                drop(store);
                Ok(Arc::new(SqliteStore::open(&path, options).await?) as Arc<dyn EventStore>)
            }
        };
        let advance = move |by: Duration| {
            let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
            millis.fetch_add(by, Ordering::SeqCst);
            async { Ok(()) }
        };
        Ok(Subject::from_arc(store)
            .with_reopen(reopen)
            .with_clock(advance)
            .with_close(move || async move { Ok(directory.close()?) }))
    }

    fn promises(&self) -> &[Need] {
        &[
            Need::Fencing,
            Need::Relocation,
            Need::Ledger,
            Need::Branches,
            Need::Reopen,
            Need::Clock,
            Need::ReachableLimits,
        ]
    }
}

loom_conformance::event_store!(sqlite, Sqlite);
