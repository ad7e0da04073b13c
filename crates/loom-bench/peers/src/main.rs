#![doc = include_str!("../README.md")]

mod cqrs;
mod dagrs;
mod dagx;
mod dbos;
mod disintegrate;
mod duroxide;
mod evento;
mod fjall;
mod okaywal;
mod redb;
mod sierradb;
mod writers;

use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::time::Duration;

type Failure = Box<dyn Error + Send + Sync>;

/// Something that stores events, or runs graphs.
trait Peer {
    /// Whether what is acknowledged is synced, and what is set for that.
    fn setting(&self) -> (bool, &'static str);

    /// How long so many concurrent writers take to append so many events each.
    fn append(&mut self, _writers: usize, _each: u64) -> Result<Duration, Failure> {
        Err("it stores no events".into())
    }

    /// How long it takes to read an execution of 100 events so many times.
    fn read(&mut self, _times: u64) -> Result<Duration, Failure> {
        Err("it cannot read an execution".into())
    }

    /// How long it takes to make, run and drop a graph of so many nodes that do nothing and wait for nothing.
    fn graph(&mut self, _nodes: usize) -> Result<Duration, Failure> {
        Err("it runs no graphs".into())
    }
}

/// Opens a peer at a place: an empty folder, or the URL of an empty database.
type Open = fn(&str) -> Result<Box<dyn Peer>, Failure>;

const PEERS: &[(&str, Open)] = &[
    ("cqrs-es", |place| {
        Ok(Box::new(cqrs::sqlite(Path::new(place))?))
    }),
    ("dagrs", |_| Ok(Box::new(dagrs::open()?))),
    ("dagx", |_| Ok(Box::new(dagx::open()?))),
    ("dbos", |place| {
        Ok(Box::new(dbos::open(place, dbos::Node::Workflow)?))
    }),
    ("dbos-steps", |place| {
        Ok(Box::new(dbos::open(place, dbos::Node::Step)?))
    }),
    ("disintegrate", |place| {
        Ok(Box::new(disintegrate::open(place)?))
    }),
    ("duroxide", |place| {
        Ok(Box::new(duroxide::open(Path::new(place))?))
    }),
    ("duroxide-provider", |place| {
        Ok(Box::new(duroxide::provider(Path::new(place))?))
    }),
    ("evento", |place| {
        Ok(Box::new(evento::open(Path::new(place))?))
    }),
    ("fjall", |place| {
        Ok(Box::new(fjall::open(Path::new(place))?))
    }),
    ("okaywal", |place| {
        Ok(Box::new(okaywal::open(Path::new(place))?))
    }),
    ("postgres-es", |place| Ok(Box::new(cqrs::postgres(place)?))),
    ("redb", |place| Ok(Box::new(redb::open(Path::new(place))?))),
    ("sierradb", |place| {
        Ok(Box::new(sierradb::open(Path::new(place))?))
    }),
];

/// How many bytes an event has.
const EVENT: usize = 256;
/// How many events a log gets before the writer goes on with another.
const LOG: u64 = 100;
/// How many nodes of a graph are under way at a time, where a peer can be told.
const LIMIT: usize = 64;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, place] = &arguments[..] else {
        return Err("usage: loom-bench-peers NAME FOLDER|URL".into());
    };
    let Some((_, open)) = PEERS.iter().find(|(peer, _)| peer == name) else {
        return Err(format!("there is no peer `{name}`").into());
    };
    let mut peer = open(place)?;
    let (syncs, setting) = peer.setting();
    let syncs = if syncs { "syncs" } else { "does-not-sync" };
    say(&format!("ready {syncs} {setting}"))?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let took = match words[..] {
            ["append", writers, each] => peer.append(writers.parse()?, each.parse()?)?,
            ["read", times] => peer.read(times.parse()?)?,
            ["graph", nodes] => peer.graph(nodes.parse()?)?,
            _ => return Err(format!("cannot do `{line}`").into()),
        };
        say(&format!("took {}", took.as_nanos()))?;
    }
    Ok(())
}

fn say(line: &str) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}")?;
    Ok(output.flush()?)
}

/// Fails unless all events of a log were read.
fn expect_log(found: usize) -> Result<(), Failure> {
    if found as u64 == LOG {
        return Ok(());
    }
    Err(format!("{found} events were read, not {LOG}").into())
}
