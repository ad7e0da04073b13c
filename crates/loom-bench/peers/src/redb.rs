//! redb: a transaction for each event.

use std::path::Path;
use std::time::Duration;

use redb::{Database, ReadableDatabase as _, TableDefinition};

use crate::writers::{Place, Writers, timed};
use crate::{EVENT, Failure, LOG, Peer, expect_log};

const EVENTS: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("events");

struct Redb {
    database: Database,
    writers: Writers,
    log: u64,
}

pub fn open(folder: &Path) -> Result<impl Peer + use<>, Failure> {
    let database = Database::create(folder.join("events.redb"))?;
    let mut writers = Writers::default();
    let log = writers.new_log();
    for next in 0..LOG {
        let writer = 0;
        append(&database, Place { writer, log, next })?;
    }
    Ok(Redb {
        database,
        writers,
        log,
    })
}

fn append(database: &Database, place: Place) -> Result<(), Failure> {
    let transaction = database.begin_write()?;
    transaction
        .open_table(EVENTS)?
        .insert((place.log, place.next), &[7; EVENT][..])?;
    Ok(transaction.commit()?)
}

impl Peer for Redb {
    fn setting(&self) -> (bool, &'static str) {
        (
            true,
            "Durability::Immediate, its default: synced at commit (transactions.rs)",
        )
    }

    fn append(&mut self, writers: usize, each: u64) -> Result<Duration, Failure> {
        let database = &self.database;
        self.writers
            .on_threads(writers, each, |place| append(database, place))
    }

    fn read(&mut self, times: u64) -> Result<Duration, Failure> {
        timed(times, || {
            let table = self.database.begin_read()?.open_table(EVENTS)?;
            let mut events = Vec::new();
            for event in table.range((self.log, 0)..(self.log, u64::MAX))? {
                events.push(event?.1.value().to_vec());
            }
            expect_log(events.len())
        })
    }
}
