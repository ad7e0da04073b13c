//! Appends, beside what the disk and SQLite can do.

use tokio::runtime::Runtime;

use super::bare::Loader;
use super::raw::RawFile;
use super::writers::{Fixture, Writers};
use super::{SUITE, Turns, timed};
use crate::Failure;
use crate::report::{Row, Target};

/// Syncs a turn.
const SYNCS: u64 = 50;

/// How many writers there are, how many events each appends in a turn, and the target beside the disk.
const GROUPS: [(usize, u64, f64); 3] = [(1, SYNCS, 0.75), (64, 20, 14.0), (512, 8, 28.0)];

pub(super) fn rows(runtime: &Runtime) -> Result<Vec<Row>, Failure> {
    let fixture = runtime.block_on(Fixture::create())?;
    let mut rows = Vec::new();
    let mut raw = RawFile::create(fixture.folder())?;
    for (concurrent, each, target) in GROUPS {
        let mut writers = Writers::new(&fixture.store, concurrent);
        let turns = Turns::take(
            || runtime.block_on(writers.append(each)),
            || timed(SYNCS, || raw.write_synced()),
        )?;
        rows.push(row(
            concurrent,
            RawFile::WHAT,
            &turns,
            Some(Target::AtLeast(target)),
        ));
    }

    for (concurrent, each, ..) in &GROUPS[..2] {
        let mut writers = Writers::new(&fixture.store, *concurrent);
        let mut one = Loader::create(fixture.folder(), &format!("one-{concurrent}.db"), 1)?;
        let turns = Turns::take(
            || runtime.block_on(writers.append(*each)),
            || timed(SYNCS, || one.append()),
        )?;
        let against = "bare rusqlite, one event a transaction (the floor)";
        rows.push(row(*concurrent, against, &turns, None));
    }

    let mut writers = Writers::new(&fixture.store, 64);
    let mut batched = Loader::create(fixture.folder(), "batched.db", 64)?;
    let turns = Turns::take(
        || runtime.block_on(writers.append(20)),
        || Ok(64.0 * timed(20, || batched.append())?),
    )?;
    let against = "bare rusqlite, 64 events a transaction (the ceiling)";
    rows.push(row(64, against, &turns, Some(Target::AtLeast(0.75))));
    Ok(rows)
}

fn row(concurrent: usize, against: &str, turns: &Turns, target: Option<Target>) -> Row {
    let what = match concurrent {
        1 => "appends a second, lone writer".to_owned(),
        _ => format!("appends a second, {concurrent} writers"),
    };
    let note = format!("{}; both sync each time, SQLite with FULL", turns.rates());
    Row::new(SUITE, what, against, turns.rate(), target, note)
}
