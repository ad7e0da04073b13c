//! Writers, a mover, a planner and a lister on one thread, in an order that a seed decides, with the shards
//! letting others go first at every call. What the writers see is compared with a model.

mod model;
mod tasks;

use std::cell::RefCell;
use std::rc::Rc;

use futures_util::FutureExt as _;
use loom_shard_plan::ShardPlan;
use loom_sharded_store::ShardedStore;
use loom_spi::{EventStore, Head, Read};

use crate::support::{Random, TestShard, interleave, open};
use model::Model;
use tasks::{list, move_executions, plan, write};

/// Which things happen in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    /// Processes. Moves of what could be started or deleted meanwhile are safe within one alone, so with
    /// more there is nothing of that kind.
    pub(crate) nodes: usize,
    pub(crate) ledgers: bool,
    pub(crate) deletes: bool,
    pub(crate) fences: bool,
    pub(crate) lineage: bool,
    /// Whether buckets settle. A fence without a log is not seen by the drain check, so not together with
    /// fences and deletes.
    pub(crate) settles: bool,
}

/// What the tasks of a run work on.
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) nodes: Vec<ShardedStore>,
    pub(crate) model: Rc<RefCell<Model>>,
}

impl World {
    pub(crate) fn node(&self, random: &mut Random) -> &ShardedStore {
        random.one_of(&self.nodes)
    }
}

pub(crate) const SHARDS: u16 = 4;
const WRITERS: u64 = 3;

fn run(scenario: Scenario, seed: u64) {
    let shards: Vec<_> = (0..SHARDS)
        .map(|_| {
            if scenario.ledgers {
                TestShard::new()
            } else {
                TestShard::without_ledger()
            }
        })
        .collect();
    let first = ShardPlan::with_buckets(2, 8).unwrap();
    let nodes = (0..scenario.nodes)
        .map(|_| open(&shards, &first).now_or_never().unwrap())
        .collect();
    let world = World {
        scenario,
        nodes,
        model: Rc::default(),
    };
    shards.iter().for_each(|shard| shard.yields());
    let random = |task: u64| Random::new(seed.wrapping_mul(64).wrapping_add(task));
    let mut tasks = vec![
        move_executions(&world, random(0)).boxed_local(),
        plan(&world, random(1)).boxed_local(),
        list(&world, random(2)).boxed_local(),
    ];
    for writer in 0..WRITERS {
        tasks.push(write(&world, writer, random(3 + writer)).boxed_local());
    }
    interleave(seed, tasks);
    interleave(seed, vec![audit(&world, &shards, seed).boxed_local()]);
}

/// Everything is where it should be, once, and as it was acknowledged.
async fn audit(world: &World, shards: &[std::sync::Arc<TestShard>], seed: u64) {
    let node = &world.nodes[0];
    let model = world.model.borrow().clone();
    for (id, log) in model.logs() {
        let page = node.read(Read::new(id.clone(), 0, 1000)).await.unwrap();
        let kinds: Vec<_> = page
            .events
            .iter()
            .map(|event| event.kind.to_string())
            .collect();
        assert_eq!(kinds, log.kinds, "seed {seed}: {id}");
        let mut copies = 0;
        for shard in shards {
            let head = Head::new(id.clone()).with_epoch(if world.scenario.ledgers {
                node.epoch()
            } else {
                None
            });
            // A shard that no plan has named yet has none, and nothing else.
            copies += usize::from(matches!(shard.inner.head(head).await, Ok(Some(_))));
        }
        assert_eq!(copies, 1, "seed {seed}: copies of {id}");
    }
}

fn run_all(scenario: Scenario) {
    for seed in 0..250 {
        // The seed of a failure, also where the panic comes from deep inside.
        let outcome = std::panic::catch_unwind(|| run(scenario, seed));
        if let Err(cause) = outcome {
            println!("seed {seed} of {scenario:?} failed");
            std::panic::resume_unwind(cause);
        }
    }
}

const QUIET: Scenario = Scenario {
    nodes: 1,
    ledgers: false,
    deletes: false,
    fences: false,
    lineage: false,
    settles: true,
};

#[test]
fn one_process_without_ledgers_that_grows_shrinks_moves_settles_and_deletes() {
    run_all(Scenario {
        deletes: true,
        ..QUIET
    });
}

#[test]
fn one_process_with_ledgers_that_grows_shrinks_moves_settles_and_deletes() {
    run_all(Scenario {
        ledgers: true,
        deletes: true,
        ..QUIET
    });
}

#[test]
fn one_process_whose_fences_and_lineage_come_and_go_while_plans_turn_round() {
    run_all(Scenario {
        deletes: true,
        fences: true,
        lineage: true,
        settles: false,
        ..QUIET
    });
}

#[test]
fn two_processes_that_both_change_the_plan_with_fences_and_lineage() {
    run_all(Scenario {
        nodes: 2,
        ledgers: true,
        fences: true,
        lineage: true,
        ..QUIET
    });
}
