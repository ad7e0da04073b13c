//! cqrs-es with sqlite-es or postgres-es: what its event store persists for each command.

use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cqrs_es::event_sink::EventSink;
use cqrs_es::persist::{PersistedEventRepository, SerializedEvent};
use cqrs_es::{Aggregate, DomainEvent};
use postgres_es::PostgresEventRepository;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlite_es::SqliteEventRepository;
use sqlx_08::postgres::PgPoolOptions;
use sqlx_08::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use tokio::runtime::Runtime;

use crate::writers::{CONNECTIONS, Place, Writers, runtime};
use crate::{EVENT, Failure, LOG, Peer, expect_log};

/// Of the package's migrations.
const TABLES: &str = "
    CREATE TABLE events (
        aggregate_type text                          NOT NULL,
        aggregate_id   text                          NOT NULL,
        sequence       integer CHECK (sequence >= 0) NOT NULL,
        event_type     text                          NOT NULL,
        event_version  text                          NOT NULL,
        payload        text                          NOT NULL,
        metadata       text                          NOT NULL,
        PRIMARY KEY (aggregate_type, aggregate_id, sequence)
    ) STRICT";

/// Of the other package's `db/init.sql`.
const POSTGRES_TABLES: &str = "
    CREATE TABLE events (
        aggregate_type text                         NOT NULL,
        aggregate_id   text                         NOT NULL,
        sequence       bigint CHECK (sequence >= 0) NOT NULL,
        event_type     text                         NOT NULL,
        event_version  text                         NOT NULL,
        payload        json                         NOT NULL,
        metadata       json                         NOT NULL,
        PRIMARY KEY (aggregate_type, aggregate_id, sequence)
    )";

struct Cqrs<R> {
    repository: Arc<R>,
    setting: &'static str,
    runtime: Runtime,
    writers: Writers,
    log: u64,
}

pub fn sqlite(folder: &Path) -> Result<impl Peer + use<>, Failure> {
    let runtime = runtime()?;
    // As its `default_sqlite_pool`, except that it syncs.
    let options = SqliteConnectOptions::new()
        .filename(folder.join("events.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(60));
    let repository = runtime.block_on(async {
        let pool = SqlitePoolOptions::new()
            .max_connections(10)
            .acquire_timeout(Duration::from_secs(60))
            .connect_with(options)
            .await?;
        sqlx_08::query(TABLES).execute(&pool).await?;
        Ok::<_, Failure>(SqliteEventRepository::new(pool))
    })?;
    let setting = "WAL, synchronous=FULL, 10 connections; its own pool sets NORMAL, which does not sync (cqrs.rs)";
    with(repository, setting, runtime)
}

pub fn postgres(url: &str) -> Result<impl Peer + use<>, Failure> {
    let runtime = runtime()?;
    let repository = runtime.block_on(async {
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(Duration::from_secs(60))
            .connect(url)
            .await?;
        sqlx_08::query(POSTGRES_TABLES).execute(&pool).await?;
        Ok::<_, Failure>(PostgresEventRepository::new(pool))
    })?;
    let setting = "64 connections, where its default_postgress_pool has 10; it leaves synchronous_commit as the server has it (cqrs.rs)";
    with(repository, setting, runtime)
}

/// With a log to read.
fn with<R>(repository: R, setting: &'static str, runtime: Runtime) -> Result<Cqrs<R>, Failure>
where
    R: PersistedEventRepository,
{
    let mut writers = Writers::default();
    let log = writers.new_log();
    for next in 0..LOG {
        let writer = 0;
        let place = Place { writer, log, next };
        runtime.block_on(append(&repository, place))?;
    }
    Ok(Cqrs {
        repository: Arc::new(repository),
        setting,
        runtime,
        writers,
        log,
    })
}

async fn append<R: PersistedEventRepository>(repository: &R, place: Place) -> Result<(), Failure> {
    let event = SerializedEvent::new(
        place.log.to_string(),
        usize::try_from(place.next)? + 1,
        Steps::TYPE.to_owned(),
        "step.completed".to_owned(),
        "1".to_owned(),
        Value::String("7".repeat(EVENT)),
        json!({}),
    );
    Ok(repository.persist::<Steps>(&[event], None).await?)
}

impl<R: PersistedEventRepository + 'static> Peer for Cqrs<R> {
    fn setting(&self) -> (bool, &'static str) {
        (true, self.setting)
    }

    fn append(&mut self, writers: usize, each: u64) -> Result<Duration, Failure> {
        let repository = Arc::clone(&self.repository);
        let append = move |place| {
            let repository = Arc::clone(&repository);
            async move { append(&*repository, place).await }
        };
        self.writers.as_tasks(&self.runtime, writers, each, append)
    }

    fn read(&mut self, times: u64) -> Result<Duration, Failure> {
        let id = self.log.to_string();
        self.runtime.block_on(async {
            let started = Instant::now();
            for _ in 0..times {
                let events = self.repository.get_events::<Steps>(&id).await?;
                expect_log(events.len())?;
            }
            Ok(started.elapsed())
        })
    }
}

/// The repository wants to know what the events are of.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Steps;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Step;

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("step")
    }
}

impl DomainEvent for Step {
    fn event_type(&self) -> String {
        "step.completed".to_owned()
    }

    fn event_version(&self) -> String {
        "1".to_owned()
    }
}

impl Aggregate for Steps {
    type Command = ();
    type Event = Step;
    type Error = Infallible;
    type Services = ();

    const TYPE: &'static str = "steps";

    async fn handle(&mut self, (): (), (): &(), _: &EventSink<Self>) -> Result<(), Infallible> {
        Ok(())
    }

    fn apply(&mut self, _: Step) {}
}
