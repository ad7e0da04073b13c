//! Opening a store.

use std::sync::Arc;

use loom_shard_plan::{ShardId, ShardPlan};
use loom_spi::{DeploymentId, EventStore};

use crate::core::Core;
use crate::first_plan;
use crate::planner::{Planner, Unused};
use crate::routing::Routing;
use crate::rules::Rules;
use crate::shard::Shard;
use crate::{Connect, OpenError, ShardedStore};

/// How many resolutions are cached unless the builder says otherwise.
const CACHE_CAPACITY: u64 = 65_536;

/// Opens a [`ShardedStore`].
#[derive(Debug)]
#[must_use]
pub struct ShardedStoreBuilder {
    shards: Vec<Shard>,
    plan: Option<ShardPlan>,
    deployment: Option<DeploymentId>,
    connect: Option<Arc<dyn Connect>>,
    cache_capacity: u64,
    rules: Rules,
}

impl Default for ShardedStoreBuilder {
    fn default() -> Self {
        Self {
            shards: Vec::new(),
            plan: None,
            deployment: None,
            connect: None,
            cache_capacity: CACHE_CAPACITY,
            rules: Rules::default(),
        }
    }
}

impl ShardedStoreBuilder {
    /// Adds the store of one shard. A shard that the plan does not name is kept ready for a later plan.
    pub fn shard(mut self, shard: impl Into<ShardId>, store: Arc<dyn EventStore>) -> Self {
        self.shards.push(Shard {
            id: shard.into(),
            store,
        });
        self
    }

    /// Adds stores as the shards 0, 1, 2, …
    pub fn shards(mut self, stores: impl IntoIterator<Item = Arc<dyn EventStore>>) -> Self {
        // Past the last number they would be duplicates, which opening refuses.
        let numbers = (0..=u16::MAX).chain(std::iter::repeat(u16::MAX));
        let shards = numbers.zip(stores).map(|(id, store)| Shard {
            id: ShardId(id),
            store,
        });
        self.shards.extend(shards);
        self
    }

    /// Routes by `plan`. Where the shards keep a plan, theirs goes first if it is newer, and one that was never
    /// published is refused. On shards that have none yet, it becomes the first, provided that they are empty or
    /// that it routes as they have been routed to so far, by `hash % shard_count`.
    ///
    /// Default: the plan that the shards keep; without one, `hash % shard_count`.
    pub fn plan(mut self, plan: ShardPlan) -> Self {
        self.plan = Some(plan);
        self
    }

    /// States which deployment this is: opening, and every later connection, then refuses a store that is not
    /// the shard it should be. Needs shards that keep a ledger.
    ///
    /// Default: the deployment that the shards name, and then all of them have to. A wiped server is noticed
    /// only by those that are left.
    pub fn deployment(mut self, deployment: DeploymentId) -> Self {
        self.deployment = Some(deployment);
        self
    }

    /// How to reach a shard that a plan names and that was not given.
    pub fn connect(mut self, connect: impl Connect) -> Self {
        self.connect = Some(Arc::new(connect));
        self
    }

    /// How many executions of migrating buckets the resolution cache remembers. Default 65,536, about 20 MiB
    /// with ids of ordinary length; 0 turns it off.
    pub fn cache_capacity(mut self, executions: u64) -> Self {
        self.cache_capacity = executions;
        self
    }

    /// A store that breaks a rule.
    #[cfg(test)]
    pub(crate) fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Makes unused stores the shards of the [`deployment`](Self::deployment) that was stated, and opens
    /// them. Doing it again after an interruption completes it.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`OpenError::NoDeployment`] when none was stated.
    ///
    /// # Cancel safety
    /// Dropping the call leaves some stores initialised and others not; it may be repeated.
    pub async fn create(self) -> Result<ShardedStore, OpenError> {
        let deployment = self.deployment.clone().ok_or(OpenError::NoDeployment)?;
        let planner = Planner::new(self.shards.clone(), self.deployment.clone(), None)?;
        for shard in planner.known.values() {
            shard.initialize(&deployment).await?;
        }
        self.open().await
    }

    /// Checks that the stores make up one sharded store, and opens it.
    ///
    /// # Errors
    /// [`OpenError`]; nothing was changed, except that a first plan may have reached some of the shards.
    ///
    /// # Cancel safety
    /// The call may be dropped and repeated.
    pub async fn open(self) -> Result<ShardedStore, OpenError> {
        let Self {
            shards,
            plan,
            deployment,
            connect,
            cache_capacity,
            rules,
        } = self;
        let mut planner = Planner::new(shards, deployment, connect)?;
        planner.adopt_deployment().await?;
        for shard in planner.known.values() {
            planner.verify_unless_unused(shard).await?;
        }
        let plan = match (planner.offers.ledgers, plan.map(Arc::new)) {
            (true, given) => first_plan::choose(&mut planner, given).await?,
            (false, given) => given,
        };
        let routing = match plan {
            None => {
                for shard in planner.known.values() {
                    planner.verify(shard).await?;
                }
                Routing::unplanned(&planner.known)?
            }
            Some(plan) => {
                planner.connect_missing(&plan, Unused::Refused).await?;
                for shard in planner.known.values() {
                    if plan.shard(shard.id).is_some() {
                        planner.verify(shard).await?;
                    }
                }
                Routing::planned(plan, &planner.known, None)?
            }
        };
        Ok(ShardedStore {
            core: Arc::new(Core::new(planner, routing, cache_capacity, rules)),
        })
    }
}
