//! evento on SQLite: a commit for each event.

use std::path::Path;
use std::time::{Duration, Instant};

use sqlx_09::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx_migrator::{Migrate as _, Plan};
use tokio::runtime::Runtime;

use crate::writers::{Place, Writers, runtime};
use crate::{EVENT, Failure, LOG, Peer, expect_log};

/// What is stored.
#[evento::aggregate]
pub enum Steps {
    StepCompleted { output: Vec<u8> },
}

struct Evento {
    store: evento::Sqlite,
    runtime: Runtime,
    writers: Writers,
    log: u64,
}

pub fn open(folder: &Path) -> Result<impl Peer + use<>, Failure> {
    let runtime = runtime()?;
    let options = SqliteConnectOptions::new()
        .filename(folder.join("events.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(60));
    let store = runtime.block_on(async {
        let pool = SqlitePoolOptions::new()
            .acquire_timeout(Duration::from_secs(60))
            .connect_with(options)
            .await?;
        let mut connection = pool.acquire().await?;
        evento::sql_migrator::new::<sqlx_09::Sqlite>()?
            .run(&mut *connection, &Plan::apply_all())
            .await?;
        drop(connection);
        Ok::<evento::Sqlite, Failure>(pool.into())
    })?;
    let mut writers = Writers::default();
    let log = writers.new_log();
    for next in 0..LOG {
        let writer = 0;
        runtime.block_on(append(store.clone(), Place { writer, log, next }))?;
    }
    Ok(Evento {
        store,
        runtime,
        writers,
        log,
    })
}

async fn append(store: evento::Sqlite, place: Place) -> Result<(), Failure> {
    evento::append(place.log.to_string())
        .original_version(u16::try_from(place.next)?)
        .event(&StepCompleted {
            output: vec![7; EVENT],
        })
        .commit(&store)
        .await?;
    Ok(())
}

impl Peer for Evento {
    fn setting(&self) -> (bool, &'static str) {
        (
            true,
            "WAL, synchronous=FULL, 10 connections; it takes a pool as it is (evento-sql's sql.rs)",
        )
    }

    fn append(&mut self, writers: usize, each: u64) -> Result<Duration, Failure> {
        let store = self.store.clone();
        let append = move |place| append(store.clone(), place);
        self.writers.as_tasks(&self.runtime, writers, each, append)
    }

    fn read(&mut self, times: u64) -> Result<Duration, Failure> {
        let id = self.log.to_string();
        self.runtime.block_on(async {
            let started = Instant::now();
            for _ in 0..times {
                let events = evento::read::<Steps>(&id).execute(&self.store).await?;
                expect_log(events.len())?;
            }
            Ok(started.elapsed())
        })
    }
}
