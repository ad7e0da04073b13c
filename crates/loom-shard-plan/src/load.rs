//! How the buckets are spread.

use serde::Serialize;

use crate::{ShardId, ShardPlan};

/// The buckets of one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct ShardLoad {
    /// The shard.
    pub shard: ShardId,
    /// Buckets that are settled on it.
    pub settled: u32,
    /// Buckets that are migrating to it.
    pub incoming: u32,
    /// Buckets that are migrating away from it.
    pub outgoing: u32,
}

impl ShardLoad {
    /// Buckets whose new executions start on it: what a rebalance evens out.
    #[must_use]
    pub const fn buckets(&self) -> u32 {
        self.settled + self.incoming
    }
}

impl ShardPlan {
    /// The load of every shard, ascending by id.
    #[must_use]
    pub fn loads(&self) -> Vec<ShardLoad> {
        let load = |shard| ShardLoad {
            shard,
            settled: 0,
            incoming: 0,
            outgoing: 0,
        };
        let mut loads: Vec<_> = self.shards.iter().map(|shard| load(shard.id())).collect();
        for run in self.table.chunk_by(|a, b| a == b) {
            let (Some(slot), Ok(buckets)) = (run.first(), u32::try_from(run.len())) else {
                continue;
            };
            let mut add = |shard, count: fn(&mut ShardLoad) -> &mut u32| {
                if let Ok(at) = loads.binary_search_by_key(&shard, |load| load.shard) {
                    *count(&mut loads[at]) += buckets;
                }
            };
            if slot.is_settled() {
                add(slot.to(), |load| &mut load.settled);
            } else {
                add(slot.from(), |load| &mut load.outgoing);
                add(slot.to(), |load| &mut load.incoming);
            }
        }
        loads
    }
}
