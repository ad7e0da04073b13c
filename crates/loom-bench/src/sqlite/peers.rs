//! What one would pick instead.

use tokio::runtime::Runtime;

use super::writers::{Fixture, Writers};
use super::{SUITE, Turns, per_second, reads};
use crate::peer::Peer;
use crate::report::{Row, Target};
use crate::{Failure, Settings};

const WRITERS: usize = 64;
/// Of those that take longer.
const ROUNDS: usize = 15;

struct Known {
    name: &'static str,
    what: &'static str,
    /// Appends of each writer in a turn, about a tenth of a second.
    each: u64,
    /// At least so many times its appends.
    appends: f64,
    reads: Reads,
}

/// How reads of 100 events are compared.
enum Reads {
    /// It cannot read.
    No,
    /// So many in a turn. It is a map inside the process, which keeps no heads and answers no other question: shown,
    /// without a target.
    Shown(u64),
    /// So many in a turn. Ours is to take a tenth of its time.
    TenTimes(u64),
}

const PEERS: &[Known] = &[
    Known {
        name: "redb",
        what: "redb, one transaction each",
        each: 4,
        appends: 12.0,
        reads: Reads::Shown(50),
    },
    Known {
        name: "fjall",
        what: "fjall, one write and sync each",
        each: 8,
        appends: 12.0,
        reads: Reads::Shown(50),
    },
    Known {
        name: "cqrs-es",
        what: "cqrs-es with sqlite-es",
        each: 3,
        appends: 12.0,
        reads: Reads::TenTimes(20),
    },
    Known {
        name: "evento",
        what: "evento on SQLite",
        each: 3,
        appends: 12.0,
        reads: Reads::TenTimes(20),
    },
    Known {
        name: "okaywal",
        what: "okaywal, a bare log without an index",
        each: 30,
        appends: 1.5,
        reads: Reads::No,
    },
    Known {
        name: "sierradb",
        what: "sierradb",
        each: 20,
        appends: 3.0,
        reads: Reads::TenTimes(20),
    },
    Known {
        name: "duroxide-provider",
        what: "duroxide, its SQLite provider alone, one call each",
        each: 10,
        appends: 12.0,
        reads: Reads::TenTimes(20),
    },
    Known {
        name: "duroxide",
        what: "duroxide, 64 orchestrations of one activity after another, two events each",
        each: 10,
        appends: 12.0,
        reads: Reads::No,
    },
];

pub(super) fn rows(runtime: &Runtime, settings: &Settings) -> Result<Vec<Row>, Failure> {
    let Some(program) = settings.peers_program("SQLite") else {
        return Ok(Vec::new());
    };
    let fixture = runtime.block_on(Fixture::create())?;
    let log = runtime.block_on(fixture.log(100))?;
    let mut writers = Writers::new(&fixture.store, WRITERS);
    let (mut synced, mut unsynced) = (Vec::new(), Vec::new());
    for known in PEERS {
        let folder = fixture.folder().join(known.name);
        std::fs::create_dir(&folder)?;
        let mut peer = Peer::start(program, known.name, &folder)?;
        let against = peer.named(known.what);
        let rows = if peer.syncs {
            &mut synced
        } else {
            &mut unsynced
        };
        let turns = Turns::of(
            ROUNDS,
            || runtime.block_on(writers.append(30)),
            || {
                let took = peer.append(WRITERS, known.each)?;
                Ok(per_second(known.each * WRITERS as u64, took))
            },
        )?;
        rows.push(Row::new(
            SUITE,
            format!("appends a second, {WRITERS} writers"),
            &against,
            turns.rate(),
            Some(Target::AtLeast(known.appends)),
            format!("{}; ours FULL, theirs {}", turns.rates(), peer.setting),
        ));
        let (times, target) = match known.reads {
            Reads::No => continue,
            Reads::Shown(times) => (times, None),
            Reads::TenTimes(times) => (times, Some(Target::AtMost(0.1))),
        };
        let turns = Turns::of(
            ROUNDS,
            || runtime.block_on(reads::read(&fixture.store, &log, 100, 200)),
            || Ok(per_second(times, peer.read(times)?)),
        )?;
        rows.push(Row::new(
            SUITE,
            "time of a hot read of 100 events",
            &against,
            turns.time(),
            target,
            turns.micros(),
        ));
    }
    synced.extend(unsynced);
    Ok(synced)
}
