//! The real code in a simulated world: several nodes, each with a store of its own over the same shards, on
//! one thread, in an order that a seed decides. Requests travel, and arrive after their sender has died; answers
//! are lost, shards fall silent, nodes crash and start again, sleep, and wake up under a plan that is over. What
//! callers were told is compared with what one sequential store could have answered, and at the end every
//! record has to be where the plan says, unsealed and alone.

mod clients;
mod executor;
mod history;
mod judge;
mod planners;
mod random;
mod rules;
mod shard;
mod world;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use loom_shard_plan::{Placement, ShardPlan};
use loom_spi::StoreErrorKind;
use loom_spi::{DeploymentId, EventStore, ExecutionId, PlanLedger as _, Records, Relocation as _};
use loom_store_memory::MemoryStore;

use crate::rules::{Rule, Rules};
use crate::{DrainOptions, OpenError, ShardedStore, ShardedStoreBuilder};
use clients::{Client, Known, Mood, chain};
use executor::{Executor, Spawner};
use history::{History, Request};
use planners::Planner;
use shard::{SimShard, StoreRule};
use world::{Faults, World};

const SHARDS: u16 = 4;
const BUCKETS: u32 = 4;
const NODES: usize = 3;
const EXECUTIONS: usize = 3;
/// Drains that a deployment may need to come to rest once nothing goes wrong any more.
const ROUNDS: usize = 12;

/// What is switched off in a run.
#[derive(Clone, Copy, Debug, Default)]
struct Broken {
    rule: Option<Rule>,
    store: Option<StoreRule>,
}

/// One run, and everything that its tasks share.
#[derive(Clone)]
struct Run {
    seed: u64,
    broken: Broken,
    world: World,
    spawner: Spawner,
    history: History,
    known: Known,
    ids: Rc<Vec<ExecutionId>>,
    shards: Rc<Vec<SimShard>>,
    faults: Faults,
    /// A process that was started before there was a plan, if there is one.
    unplanned: Rc<RefCell<Option<ShardedStore>>>,
}

/// Runs one schedule, and says what was wrong.
fn run(seed: u64, broken: Broken, trace: bool) -> Result<(), (String, Vec<String>)> {
    let world = World::new(seed, usize::from(SHARDS), trace);
    let shard = |number| SimShard {
        number,
        store: Arc::new(MemoryStore::new()),
        world: world.clone(),
        breaks: broken.store,
    };
    let run = Run {
        seed,
        broken,
        spawner: Spawner::default(),
        history: History::new(world.clone()),
        known: Known::new(EXECUTIONS),
        ids: Rc::new(executions()),
        shards: Rc::new((0..SHARDS).map(shard).collect()),
        faults: Faults {
            crashes: seed % 4 == 1 || seed % 4 == 3,
            network: seed % 4 >= 2,
        },
        unplanned: Rc::default(),
        world,
    };
    let judged = run.go();
    judged.map_err(|what| (what, run.world.take_trace()))
}

impl Run {
    fn go(&self) -> Result<(), String> {
        let mut executor = Executor::new(self.world.clone(), self.spawner.clone(), NODES);
        let this = self.clone();
        self.spawner.spawn(None, async move { this.create().await });
        executor.run()?;
        self.world.harm(self.faults);
        for node in 0..NODES {
            self.start(node, 8);
        }
        if let Some(store) = self.unplanned.borrow().clone() {
            let client = self.client(store, true);
            self.spawner.spawn(None, client.work(6));
        }
        let this = self.clone();
        self.spawner
            .spawn(None, async move { this.trouble().await });
        executor.run()?;
        self.world.heal();
        let this = self.clone();
        self.spawner
            .spawn(None, async move { this.come_to_rest().await });
        executor.run()?;
        judge::judge(&self.history.inner(), EXECUTIONS)
    }

    /// A deployment of one or two shards; now and then one that was used without a plan before.
    async fn create(&self) {
        let adopts = self.seed.is_multiple_of(3);
        if adopts {
            let shard: Arc<dyn EventStore> = Arc::new(self.shards[0].clone());
            let store = ShardedStore::builder().shard(0, shard).open().await;
            *self.unplanned.borrow_mut() = Some(store.unwrap());
        }
        let count = if adopts { 1 } else { 2 };
        let plan = ShardPlan::with_buckets(count, BUCKETS).unwrap();
        self.builder().plan(plan).create().await.unwrap();
    }

    fn builder(&self) -> ShardedStoreBuilder {
        let mut builder = ShardedStore::builder()
            .deployment(DeploymentId::new("simulation").unwrap())
            .rules(self.broken.rule.map_or_else(Rules::default, Rules::without));
        for shard in self.shards.iter() {
            builder = builder.shard(shard.number, Arc::new(shard.clone()));
        }
        builder
    }

    /// Starts a node that answers some requests of each of its callers.
    fn start(&self, node: usize, requests: u64) {
        let this = self.clone();
        self.spawner.spawn(Some(node), async move {
            let Some(store) = this.open().await else {
                return;
            };
            for _ in 0..2 {
                let client = this.client(store.clone(), false);
                this.spawner.spawn(Some(node), client.work(requests));
            }
            let planner = Planner {
                world: this.world.clone(),
                history: this.history.clone(),
                ids: Rc::clone(&this.ids),
                store,
                shards: SHARDS,
                excused: this.faults.network,
                mood: this.mood(),
            };
            this.spawner.spawn(Some(node), planner.work(requests));
        });
    }

    fn mood(&self) -> Mood {
        match (self.seed / 4) % 4 {
            0 => Mood::Any,
            1 => Mood::Looking,
            2 => Mood::Turning,
            _ => Mood::Deleting,
        }
    }

    fn client(&self, store: ShardedStore, unplanned: bool) -> Client {
        Client {
            world: self.world.clone(),
            history: self.history.clone(),
            known: self.known.clone(),
            ids: Rc::clone(&self.ids),
            store,
            unplanned,
            excused: self.faults.network,
            mood: self.mood(),
        }
    }

    async fn open(&self) -> Option<ShardedStore> {
        loop {
            match self.builder().open().await {
                Ok(store) => return Some(store),
                Err(OpenError::Store(error))
                    if self.faults.network
                        && matches!(error.kind(), StoreErrorKind::Unavailable { .. }) =>
                {
                    self.world.tick();
                    self.world.pauses(10).await;
                }
                Err(error) => {
                    self.history
                        .violation(format!("a node cannot start: {}", chain(&error)));
                    return None;
                }
            }
        }
    }

    /// Crashes, sleeps, and shards that fall silent.
    async fn trouble(&self) {
        for _ in 0..6 {
            self.world.pauses(120).await;
            let node = usize::try_from(self.world.below(NODES as u64)).unwrap();
            match self.world.below(4) {
                0 if self.faults.crashes => {
                    self.world.note(|| format!("node {node} crashes"));
                    self.spawner.kill(node);
                    self.start(node, 3);
                }
                1..=2 if self.faults.crashes => {
                    self.world.note(|| format!("node {node} sleeps"));
                    self.spawner.sleep(node, 20 + self.world.below(1500));
                }
                3 if self.faults.network => {
                    let shard = self.world.below(u64::from(SHARDS));
                    self.world.note(|| format!("shard {shard} is down"));
                    let ticks = 4 + self.world.below(12);
                    self.world.take_down(usize::try_from(shard).unwrap(), ticks);
                }
                _ => {}
            }
        }
    }

    /// With nothing in the way, everything drains and settles, and a last look is in line with the rest.
    async fn come_to_rest(&self) {
        let mut healed = self.clone();
        healed.faults = Faults::default();
        let Some(store) = healed.open().await else {
            return;
        };
        for round in 0.. {
            let drained = store
                .drain(&DrainOptions::new().with_live(true), |_| {})
                .await;
            match drained {
                Err(error) => {
                    let text = chain(&error);
                    return self.history.violation(format!("a drain failed: {text}"));
                }
                Ok(_) if !store.plan().is_some_and(|plan| plan.is_migrating()) => {
                    break;
                }
                Ok(drained) if round == ROUNDS => {
                    return self
                        .history
                        .violation(format!("the deployment does not come to rest: {drained:?}"));
                }
                Ok(_) => {}
            }
        }
        let client = healed.client(store.clone(), false);
        for execution in 0..EXECUTIONS {
            // The acquisition unseals what a move that was called off has left.
            for request in [
                Request::Read,
                Request::Head,
                Request::Children,
                Request::Acquire,
            ] {
                client.ask(execution, request).await;
            }
        }
        self.audit(&store).await;
    }

    /// Every record is where the plan says, and unsealed.
    async fn audit(&self, store: &ShardedStore) {
        let plan = store.plan().unwrap();
        for shard in self.shards.iter() {
            let epoch = shard.store.current().await.unwrap().map(|plan| plan.epoch);
            let records = Records::new(1000).with_epoch(epoch);
            for record in shard.store.records(records).await.unwrap().records {
                let placed = plan.route(record.id.route_hash().0);
                let here = Placement::Settled(loom_shard_plan::ShardId(shard.number));
                if placed != here || record.sealed {
                    self.history.violation(format!(
                        "shard {} is left with {record:?}, which belongs on {placed:?}",
                        shard.number
                    ));
                }
            }
        }
    }
}

/// Executions of two buckets, so that they meet the same moves.
fn executions() -> Vec<ExecutionId> {
    let ids = (0..).map(|n| ExecutionId::new(format!("e{n}")).unwrap());
    ids.filter(|id| id.route_hash().0 % u64::from(BUCKETS) < 2)
        .take(EXECUTIONS)
        .collect()
}
