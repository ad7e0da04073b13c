//! Stores on PostgreSQL servers that are started for them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use loom_conformance::{Effort, Need, StoreFactory, Subject};
use loom_shard_plan::ShardPlan;
use loom_sharded_store::ShardedStore;
use loom_spi::{BoxError, DeploymentId, EventStore, ShardIdentity};
use loom_store_postgres::{Location, Options, PostgresStore};
use loom_store_sqlite::SqliteStore;
use loom_test_postgres::{Cluster, Server, Settings, server, unique_name};

use super::single::SharedClock;

/// Every operation is a few round trips.
fn effort() -> Effort {
    Effort::default()
        .with_rounds(3)
        .with_many(100)
        .with_seeds(1, 2)
        .with_steps(100)
}

/// How far the clocks of servers are taken to be ahead.
#[derive(Clone, Debug, Default)]
struct Ahead(Arc<AtomicU64>);

impl Ahead {
    fn options(&self, identity: Option<ShardIdentity>) -> Options {
        let millis = Arc::clone(&self.0);
        Options::new()
            .with_identity(identity)
            .with_connections(4)
            .with_clock_ahead(move || Duration::from_millis(millis.load(Ordering::SeqCst)))
    }

    fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

/// A number of servers, started when the first case needs them.
struct Servers {
    wanted: usize,
    started: OnceLock<Vec<Arc<Server>>>,
}

impl Servers {
    fn new(wanted: usize) -> Self {
        Self {
            wanted,
            started: OnceLock::new(),
        }
    }

    /// A new place on each.
    fn places(&self) -> Result<Vec<Location>, BoxError> {
        let servers = self.started.get_or_init(|| {
            let Some(first) = server() else {
                return Vec::new();
            };
            // One that is given stands in for all: each shard has a schema of its own anyway.
            let more = (1..self.wanted).map(|_| match &*first {
                Server::Given(_) => Arc::clone(&first),
                Server::Own(_) => Arc::new(Server::Own(start())),
            });
            std::iter::once(Arc::clone(&first)).chain(more).collect()
        });
        let place = |server: &Arc<Server>| {
            let url = server.url();
            let mark = if url.contains('?') { '&' } else { '?' };
            Ok(format!("{url}{mark}schema={}", unique_name()).parse()?)
        };
        servers.iter().map(place).collect()
    }

    /// On a server that is there after the tests, nothing is left of a case.
    fn tidy(&self, subject: Subject, places: Vec<Location>) -> Subject {
        let servers = self.started.get().into_iter().flatten();
        if !servers
            .into_iter()
            .any(|server| server.outlives_the_tests())
        {
            return subject;
        }
        subject.with_close(move || async move {
            for place in &places {
                PostgresStore::remove(place, Options::new()).await?;
            }
            Ok(())
        })
    }
}

#[expect(clippy::panic, reason = "the matrix cannot go on")]
fn start() -> Cluster {
    let settings = Settings::fast().with("max_connections", "200");
    Cluster::start(&settings).unwrap_or_else(|error| panic!("{error}"))
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} servers", self.wanted)
    }
}

/// [`PostgresStore`], in a schema of its own for each case.
#[derive(Debug)]
pub(super) struct Postgres(Servers);

impl Postgres {
    pub(super) fn new() -> Self {
        Self(Servers::new(1))
    }
}

#[async_trait]
impl StoreFactory for Postgres {
    async fn create(&self) -> Result<Subject, BoxError> {
        let place = self.0.places()?.swap_remove(0);
        let ahead = Ahead::default();
        let store = PostgresStore::create(&place, ahead.options(None)).await?;
        let (moved, reopened) = (ahead.clone(), ahead);
        let subject = self.0.tidy(Subject::new(store), vec![place.clone()]);
        Ok(subject
            .with_clock(move |by| {
                moved.advance(by);
                async { Ok(()) }
            })
            .with_reopen(move |store| {
                let (place, ahead) = (place.clone(), reopened.clone());
                async move {
                    drop(store);
                    let store = PostgresStore::open(&place, ahead.options(None)).await?;
                    Ok(Arc::new(store) as Arc<dyn EventStore>)
                }
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
        effort()
    }
}

/// Shards on servers, and some in files, under a plan whose buckets are all settled.
#[derive(Debug)]
pub(super) struct Sharded {
    servers: Servers,
    files: u16,
}

impl Sharded {
    /// Three servers.
    pub(super) fn on_servers() -> Self {
        Self {
            servers: Servers::new(3),
            files: 0,
        }
    }

    /// Two files and a server.
    pub(super) fn mixed() -> Self {
        Self {
            servers: Servers::new(1),
            files: 2,
        }
    }
}

/// Where the shards of one case are.
#[derive(Clone)]
struct Deployment {
    id: DeploymentId,
    folder: Arc<tempfile::TempDir>,
    files: u16,
    places: Vec<Location>,
    clock: SharedClock,
    ahead: Ahead,
}

impl Deployment {
    fn identity(&self, shard: u16) -> Option<ShardIdentity> {
        Some(ShardIdentity::new(self.id.clone(), shard))
    }

    /// Opens the shards, or creates them where there is a plan for them.
    async fn open(&self, plan: Option<ShardPlan>) -> Result<Arc<dyn EventStore>, BoxError> {
        let mut builder = ShardedStore::builder().deployment(self.id.clone());
        for shard in 0..self.files {
            let path = self.folder.path().join(format!("shard-{shard}.db"));
            let store = match &plan {
                Some(_) => self.clock.create(&path, self.identity(shard)).await?,
                None => {
                    let options = self.clock.options(self.identity(shard));
                    SqliteStore::open(&path, options).await?
                }
            };
            builder = builder.shard(shard, Arc::new(store));
        }
        for (place, shard) in self.places.iter().zip(self.files..) {
            let options = self.ahead.options(self.identity(shard));
            let store = match &plan {
                Some(_) => PostgresStore::create(place, options).await?,
                None => PostgresStore::open(place, options).await?,
            };
            builder = builder.shard(shard, Arc::new(store));
        }
        if let Some(plan) = plan {
            builder = builder.plan(plan);
        }
        Ok(Arc::new(builder.open().await?))
    }
}

#[async_trait]
impl StoreFactory for Sharded {
    async fn create(&self) -> Result<Subject, BoxError> {
        let deployment = Deployment {
            id: DeploymentId::generate(),
            folder: Arc::new(tempfile::tempdir()?),
            files: self.files,
            places: self.servers.places()?,
            clock: SharedClock::default(),
            ahead: Ahead::default(),
        };
        let shards = self.files + u16::try_from(deployment.places.len())?;
        let store = deployment.open(Some(ShardPlan::new(shards)?)).await?;
        let moved = deployment.clone();
        let places = deployment.places.clone();
        let subject = self.servers.tidy(Subject::from_arc(store), places);
        Ok(subject
            .with_clock(move |by| {
                moved.ahead.advance(by);
                moved.clock.advance(by);
                async { Ok(()) }
            })
            .with_reopen(move |store| {
                let deployment = deployment.clone();
                async move {
                    drop(store);
                    deployment.open(None).await
                }
            }))
    }

    fn promises(&self) -> &[Need] {
        &[Need::Fencing, Need::Branches, Need::Clock, Need::Reopen]
    }

    fn effort(&self) -> Effort {
        effort()
    }
}
