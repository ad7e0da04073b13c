//! The shards one by one, each under the plan that it is under by itself.

mod logs;

use std::sync::Arc;

use async_trait::async_trait;
use loom_shard_plan::{Placement, ShardPlan};
use loom_spi::{EventStore, ExecutionId, PlanEpoch, StoreError, StoreErrorKind};

pub(crate) use self::logs::{Copy, Relation, compare, copy_of, read_log};
use crate::deployment::{Deployment, ledger_epoch};
use crate::failure::Failure;

/// One shard, and the plan that it was under when it was looked at. What it is asked under another one, it refuses.
#[derive(Clone)]
pub(crate) struct Side {
    pub(crate) shard: u16,
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) epoch: Option<PlanEpoch>,
}

/// All shards of a deployment that are reached, and its plan, at a moment at which no shard was ahead of that.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) plan: Arc<ShardPlan>,
    pub(crate) sides: Arc<[Side]>,
}

impl View {
    /// Which of an execution's logs is served is the one for which this is least: where the plan permits it, an
    /// unsealed one before a sealed one, and of equals the destination's.
    pub(crate) fn turn(&self, id: &ExecutionId, shard: u16, sealed: bool) -> impl Ord {
        let placement = self.placement(id);
        let aside = placement.destination().get() != shard;
        (!placement.names(shard.into()), sealed, aside)
    }

    pub(crate) fn placement(&self, id: &ExecutionId) -> Placement {
        self.plan.route_id(id.as_str())
    }
}

/// What has shards and a plan that may change while one looks.
#[async_trait]
pub(crate) trait Look: Sync {
    async fn look(&self) -> Result<View, Failure>;
}

#[async_trait]
impl Look for Deployment {
    async fn look(&self) -> Result<View, Failure> {
        loop {
            self.store.refresh().await?;
            let plan = self.plan()?;
            let mut sides = Vec::new();
            for (shard, store) in self.shards().await {
                let epoch = ledger_epoch(&*store).await?;
                sides.push(Side {
                    shard,
                    store,
                    epoch,
                });
            }
            // Published in between: the next look follows it.
            let ahead = |side: &Side| side.epoch.is_some_and(|at| at.epoch > plan.epoch());
            if !sides.iter().any(ahead) {
                let sides = sides.into();
                return Ok(View { plan, sides });
            }
        }
    }
}

/// Why what was begun under a [`View`] was not finished.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A shard is under another plan by now: look again.
    Changed,
    Failed(Failure),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        match error.kind() {
            StoreErrorKind::StalePlan { .. } | StoreErrorKind::ShardBehind { .. } => Self::Changed,
            _ => Self::Failed(error.into()),
        }
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}
