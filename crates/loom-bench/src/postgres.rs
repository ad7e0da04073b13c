//! The store in PostgreSQL, beside what one would write by hand and what one would pick instead.

mod appends;
mod by_hand;
mod graphs;
mod peers;
mod server;
mod servers;

use loom_store_postgres::Options;
use tokio::runtime::Runtime;

use self::server::Server;
use crate::{Failure, Outcome, Settings, routing};

const SUITE: &str = "postgres";
const WRITERS: usize = 64;
/// Rounds of what is over in a moment. Odd, so that the median is one of them.
const ROUNDS: usize = 31;

/// Every comparison of the suite: one server for each side, which take turns.
pub(crate) fn run(settings: &Settings) -> Result<Outcome, Failure> {
    let runtime = runtime()?;
    let mut outcome = Outcome::default();
    let (Some(ours), Some(theirs)) = (Server::start(&runtime)?, Server::start(&runtime)?) else {
        return Ok(outcome);
    };
    let both = Both { ours, theirs };
    if settings.wants("appends") {
        outcome.add(appends::rows(&runtime, &both)?.into());
    }
    if settings.wants("peers") {
        outcome.add(peers::rows(&runtime, &both, settings)?.into());
    }
    if settings.wants("servers") {
        outcome.add(servers::rows(&runtime, &both)?.into());
    }
    if settings.wants("resolution") {
        let row = runtime.block_on(async {
            let shards = [
                both.ours.store("source", Options::new()).await?,
                both.ours.store("destination", Options::new()).await?,
            ];
            routing::cached_resolution(SUITE, "PostgreSQL", shards).await
        })?;
        outcome.add(vec![row].into());
    }
    if settings.wants("graphs") {
        outcome.add(graphs::rows(&runtime, &both, settings)?.into());
    }
    if settings.wants("large") {
        outcome.add(graphs::large(&runtime, &both, settings)?.into());
    }
    Ok(outcome)
}

/// A server for each side, alike.
struct Both {
    ours: Server,
    theirs: Server,
}

/// Two worker threads, as there are two cores, with sockets.
fn runtime() -> Result<Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?)
}
