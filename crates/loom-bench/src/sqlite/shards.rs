//! What several shards on one disk give, and what the sharded store costs.

use std::sync::Arc;

use loom_shard_plan::{Placement, ShardId, ShardPlan};
use loom_spi::ExecutionId;
use tokio::runtime::Runtime;

use super::writers::{Fixture, Writers, warm};
use super::{SUITE, Turns};
use crate::Failure;
use crate::report::{Row, Target};
use crate::stores::{self, Store};

const SHARDS: u16 = 4;
/// Appends of a lone writer in a turn.
const LONE: u64 = 50;

pub(super) fn rows(runtime: &Runtime) -> Result<Vec<Row>, Failure> {
    let mut rows = vec![four(runtime)?];
    for (writers, each) in [(1, LONE), (64, 20)] {
        rows.push(decorated(runtime, writers, each)?);
    }
    Ok(rows)
}

/// A lone writer on each of four shards, beside one on one.
fn four(runtime: &Runtime) -> Result<Row, Failure> {
    let folder = stores::folder()?;
    let open = async |shards: u16, name: &str| {
        let mut files = Vec::new();
        for shard in 0..shards {
            files.push(stores::sqlite(folder.path(), &format!("{name}-{shard}.db")).await?);
        }
        let plan = ShardPlan::new(shards)?;
        let store: Store = Arc::new(stores::sharded(files, plan.clone()).await?);
        warm(&store).await?;
        Ok::<_, Failure>(Writers::with_ids(&store, shards.into(), move |writer| {
            id_on(&plan, writer)
        }))
    };
    let mut ours = runtime.block_on(open(SHARDS, "four"))?;
    let mut theirs = runtime.block_on(open(1, "one"))?;
    let turns = Turns::take(
        || runtime.block_on(ours.append(LONE)),
        || runtime.block_on(theirs.append(LONE)),
    )?;
    Ok(Row::new(
        SUITE,
        "appends a second, 4 shards, a lone writer on each",
        "1 shard, 1 lone writer, same disk",
        turns.rate(),
        Some(Target::AtLeast(1.9)),
        turns.rates(),
    ))
}

/// An id that belongs on the shard with the number of the writer.
fn id_on(plan: &ShardPlan, writer: usize) -> ExecutionId {
    loop {
        let id = ExecutionId::generate();
        match plan.route_id(id.as_str()) {
            Placement::Settled(ShardId(shard)) if usize::from(shard) != writer => {}
            _ => return id,
        }
    }
}

fn decorated(runtime: &Runtime, writers: usize, each: u64) -> Result<Row, Failure> {
    let (below, bare) = (
        runtime.block_on(Fixture::create())?,
        runtime.block_on(Fixture::create())?,
    );
    let sharded = stores::sharded([Arc::clone(&below.store)], ShardPlan::new(1)?);
    let decorated: Store = Arc::new(runtime.block_on(sharded)?);
    let mut ours = Writers::new(&decorated, writers);
    let mut theirs = Writers::new(&bare.store, writers);
    let turns = Turns::take(
        || runtime.block_on(ours.append(each)),
        || runtime.block_on(theirs.append(each)),
    )?;
    Ok(Row::new(
        SUITE,
        format!("appends a second through the sharded store, {writers} at a time"),
        "the bare SQLite store",
        turns.rate(),
        Some(Target::AtLeast(0.97)),
        turns.rates(),
    ))
}
