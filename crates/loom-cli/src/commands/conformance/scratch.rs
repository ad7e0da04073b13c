//! Stores beside the one that is asked about: same disk or same database, nothing of it is touched.

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use loom_conformance::{Effort, Need, StoreFactory, Subject};
use loom_spi::{BoxError, EventStore, ExecutionId, StoreError, Timestamp};
use loom_store_postgres::{OpenFailure, PostgresStore};
use loom_store_sqlite::SqliteStore;
use tempfile::TempDir;

use crate::config::{PostgresUrl, StoreUrl};
use crate::failure::Failure;

/// Where scratch stores are made.
#[derive(Debug)]
pub(super) struct Scratch {
    place: Place,
    /// Two commands may run at once.
    name: ExecutionId,
    /// Stores that were made.
    count: AtomicU64,
}

#[derive(Debug)]
enum Place {
    Folder(TempDir),
    Database(Box<PostgresUrl>),
}

/// How far the clock of a store has been moved on. A case waits for nothing.
#[derive(Clone, Debug, Default)]
struct Ahead(Arc<AtomicU64>);

impl Scratch {
    pub(super) fn beside(url: &StoreUrl) -> Result<Self, Failure> {
        let place = match url {
            StoreUrl::Sqlite(path) => {
                let folder = match path.parent() {
                    Some(parent) if parent != Path::new("") => parent,
                    _ => Path::new("."),
                };
                let made = tempfile::Builder::new()
                    .prefix(".loom-conformance-")
                    .tempdir_in(folder);
                Place::Folder(made.map_err(|error| Failure::io("make a folder in", folder, error))?)
            }
            StoreUrl::Postgres(url) => Place::Database(url.clone()),
        };
        Ok(Self {
            place,
            name: ExecutionId::generate(),
            count: AtomicU64::new(0),
        })
    }

    /// Makes a store and removes it.
    pub(super) async fn check(&self) -> Result<(), Failure> {
        match &self.place {
            Place::Folder(folder) => {
                let path = self.file(folder);
                SqliteStore::create(&path, Ahead::default().sqlite())
                    .await?
                    .close()
                    .await?;
            }
            Place::Database(url) => {
                let place = self.schema(url).map_err(Failure::usage)?.location();
                let options = Ahead::default().postgres();
                PostgresStore::create(&place, options.clone())
                    .await?
                    .close()
                    .await?;
                PostgresStore::remove(&place, options).await?;
            }
        }
        Ok(())
    }

    /// Removes what the cases have left: the folder, or schemas that a case did not come to remove.
    pub(super) async fn remove(&self) -> Result<(), Failure> {
        match &self.place {
            Place::Folder(folder) => std::fs::remove_dir_all(folder.path())
                .map_err(|error| Failure::io("remove", folder.path(), error)),
            Place::Database(url) => {
                for number in 0..self.count.load(Ordering::Relaxed) {
                    let place = self.named(url, number).map_err(Failure::usage)?.location();
                    let removed = PostgresStore::remove(&place, Ahead::default().postgres()).await;
                    match removed {
                        Err(error) if !is_missing(&error) => return Err(error.into()),
                        _ => {}
                    }
                }
                Ok(())
            }
        }
    }

    fn file(&self, folder: &TempDir) -> PathBuf {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        folder.path().join(format!("{number}.db"))
    }

    /// A schema that nobody else has.
    fn schema(&self, url: &PostgresUrl) -> Result<PostgresUrl, String> {
        self.named(url, self.count.fetch_add(1, Ordering::Relaxed))
    }

    fn named(&self, url: &PostgresUrl, number: u64) -> Result<PostgresUrl, String> {
        url.in_schema(&format!("loom_scratch_{}_{number}", self.name))
    }
}

fn is_missing(error: &StoreError) -> bool {
    let failure = error.source().and_then(|source| source.downcast_ref());
    matches!(failure, Some(OpenFailure::Missing { .. }))
}

#[async_trait]
impl StoreFactory for Scratch {
    async fn create(&self) -> Result<Subject, BoxError> {
        let ahead = Ahead::default();
        let subject = match &self.place {
            Place::Folder(folder) => {
                let path = self.file(folder);
                let options = ahead.sqlite();
                let store = SqliteStore::create(&path, options.clone()).await?;
                let reopened = path.clone();
                Subject::new(store).with_reopen(move |store| {
                    let (path, options) = (reopened.clone(), options.clone());
                    async move {
                        // Not closed first: the store has to come through without.
                        drop(store);
                        let store = SqliteStore::open(&path, options).await?;
                        Ok(Arc::new(store) as Arc<dyn EventStore>)
                    }
                })
            }
            Place::Database(url) => {
                let place = self.schema(url)?.location();
                let options = ahead.postgres();
                let store = PostgresStore::create(&place, options.clone()).await?;
                let (reopened, again) = (place.clone(), options.clone());
                Subject::new(store)
                    .with_reopen(move |store| {
                        let (place, options) = (reopened.clone(), again.clone());
                        async move {
                            drop(store);
                            let store = PostgresStore::open(&place, options).await?;
                            Ok(Arc::new(store) as Arc<dyn EventStore>)
                        }
                    })
                    .with_close(
                        move || async move { Ok(PostgresStore::remove(&place, options).await?) },
                    )
            }
        };
        Ok(subject.with_clock(move |by| {
            ahead.advance(by);
            async { Ok(()) }
        }))
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

    fn effort(&self) -> Effort {
        match self.place {
            Place::Folder(_) => Effort::default(),
            // Every operation is a few round trips.
            Place::Database(_) => Effort::default()
                .with_rounds(3)
                .with_many(100)
                .with_seeds(1, 2)
                .with_steps(100),
        }
    }
}

impl Ahead {
    fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.0.fetch_add(millis, Ordering::SeqCst);
    }

    fn sqlite(&self) -> loom_store_sqlite::Options {
        let millis = Arc::clone(&self.0);
        loom_store_sqlite::Options::new().with_clock(move || {
            let ahead = i64::try_from(millis.load(Ordering::SeqCst)).unwrap_or(i64::MAX);
            let now = Timestamp::now().as_millis();
            Timestamp::from_millis(now.saturating_add(ahead))
        })
    }

    fn postgres(&self) -> loom_store_postgres::Options {
        let millis = Arc::clone(&self.0);
        loom_store_postgres::Options::new()
            .with_connections(4)
            .with_clock_ahead(move || Duration::from_millis(millis.load(Ordering::SeqCst)))
    }
}
