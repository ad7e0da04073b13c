//! Stores by themselves.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use loom_conformance::{Need, StoreFactory, Subject};
use loom_spi::{BoxError, EventStore, ShardIdentity, Timestamp};
use loom_store_memory::{ManualClock, MemoryStore};
use loom_store_sqlite::{Options, SqliteStore};

/// [`MemoryStore`].
#[derive(Debug)]
pub(super) struct Memory;

#[async_trait]
impl StoreFactory for Memory {
    async fn create(&self) -> Result<Subject, BoxError> {
        let clock = ManualClock::new();
        let store = MemoryStore::builder().clock(clock.clone()).build();
        Ok(with_clock(Subject::new(store), clock))
    }

    fn promises(&self) -> &[Need] {
        &[
            Need::Fencing,
            Need::Ledger,
            Need::Branches,
            Need::Relocation,
            Need::Clock,
        ]
    }
}

/// Lets a case move the clock on.
pub(super) fn with_clock(subject: Subject, clock: ManualClock) -> Subject {
    subject.with_clock(move |by| {
        clock.advance(by);
        async { Ok(()) }
    })
}

/// [`SqliteStore`], in a folder of its own for each case.
#[derive(Debug)]
pub(super) struct Sqlite;

#[async_trait]
impl StoreFactory for Sqlite {
    async fn create(&self) -> Result<Subject, BoxError> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("events.db");
        let clock = SharedClock::default();
        let store = clock.create(&path, None).await?;
        let reopened = clock.clone();
        Ok(clock
            .drive(Subject::from_arc(Arc::new(store)))
            .with_reopen(move |store| {
                let (path, clock) = (path.clone(), reopened.clone());
                async move {
                    drop(store);
                    let store = SqliteStore::open(&path, clock.options(None)).await?;
                    Ok(Arc::new(store) as Arc<dyn EventStore>)
                }
            })
            .with_close(move || async move { Ok(folder.close()?) }))
    }

    fn promises(&self) -> &[Need] {
        &[
            Need::Fencing,
            Need::Ledger,
            Need::Branches,
            Need::Relocation,
            Need::Clock,
            Need::Reopen,
        ]
    }
}

/// A clock that the stores of one case read and the case moves on.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedClock(Arc<AtomicI64>);

impl SharedClock {
    /// How a store is opened under this clock.
    pub(super) fn options(&self, identity: Option<ShardIdentity>) -> Options {
        let now = Arc::clone(&self.0);
        Options::new()
            .with_identity(identity)
            .with_clock(move || Timestamp::from_millis(now.load(Ordering::SeqCst)))
    }

    /// A new store under this clock.
    pub(super) async fn create(
        &self,
        path: &Path,
        identity: Option<ShardIdentity>,
    ) -> Result<SqliteStore, BoxError> {
        Ok(SqliteStore::create(path, self.options(identity)).await?)
    }

    /// Moves the clock on.
    pub(super) fn advance(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.0.fetch_add(millis, Ordering::SeqCst);
    }

    /// Lets a case move the clock on.
    pub(super) fn drive(&self, subject: Subject) -> Subject {
        let clock = self.clone();
        subject.with_clock(move |by| {
            clock.advance(by);
            async { Ok(()) }
        })
    }
}
