//! sierradb, the library: a transaction for each event.

use std::path::Path;
use std::time::{Duration, Instant};

use sierradb::database::{Database, ExpectedVersion, NewEvent, Transaction};
use sierradb::id::{uuid_to_partition_hash, uuid_v7_with_partition_hash};
use sierradb::{IterDirection, StreamId};
use smallvec::smallvec;
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::writers::{Place, Writers, runtime};
use crate::{EVENT, Failure, LOG, Peer, expect_log};

struct SierraDb {
    database: Database,
    runtime: Runtime,
    writers: Writers,
    log: u64,
}

pub fn open(folder: &Path) -> Result<impl Peer + use<>, Failure> {
    let runtime = runtime()?;
    let _guard = runtime.enter();
    let database = Database::open(folder)?;
    let mut writers = Writers::default();
    let log = writers.new_log();
    for next in 0..LOG {
        let writer = 0;
        runtime.block_on(append(database.clone(), Place { writer, log, next }))?;
    }
    drop(_guard);
    Ok(SierraDb {
        database,
        runtime,
        writers,
        log,
    })
}

fn stream(log: u64) -> Result<StreamId, Failure> {
    Ok(StreamId::new(format!("log-{log}"))?)
}

/// A writer's logs are in one partition.
async fn append(database: Database, place: Place) -> Result<(), Failure> {
    let key = Uuid::from_u128(place.writer as u128);
    let event = NewEvent {
        event_id: uuid_v7_with_partition_hash(uuid_to_partition_hash(key)),
        stream_id: stream(place.log)?,
        stream_version: match place.next.checked_sub(1) {
            None => ExpectedVersion::Empty,
            Some(last) => ExpectedVersion::Exact(last),
        },
        event_name: "step.completed".to_owned(),
        timestamp: 1,
        metadata: Vec::new(),
        payload: vec![7; EVENT],
    };
    let transaction = Transaction::new(key, u16::try_from(place.writer)?, smallvec![event])?;
    database.append_events(transaction).await?;
    Ok(())
}

impl Peer for SierraDb {
    fn setting(&self) -> (bool, &'static str) {
        (
            true,
            "its defaults: waits for fdatasync, which comes every 50 events, 4 KiB or 5 ms (database.rs, writer_thread_pool.rs)",
        )
    }

    fn append(&mut self, writers: usize, each: u64) -> Result<Duration, Failure> {
        let database = self.database.clone();
        let append = move |place| append(database.clone(), place);
        self.writers.as_tasks(&self.runtime, writers, each, append)
    }

    fn read(&mut self, times: u64) -> Result<Duration, Failure> {
        self.runtime.block_on(async {
            let started = Instant::now();
            for _ in 0..times {
                let stream = stream(self.log)?;
                let mut found = self
                    .database
                    .read_stream(0, stream, 0, IterDirection::Forward)
                    .await?;
                let mut events = Vec::new();
                while let Some(committed) = found.next().await? {
                    events.push(committed);
                }
                expect_log(events.len())?;
            }
            Ok(started.elapsed())
        })
    }
}
