//! Two servers on one machine, beside one. What several machines give cannot be measured on one: this shows what the
//! sharded store costs where there is nothing to gain but a second write-ahead log.

use std::sync::Arc;

use loom_shard_plan::{Placement, ShardId, ShardPlan};
use loom_spi::ExecutionId;
use loom_store_postgres::Options;
use tokio::runtime::Runtime;

use super::{Both, ROUNDS, SUITE, Server, WRITERS};
use crate::Failure;
use crate::report::Row;
use crate::stores::{self, Store};
use crate::turns::Turns;
use crate::writers::Writers;

/// Of both sides, over all servers.
const CONNECTIONS: usize = 8;

pub(super) fn rows(runtime: &Runtime, both: &Both) -> Result<Vec<Row>, Failure> {
    let Some(second) = Server::start(runtime)? else {
        return Ok(Vec::new());
    };
    let two = runtime.block_on(sharded(&[&both.ours, &second]))?;
    let one = runtime.block_on(sharded(&[&both.theirs]))?;
    let mut rows = Vec::new();
    for (writers, each) in [(2, 100), (WRITERS, 40)] {
        let of = |(store, plan): &(Store, ShardPlan)| {
            let plan = plan.clone();
            Writers::with_ids(store, writers, move |writer| id_on(&plan, writer))
        };
        let (mut ours, mut theirs) = (of(&two), of(&one));
        let turns = Turns::of(
            ROUNDS,
            || runtime.block_on(ours.append(each)),
            || runtime.block_on(theirs.append(each)),
        )?;
        rows.push(Row::new(
            SUITE,
            format!("appends a second, two servers on one machine, {writers} writers"),
            "one server",
            turns.rate(),
            None,
            format!(
                "{}; {CONNECTIONS} connections in all; {}",
                turns.rates(),
                both.ours.setting
            ),
        ));
    }
    Ok(rows)
}

/// A shard on each server.
async fn sharded(servers: &[&Server]) -> Result<(Store, ShardPlan), Failure> {
    let mut shards = Vec::new();
    for server in servers {
        let options = Options::new().with_connections(CONNECTIONS / servers.len());
        shards.push(server.store("servers", options).await?);
    }
    let plan = ShardPlan::new(u16::try_from(servers.len())?)?;
    let store = stores::sharded(shards, plan.clone()).await?;
    Ok((Arc::new(store), plan))
}

/// An id for a writer: they take turns at the shards.
fn id_on(plan: &ShardPlan, writer: usize) -> ExecutionId {
    let wanted = writer % plan.shards().len();
    loop {
        let id = ExecutionId::generate();
        match plan.route_id(id.as_str()) {
            Placement::Settled(ShardId(shard)) if usize::from(shard) != wanted => {}
            _ => return id,
        }
    }
}
