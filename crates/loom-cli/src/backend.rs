//! The store of a shard: whichever engine its url names.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use loom_spi::{
    Append, Appended, Capabilities, Delete, Deleted, EventStore, Head, List, ListPage, LogHead,
    PlanLedger, Publish, PublishedPlan, Read, ReadPage, ShardIdentity, ShardLocation, StoreError,
};
use loom_store_postgres::PostgresStore;
use loom_store_sqlite::SqliteStore;

use crate::config::StoreUrl;

/// The store of one shard.
#[derive(Debug)]
pub(crate) enum Backend {
    Sqlite(SqliteStore),
    Postgres(PostgresStore),
}

/// How it is opened.
pub(crate) struct Settings {
    pub(crate) identity: ShardIdentity,
    /// How long somebody else may keep it locked.
    pub(crate) busy_timeout: Option<Duration>,
}

impl Backend {
    /// Opens a shard, which has to be there. Relative paths are taken from `base`.
    pub(crate) async fn open(
        url: &StoreUrl,
        base: &Path,
        settings: Settings,
    ) -> Result<Self, StoreError> {
        match url {
            StoreUrl::Sqlite(path) => SqliteStore::open(base.join(path), settings.sqlite())
                .await
                .map(Self::Sqlite),
            StoreUrl::Postgres(url) => PostgresStore::open(&url.location(), settings.postgres())
                .await
                .map(Self::Postgres),
        }
    }

    /// Creates a shard, or opens it if that was done before.
    pub(crate) async fn create(
        url: &StoreUrl,
        base: &Path,
        settings: Settings,
    ) -> Result<Self, StoreError> {
        match url {
            StoreUrl::Sqlite(path) => SqliteStore::create(base.join(path), settings.sqlite())
                .await
                .map(Self::Sqlite),
            StoreUrl::Postgres(url) => PostgresStore::create(&url.location(), settings.postgres())
                .await
                .map(Self::Postgres),
        }
    }

    /// Finishes what is under way and lets go of the file or the server.
    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(store) => store.close().await,
            Self::Postgres(store) => store.close().await,
        }
    }

    /// Where it is, for people. Holds no secret.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Sqlite(store) => store.path().display().to_string(),
            Self::Postgres(store) => store.location().to_string(),
        }
    }

    fn store(&self) -> &dyn EventStore {
        match self {
            Self::Sqlite(store) => store,
            Self::Postgres(store) => store,
        }
    }

    fn ledger(&self) -> &dyn PlanLedger {
        match self {
            Self::Sqlite(store) => store,
            Self::Postgres(store) => store,
        }
    }
}

impl Settings {
    fn sqlite(self) -> loom_store_sqlite::Options {
        // A command ends soon. What it is to give back it gives back itself, and says how much.
        let options = loom_store_sqlite::Options::new()
            .with_identity(self.identity)
            .with_idle_vacuum(None);
        match self.busy_timeout {
            Some(timeout) => options.with_busy_timeout(timeout),
            None => options,
        }
    }

    fn postgres(self) -> loom_store_postgres::Options {
        let options = loom_store_postgres::Options::new().with_identity(self.identity);
        match self.busy_timeout {
            Some(timeout) => options.with_statement_timeout(timeout),
            None => options,
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl EventStore for Backend {
    async fn append(&self, request: Append) -> Result<Appended, StoreError> {
        self.store().append(request).await
    }

    async fn read(&self, request: Read) -> Result<ReadPage, StoreError> {
        self.store().read(request).await
    }

    async fn head(&self, request: Head) -> Result<Option<LogHead>, StoreError> {
        self.store().head(request).await
    }

    async fn list(&self, request: List) -> Result<ListPage, StoreError> {
        self.store().list(request).await
    }

    async fn delete(&self, request: Delete) -> Result<Deleted, StoreError> {
        self.store().delete(request).await
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.store().capabilities()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl PlanLedger for Backend {
    async fn current(&self) -> Result<Option<PublishedPlan>, StoreError> {
        self.ledger().current().await
    }

    async fn publish(&self, request: Publish) -> Result<(), StoreError> {
        self.ledger().publish(request).await
    }

    async fn identity(&self) -> Result<Option<ShardIdentity>, StoreError> {
        self.ledger().identity().await
    }

    async fn initialize(&self, identity: ShardIdentity) -> Result<(), StoreError> {
        self.ledger().initialize(identity).await
    }

    async fn directory(&self) -> Result<Vec<ShardLocation>, StoreError> {
        self.ledger().directory().await
    }

    async fn record_locations(&self, locations: Vec<ShardLocation>) -> Result<(), StoreError> {
        self.ledger().record_locations(locations).await
    }
}
