//! disintegrate on PostgreSQL: a checked append for each event.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use disintegrate::serde::json::Json;
use disintegrate::{Event, EventStore as _, query};
use disintegrate_postgres::{Error, PgEventStore};
use serde::{Deserialize, Serialize};
use sqlx_08::postgres::PgPoolOptions;
use tokio::runtime::Runtime;

use crate::writers::{CONNECTIONS, Place, Writers, runtime};
use crate::{EVENT, Failure, Peer};

#[derive(Debug, Clone, PartialEq, Eq, Event, Serialize, Deserialize)]
#[stream(StepEvent, [StepCompleted])]
enum Steps {
    StepCompleted {
        #[id]
        log: String,
        output: String,
    },
}

struct Disintegrate {
    store: Store,
    runtime: Runtime,
    writers: Writers,
}

#[derive(Clone)]
struct Store {
    store: PgEventStore<Steps, Json<Steps>>,
    /// Its number of the last event of each writer's log, which the next append has to name.
    last: Arc<Mutex<HashMap<u64, i64>>>,
}

pub fn open(url: &str) -> Result<impl Peer + use<>, Failure> {
    let runtime = runtime()?;
    let store = runtime.block_on(async {
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(Duration::from_secs(60))
            .connect(url)
            .await?;
        Ok::<_, Failure>(PgEventStore::try_new(pool, Json::default()).await?)
    })?;
    Ok(Disintegrate {
        store: Store {
            store,
            last: Arc::default(),
        },
        runtime,
        writers: Writers::default(),
    })
}

impl Store {
    fn last(&self) -> std::sync::MutexGuard<'_, HashMap<u64, i64>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn append(&self, place: Place) -> Result<(), Failure> {
        let log = place.log.to_string();
        let version = match place.next {
            0 => 0,
            _ => self.last().remove(&place.log).unwrap_or_default(),
        };
        loop {
            let event = Steps::StepCompleted {
                log: log.clone(),
                output: "7".repeat(EVENT),
            };
            let of_the_log = query!(Steps; log == log);
            match self.store.append(vec![event], of_the_log, version).await {
                Ok(appended) => {
                    let id = appended.first().map_or(0, |event| event.id());
                    self.last().insert(place.log, id);
                    return Ok(());
                }
                // Its transactions are serializable, and PostgreSQL gives some up though nobody wrote to the same log.
                // At commit that is one error and before it another.
                Err(Error::Concurrency) => {}
                Err(Error::Database(error)) if is_serialization_failure(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn is_serialization_failure(error: &sqlx_08::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.as_deref() == Some("40001")
}

impl Peer for Disintegrate {
    fn setting(&self) -> (bool, &'static str) {
        (
            true,
            "64 connections, serializable, tried anew where that fails; it leaves synchronous_commit as the server has it (event_store.rs)",
        )
    }

    fn append(&mut self, writers: usize, each: u64) -> Result<Duration, Failure> {
        let store = self.store.clone();
        let append = move |place| {
            let store = store.clone();
            async move { store.append(place).await }
        };
        self.writers.as_tasks(&self.runtime, writers, each, append)
    }
}
