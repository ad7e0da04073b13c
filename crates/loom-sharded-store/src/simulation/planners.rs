//! Whoever changes the plan and moves executions.

use std::num::NonZeroUsize;
use std::rc::Rc;

use loom_shard_plan::{ShardId, Topology};
use loom_spi::{ExecutionId, StoreErrorKind};

use super::clients::{Mood, chain};
use super::history::History;
use super::world::World;
use crate::{DrainOptions, MigrateError, OpenError, PlanChangeError, ShardedStore};

pub(super) struct Planner {
    pub(super) world: World,
    pub(super) history: History,
    pub(super) ids: Rc<Vec<ExecutionId>>,
    pub(super) store: ShardedStore,
    pub(super) shards: u16,
    pub(super) excused: bool,
    pub(super) mood: Mood,
}

impl Planner {
    pub(super) async fn work(self, steps: u64) {
        for _ in 0..steps {
            self.world.pauses(30).await;
            let chance = match self.mood {
                Mood::Any => self.world.below(12),
                Mood::Turning => self.world.one_of(&[0, 0, 1, 2, 3, 7, 7, 8, 8, 10]),
                Mood::Looking | Mood::Deleting => self.world.one_of(&[0, 1, 2, 2, 3, 5, 7, 10, 11]),
            };
            match chance {
                0..=2 => self.migrate().await,
                3 => self.drain(true).await,
                4 => self.drain(false).await,
                5 => self.done("settle", self.store.settle_drained().await.map(drop)),
                6 => self.settle_some().await,
                7..=8 => self.revert().await,
                9 => self.skip_ahead().await,
                _ => self.rebalance().await,
            }
        }
    }

    async fn migrate(&self) {
        let place = self.world.below(2 * self.ids.len() as u64);
        let place = usize::try_from(place).unwrap();
        let id = self.ids.get(place).unwrap_or(&self.ids[0]);
        self.world.note(|| format!("migrate {id}"));
        match self.store.migrate_execution(id).await {
            Ok(moved) => self.world.note(|| format!("migrated {id}: {moved:?}")),
            Err(MigrateError::Store(error)) => match error.kind() {
                StoreErrorKind::NotFound => {}
                StoreErrorKind::Unavailable { .. } if self.excused => {}
                _ => self
                    .history
                    .violation(format!("a move failed: {}", chain(&error))),
            },
            Err(error) => self
                .history
                .violation(format!("a move failed: {}", chain(&error))),
        }
    }

    async fn drain(&self, live: bool) {
        self.world.note(|| format!("drain, live: {live}"));
        let options = DrainOptions::new()
            .with_live(live)
            .with_settle(self.world.one_in(2))
            .with_at_once(NonZeroUsize::MIN.saturating_add(1));
        let drained = self.store.drain(&options, |_| {}).await;
        self.done("drain", drained.map(drop));
    }

    async fn revert(&self) {
        let Some(plan) = self.store.plan() else {
            return;
        };
        let migrating: Vec<u32> = plan.migrating().map(|migration| migration.bucket).collect();
        let some = self.world.below(3);
        let buckets: Vec<u32> = migrating
            .into_iter()
            .filter(|_| some == 0 || self.world.one_in(2))
            .collect();
        if buckets.is_empty() {
            return;
        }
        self.world
            .note(|| format!("revert {buckets:?} of epoch {}", plan.epoch()));
        self.done("revert", self.store.revert(buckets).await.map(drop));
    }

    /// Whether they are drained or not, which is for the store to find out.
    async fn settle_some(&self) {
        let Some(plan) = self.store.plan() else {
            return;
        };
        let migrating = plan.migrating().map(|migration| migration.bucket);
        let buckets: Vec<u32> = migrating.filter(|_| self.world.one_in(2)).collect();
        self.world
            .note(|| format!("settle {buckets:?} of epoch {}", plan.epoch()));
        self.done("settle", self.store.settle(buckets).await.map(drop));
    }

    /// A plan of which the steps between were never published.
    async fn skip_ahead(&self) {
        let Some(plan) = self.store.plan() else {
            return;
        };
        let shard = ShardId(u16::try_from(self.world.below(u64::from(self.shards))).unwrap());
        let mut topology = Topology::of(&plan);
        if let Ok(joined) = topology.clone().joining(shard, 1) {
            topology = joined;
        }
        let Ok(step) = plan.rebalance(&topology) else {
            return;
        };
        let buckets: Vec<u32> = step.migrating().map(|migration| migration.bucket).collect();
        if let Ok(next) = step.settled_all(buckets) {
            self.world
                .note(|| format!("publish epoch {}, skipping: {next}", next.epoch()));
            self.done("publish", self.store.publish(next).await.map(drop));
        }
    }

    async fn rebalance(&self) {
        let Some(plan) = self.store.plan() else {
            return;
        };
        let mut topology = Topology::of(&plan);
        for shard in (0..self.shards).map(ShardId) {
            let member = topology.members().iter().any(|member| member.id() == shard);
            let changed = match (member, self.world.below(4)) {
                (false, 0..=1) => topology.clone().joining(shard, 1),
                (true, 0) if topology.members().len() > 1 => topology.clone().leaving(shard),
                _ => continue,
            };
            if let Ok(changed) = changed {
                topology = changed;
            }
        }
        // Refused while something migrates, mostly.
        let Ok(next) = plan.rebalance(&topology) else {
            return;
        };
        self.world
            .note(|| format!("publish epoch {}: {next}", next.epoch()));
        self.done("publish", self.store.publish(next).await.map(drop));
    }

    /// Rivals may be faster, and then a step is refused; anything else is a fault.
    fn done(&self, what: &str, done: Result<(), PlanChangeError>) {
        let Err(error) = done else { return };
        self.world.note(|| format!("{what}: {}", chain(&error)));
        let right = match &error {
            PlanChangeError::Refused(_)
            | PlanChangeError::Plan(_)
            | PlanChangeError::NotDrained(_)
            | PlanChangeError::Superseded { .. }
            | PlanChangeError::Lost { .. }
            | PlanChangeError::Unplanned => true,
            PlanChangeError::Store(error) | PlanChangeError::Shards(OpenError::Store(error)) => {
                self.excused && matches!(error.kind(), StoreErrorKind::Unavailable { .. })
            }
            PlanChangeError::Shards(OpenError::Connect { .. }) => self.excused,
            _ => false,
        };
        if !right {
            self.history
                .violation(format!("{what} failed: {}", chain(&error)));
        }
    }
}
