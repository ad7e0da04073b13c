//! Reads of what is in memory, beside prepared statements on the same file.

use std::hint::black_box;

use loom_spi::{Head, Read};
use tokio::runtime::Runtime;

use super::bare::Looker;
use super::writers::Fixture;
use super::{SUITE, Turns, timed};
use crate::Failure;
use crate::report::{Row, Target};
use crate::stores::Store;

const AGAINST: &str = "bare rusqlite, prepared statements, same file";

pub(super) fn rows(runtime: &Runtime) -> Result<Vec<Row>, Failure> {
    let fixture = runtime.block_on(Fixture::create())?;
    let id = runtime.block_on(fixture.log(100))?;
    let looker = Looker::open(&fixture.file())?;
    let store: &Store = &fixture.store;
    let mut rows = Vec::new();

    let turns = Turns::take(
        || {
            runtime.block_on(async {
                let started = std::time::Instant::now();
                for _ in 0..500 {
                    black_box((**store).head(Head::new(id.clone())).await?);
                }
                Ok(super::per_second(500, started.elapsed()))
            })
        },
        || {
            timed(500, || {
                black_box(looker.head(&id)?);
                Ok(())
            })
        },
    )?;
    rows.push(row("time of a hot `head`", &turns, 1.5));

    for (what, limit, times, target) in [
        ("time of a hot read of sequence 0", 1, 500, 1.5),
        ("time of a hot read of 100 events", 100, 100, 1.3),
    ] {
        let turns = Turns::take(
            || runtime.block_on(read(store, &id, limit, times)),
            || {
                timed(times, || {
                    let events = looker.read(&id, limit)?;
                    expect(events.len(), limit)
                })
            },
        )?;
        rows.push(row(what, &turns, target));
    }
    Ok(rows)
}

/// Reads the first `limit` events so many times, and says how often that is in a second.
pub(super) async fn read(
    store: &Store,
    id: &loom_spi::ExecutionId,
    limit: usize,
    times: u64,
) -> Result<f64, Failure> {
    let started = std::time::Instant::now();
    for _ in 0..times {
        let page = (**store).read(Read::new(id.clone(), 0, limit)).await?;
        expect(page.events.len(), limit)?;
    }
    Ok(super::per_second(times, started.elapsed()))
}

fn expect(found: usize, expected: usize) -> Result<(), Failure> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{found} events were read, not {expected}").into())
}

fn row(what: &str, turns: &Turns, target: f64) -> Row {
    let target = Some(Target::AtMost(target));
    Row::new(SUITE, what, AGAINST, turns.time(), target, turns.micros())
}
