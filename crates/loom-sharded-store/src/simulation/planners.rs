//! Whoever changes the plan and moves executions.

use std::num::NonZeroUsize;
use std::rc::Rc;

use loom_shard_plan::{ShardId, Topology};
use loom_spi::{ExecutionId, StoreErrorKind};

use super::clients::chain;
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
}

impl Planner {
    pub(super) async fn work(self, steps: u64) {
        for _ in 0..steps {
            self.world.pauses(30).await;
            match self.world.below(8) {
                0..=1 => self.migrate().await,
                2 => self.drain(true).await,
                3 => self.drain(false).await,
                4 => self.done("settle", self.store.settle_drained().await.map(drop)),
                5 => self.revert().await,
                _ => self.rebalance().await,
            }
        }
    }

    async fn migrate(&self) {
        let place = self.world.below(self.ids.len() as u64);
        let id = &self.ids[usize::try_from(place).unwrap()];
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
