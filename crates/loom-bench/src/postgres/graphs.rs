//! Durable graphs, beside dbos.

use std::cell::Cell;
use std::path::Path;

use loom_store_postgres::Options;
use tokio::runtime::Runtime;

use super::{Both, SUITE};
use crate::graph::{FEW, on_store};
use crate::peer::Peer;
use crate::report::{Row, Target};
use crate::turns::{Turns, per_second};
use crate::{Failure, Settings};

/// A node of ours is an execution of its own, with lineage and a journal, which can be read and cancelled by itself.
const PEERS: [(&str, &str); 2] = [
    ("dbos", "dbos, a workflow for each node"),
    (
        "dbos-steps",
        "dbos, a step for each node, which is no execution of its own",
    ),
];

/// Graphs of 1,000 nodes.
pub(super) fn rows(
    runtime: &Runtime,
    both: &Both,
    settings: &Settings,
) -> Result<Vec<Row>, Failure> {
    of_size(runtime, both, settings, 1_000)
}

/// Graphs of 10,000 nodes, a round each.
pub(super) fn large(
    runtime: &Runtime,
    both: &Both,
    settings: &Settings,
) -> Result<Vec<Row>, Failure> {
    of_size(runtime, both, settings, 10_000)
}

fn of_size(
    runtime: &Runtime,
    both: &Both,
    settings: &Settings,
    nodes: usize,
) -> Result<Vec<Row>, Failure> {
    let Some(program) = settings.peers_program("PostgreSQL") else {
        return Ok(Vec::new());
    };
    let row = |(name, what)| beside(runtime, both, program, name, what, nodes);
    PEERS.into_iter().map(row).collect()
}

fn beside(
    runtime: &Runtime,
    both: &Both,
    program: &Path,
    name: &str,
    what: &str,
    nodes: usize,
) -> Result<Row, Failure> {
    let database = format!("{name}-{nodes}");
    let url = runtime.block_on(both.theirs.database(&database))?;
    let mut peer = Peer::start(program, name, url)?;
    let round = Cell::new(0);
    let ours = || {
        round.set(round.get() + 1);
        let schema = format!("{database}-{}", round.get()).replace('-', "_");
        let store = runtime.block_on(both.ours.store(&schema, Options::new()))?;
        Ok(per_second(nodes as u64, on_store(runtime, &store, nodes)?))
    };
    let theirs = || Ok(per_second(nodes as u64, peer.graph(nodes)?));
    let (rounds, turns) = if nodes > 1_000 {
        (1, Turns::once(1, ours, theirs)?)
    } else {
        (FEW, Turns::of(FEW, ours, theirs)?)
    };
    let (ours, theirs) = turns.seconds(nodes as u64);
    Ok(Row::new(
        SUITE,
        format!("speed of a durable graph of {nodes} no-op nodes"),
        peer.named(what),
        turns.rate(),
        Some(Target::AtLeast(10.0)),
        format!(
            "{ours:.3} against {theirs:.3} s, {rounds} rounds, 64 nodes at a time; both {}; theirs {}",
            both.ours.setting, peer.setting
        ),
    ))
}
