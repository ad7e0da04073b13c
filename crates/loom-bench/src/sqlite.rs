//! The embedded store, every append synced, beside the disk, bare rusqlite and what one would pick instead.

mod appends;
mod bare;
mod import;
mod loom;
mod peers;
mod raw;
mod reads;
mod retain;
mod shards;
mod size;
mod writers;

use crate::turns::{Turns, per_second, timed};
use crate::{Failure, Outcome, Settings, stores};

pub(crate) use self::size::run as size;

const SUITE: &str = "sqlite";

/// Every comparison of the suite.
pub(crate) fn run(settings: &Settings) -> Result<Outcome, Failure> {
    let runtime = stores::runtime()?;
    let mut outcome = Outcome::default();
    if settings.wants("appends") {
        outcome.add(appends::rows(&runtime)?.into());
    }
    if settings.wants("shards") {
        outcome.add(shards::rows(&runtime)?.into());
    }
    if settings.wants("reads") {
        outcome.add(reads::rows(&runtime)?.into());
    }
    if settings.wants("retain") {
        outcome.add(retain::rows(&runtime)?.into());
    }
    if settings.wants("import") {
        outcome.add(import::rows(settings)?.into());
    }
    if settings.wants("peers") {
        outcome.add(peers::rows(&runtime, settings)?.into());
    }
    Ok(outcome)
}
