//! Appends, beside what one would pick instead.

use loom_store_postgres::Options;
use tokio::runtime::Runtime;

use super::{Both, SUITE, WRITERS};
use crate::peer::Peer;
use crate::report::{Row, Target};
use crate::turns::{Turns, per_second};
use crate::writers::Writers;
use crate::{Failure, Settings};

/// Of those that take longer.
const ROUNDS: usize = 15;

/// The peers, and how many appends of each writer they get in a turn.
const PEERS: [(&str, &str, u64); 2] = [
    (
        "postgres-es",
        "postgres-es, what it persists for a command",
        15,
    ),
    (
        "disintegrate",
        "disintegrate-postgres, an append of one event",
        5,
    ),
];

pub(super) fn rows(
    runtime: &Runtime,
    both: &Both,
    settings: &Settings,
) -> Result<Vec<Row>, Failure> {
    let Some(program) = settings.peers_program("PostgreSQL") else {
        return Ok(Vec::new());
    };
    let store = runtime.block_on(both.ours.store("peers", Options::new()))?;
    let mut ours = Writers::new(&store, WRITERS);
    let mut rows = Vec::new();
    for (name, what, each) in PEERS {
        let url = runtime.block_on(both.theirs.database(name))?;
        let mut peer = match Peer::start(program, name, url) {
            Ok(peer) => peer,
            // disintegrate-postgres has SQL that PostgreSQL before 16 does not read.
            Err(error) => {
                eprintln!("SKIPPED: {name} did not start on this server: {error}");
                continue;
            }
        };
        let turns = Turns::of(
            ROUNDS,
            || runtime.block_on(ours.append(40)),
            || {
                let took = peer.append(WRITERS, each)?;
                Ok(per_second(each * WRITERS as u64, took))
            },
        )?;
        rows.push(Row::new(
            SUITE,
            format!("appends a second, {WRITERS} writers"),
            peer.named(what),
            turns.rate(),
            Some(Target::AtLeast(8.0)),
            format!(
                "{}; both {}; theirs {}",
                turns.rates(),
                both.ours.setting,
                peer.setting
            ),
        ));
    }
    Ok(rows)
}
