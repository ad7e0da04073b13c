//! Graphs beside what one would pick instead: in memory, and durable on SQLite.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loom_store_memory::MemoryStore;
use tokio::runtime::Runtime;

use super::nodes::{Noop, graph};
use super::{FEW, SUITE, execute, journaled, on_sqlite};
use crate::peer::Peer;
use crate::report::{Row, Target};
use crate::turns::{Turns, per_second};
use crate::{Failure, Settings, stores};

/// Nodes of a graph in memory.
const NODES: usize = 10_000;
/// Rounds of what is over in a moment. Odd, so that the median is one of them.
const ROUNDS: usize = 31;

/// In memory, and a durable graph of 1,000 nodes.
pub(super) fn rows(settings: &Settings) -> Result<Vec<Row>, Failure> {
    let Some(program) = settings.peers_program("graphs") else {
        return Ok(Vec::new());
    };
    let runtime = stores::runtime()?;
    let mut rows = Vec::new();
    for name in ["dagx", "dagrs"] {
        rows.extend(in_memory(&runtime, program, name)?);
    }
    rows.push(beside_duroxide(&runtime, program, 1_000, FEW, 20.0)?);
    Ok(rows)
}

/// A durable graph of 10,000 nodes: the peer takes minutes, and so has one round.
pub(super) fn large(settings: &Settings) -> Result<Vec<Row>, Failure> {
    let Some(program) = settings.peers_program("large graphs") else {
        return Ok(Vec::new());
    };
    let runtime = stores::runtime()?;
    Ok(vec![beside_duroxide(&runtime, program, NODES, 1, 100.0)?])
}

/// How a graph of ours is run.
type Run = fn(&Runtime) -> Result<(), Failure>;

const OURS: [(&str, Run); 3] = [
    ("the executor alone", |runtime| {
        runtime.block_on(execute(&Noop, &Noop, "g", graph(NODES)))
    }),
    ("lineage in memory", |runtime| {
        let registry = MemoryStore::new();
        runtime.block_on(execute(&Noop, &registry, "g", graph(NODES)))
    }),
    ("local runtime, journals in memory", |runtime| {
        let store = Arc::new(MemoryStore::new());
        runtime.block_on(journaled(&store, &*store, "g", NODES))
    }),
];

/// A graph is made, run and dropped, by both.
fn in_memory(runtime: &Runtime, program: &Path, name: &str) -> Result<Vec<Row>, Failure> {
    let mut peer = Peer::start(program, name, "")?;
    let mut rows = Vec::new();
    for (how, run) in OURS {
        let turns = Turns::of(
            ROUNDS,
            || {
                let started = Instant::now();
                run(runtime)?;
                Ok(rate(NODES, started.elapsed()))
            },
            || Ok(rate(NODES, peer.graph(NODES)?)),
        )?;
        rows.push(Row::new(
            SUITE,
            format!("time of {NODES} no-op nodes, {how}"),
            name,
            turns.time(),
            Some(Target::Below(1.0)),
            format!("{} a node; theirs {}", turns.micros(), peer.setting),
        ));
    }
    Ok(rows)
}

fn rate(nodes: usize, took: Duration) -> f64 {
    per_second(nodes as u64, took)
}

fn beside_duroxide(
    runtime: &Runtime,
    program: &Path,
    nodes: usize,
    rounds: usize,
    target: f64,
) -> Result<Row, Failure> {
    let folder = stores::folder()?;
    let theirs = folder.path().join("duroxide");
    std::fs::create_dir(&theirs)?;
    let mut peer = Peer::start(program, "duroxide", &theirs)?;
    let round = Cell::new(0);
    let ours = || {
        round.set(round.get() + 1);
        let took = on_sqlite(runtime, folder.path(), round.get(), nodes)?;
        Ok(rate(nodes, took))
    };
    let theirs = || Ok(rate(nodes, peer.graph(nodes)?));
    let turns = if rounds > 1 {
        Turns::of(rounds, ours, theirs)?
    } else {
        Turns::once(FEW, ours, theirs)?
    };
    let (ours, theirs) = turns.seconds(nodes as u64);
    Ok(Row::new(
        SUITE,
        format!("speed of a durable graph of {nodes} no-op nodes, SQLite"),
        peer.named("duroxide, one orchestration, an activity for each node"),
        turns.rate(),
        Some(Target::AtLeast(target)),
        format!(
            "{ours:.3} against {theirs:.2} s, {rounds} rounds; ours FULL, theirs {}",
            peer.setting
        ),
    ))
}
