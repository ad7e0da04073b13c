#![doc = include_str!("../README.md")]

mod cqrs;
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

/// Something that stores events.
trait Peer {
    /// Whether an acknowledged append is synced, and what is set for that.
    fn setting(&self) -> (bool, &'static str);

    /// How long so many concurrent writers take to append so many events each.
    fn append(&mut self, writers: usize, each: u64) -> Result<Duration, Failure>;

    /// How long it takes to read an execution of 100 events so many times.
    fn read(&mut self, times: u64) -> Result<Duration, Failure>;
}

/// Opens a peer in an empty folder.
type Open = fn(&Path) -> Result<Box<dyn Peer>, Failure>;

const PEERS: &[(&str, Open)] = &[
    ("cqrs-es", |folder| Ok(Box::new(cqrs::open(folder)?))),
    ("evento", |folder| Ok(Box::new(evento::open(folder)?))),
    ("fjall", |folder| Ok(Box::new(fjall::open(folder)?))),
    ("okaywal", |folder| Ok(Box::new(okaywal::open(folder)?))),
    ("redb", |folder| Ok(Box::new(redb::open(folder)?))),
    ("sierradb", |folder| Ok(Box::new(sierradb::open(folder)?))),
];

/// How many bytes an event has.
const EVENT: usize = 256;
/// How many events a log gets before the writer goes on with another.
const LOG: u64 = 100;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, folder] = &arguments[..] else {
        return Err("usage: loom-bench-peers NAME FOLDER".into());
    };
    let Some((_, open)) = PEERS.iter().find(|(peer, _)| peer == name) else {
        return Err(format!("there is no peer `{name}`").into());
    };
    let mut peer = open(Path::new(folder))?;
    let (syncs, setting) = peer.setting();
    let syncs = if syncs { "syncs" } else { "does-not-sync" };
    say(&format!("ready {syncs} {setting}"))?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let took = match words[..] {
            ["append", writers, each] => peer.append(writers.parse()?, each.parse()?)?,
            ["read", times] => peer.read(times.parse()?)?,
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
