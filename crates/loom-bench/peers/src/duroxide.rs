//! duroxide's SQLite provider: an append to a history for each event.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::Provider as _;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::{Event, EventKind};
use tokio::runtime::Runtime;

use crate::writers::{Place, Writers, runtime};
use crate::{EVENT, Failure, LOG, Peer, expect_log};

struct Duroxide {
    provider: Arc<SqliteProvider>,
    runtime: Runtime,
    writers: Writers,
    log: u64,
}

pub fn open(folder: &Path) -> Result<impl Peer + use<>, Failure> {
    let runtime = runtime()?;
    let url = format!("sqlite:{}?mode=rwc", folder.join("history.db").display());
    let provider = Arc::new(runtime.block_on(SqliteProvider::new(&url, None))?);
    let mut writers = Writers::default();
    let log = writers.new_log();
    for next in 0..LOG {
        let writer = 0;
        let place = Place { writer, log, next };
        runtime.block_on(append(Arc::clone(&provider), place))?;
    }
    Ok(Duroxide {
        provider,
        runtime,
        writers,
        log,
    })
}

async fn append(provider: Arc<SqliteProvider>, place: Place) -> Result<(), Failure> {
    let instance = place.log.to_string();
    let result = "7".repeat(EVENT);
    let kind = EventKind::ActivityCompleted { result };
    let event = Event::with_event_id(place.next + 1, &instance, 1, Some(1), kind);
    Ok(provider
        .append_with_execution(&instance, 1, vec![event])
        .await?)
}

impl Peer for Duroxide {
    fn setting(&self) -> (bool, &'static str) {
        (
            false,
            "WAL, synchronous=WAL, which SQLite takes as NORMAL: no sync at commit (providers/sqlite.rs)",
        )
    }

    fn append(&mut self, writers: usize, each: u64) -> Result<Duration, Failure> {
        let provider = Arc::clone(&self.provider);
        let append = move |place| append(Arc::clone(&provider), place);
        self.writers
            .as_tasks(&self.runtime, writers, each, append)
    }

    fn read(&mut self, times: u64) -> Result<Duration, Failure> {
        let instance = self.log.to_string();
        self.runtime.block_on(async {
            let started = Instant::now();
            for _ in 0..times {
                let events = self.provider.read_with_execution(&instance, 1).await?;
                expect_log(events.len())?;
            }
            Ok(started.elapsed())
        })
    }
}
