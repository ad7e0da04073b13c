//! fjall: a write and a sync for each event.

use std::path::Path;
use std::time::Duration;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::writers::{Place, Writers, timed};
use crate::{EVENT, Failure, LOG, Peer, expect_log};

struct Fjall {
    database: Database,
    events: Keyspace,
    writers: Writers,
    log: u64,
}

pub fn open(folder: &Path) -> Result<impl Peer + use<>, Failure> {
    let database = Database::builder(folder).open()?;
    let events = database.keyspace("events", KeyspaceCreateOptions::default)?;
    let mut writers = Writers::default();
    let log = writers.new_log();
    for next in 0..LOG {
        let writer = 0;
        append(&database, &events, Place { writer, log, next })?;
    }
    Ok(Fjall {
        database,
        events,
        writers,
        log,
    })
}

fn append(database: &Database, events: &Keyspace, place: Place) -> Result<(), Failure> {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&place.log.to_be_bytes());
    key[8..].copy_from_slice(&place.next.to_be_bytes());
    events.insert(key, [7; EVENT])?;
    Ok(database.persist(PersistMode::SyncData)?)
}

impl Peer for Fjall {
    fn setting(&self) -> (bool, &'static str) {
        (
            true,
            "PersistMode::SyncData after each write; its default, Buffer, does not sync (journal/writer.rs)",
        )
    }

    fn append(&mut self, writers: usize, each: u64) -> Result<Duration, Failure> {
        let (database, events) = (&self.database, &self.events);
        self.writers
            .on_threads(writers, each, |place| append(database, events, place))
    }

    fn read(&mut self, times: u64) -> Result<Duration, Failure> {
        timed(times, || {
            let mut events = Vec::new();
            for event in self.events.prefix(self.log.to_be_bytes()) {
                events.push(event.into_inner()?.1.to_vec());
            }
            expect_log(events.len())
        })
    }
}
