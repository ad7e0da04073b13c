//! cqrs-es with sqlite-es: what its event store persists for each command.

use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use cqrs_es::event_sink::EventSink;
use cqrs_es::persist::{PersistedEventRepository as _, SerializedEvent};
use cqrs_es::{Aggregate, DomainEvent};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlite_es::SqliteEventRepository;
use sqlx_08::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use tokio::runtime::Runtime;

use crate::writers::{Place, Writers, runtime};
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

struct Cqrs {
    repository: std::sync::Arc<SqliteEventRepository>,
    runtime: Runtime,
    writers: Writers,
    log: u64,
}

pub fn open(folder: &Path) -> Result<impl Peer + use<>, Failure> {
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
        Ok::<_, Failure>(std::sync::Arc::new(SqliteEventRepository::new(pool)))
    })?;
    let mut writers = Writers::default();
    let log = writers.new_log();
    for next in 0..LOG {
        let writer = 0;
        let place = Place { writer, log, next };
        runtime.block_on(append(&repository, place))?;
    }
    Ok(Cqrs {
        repository,
        runtime,
        writers,
        log,
    })
}

async fn append(repository: &SqliteEventRepository, place: Place) -> Result<(), Failure> {
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

impl Peer for Cqrs {
    fn setting(&self) -> (bool, &'static str) {
        (
            true,
            "WAL, synchronous=FULL, 10 connections; its own pool sets NORMAL, which does not sync (cqrs.rs)",
        )
    }

    fn append(&mut self, writers: usize, each: u64) -> Result<Duration, Failure> {
        let repository = std::sync::Arc::clone(&self.repository);
        let append = move |place| {
            let repository = std::sync::Arc::clone(&repository);
            async move { append(&repository, place).await }
        };
        self.writers
            .as_tasks(&self.runtime, writers, each, append)
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
