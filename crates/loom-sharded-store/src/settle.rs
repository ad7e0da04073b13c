//! Ending migrations whose sources are empty.

use std::sync::Arc;

use loom_shard_plan::Placement;
use loom_spi::PlanEpoch;
use tracing::Instrument as _;

use crate::core::Core;
use crate::drain::report_of;
use crate::planner::Planner;
use crate::publish::is_overtaken;
use crate::{DrainReport, PlanChangeError, Published, ShardedStore};

/// How often settling what is drained starts again because the plan changes under it.
const ATTEMPTS: usize = 8;

impl ShardedStore {
    /// Settles migrating buckets on their destinations, all in one epoch, and [publishes](Self::publish) the
    /// plan. All of them have to be drained, or nothing is changed. Those that are settled already are left as
    /// they are, so that a call whose answer was lost may be repeated.
    ///
    /// # Errors
    /// [`PlanChangeError::NotDrained`] names what is left and where, [`PlanChangeError::Plan`] a bucket that
    /// does not exist, [`PlanChangeError::Unplanned`] when there is no plan, and the others as for
    /// [`publish`](Self::publish).
    ///
    /// # Cancel safety
    /// As [`publish`](Self::publish).
    pub async fn settle(
        &self,
        buckets: impl IntoIterator<Item = u32> + Send,
    ) -> Result<Published, PlanChangeError> {
        let buckets: Vec<u32> = buckets.into_iter().collect();
        let mut planner = self.core.planner.lock().await;
        self.core.catch_up(&mut planner).await?;
        let routing = self.core.current.load_full();
        let plan = routing.plan().ok_or(PlanChangeError::Unplanned)?;
        let settled = |bucket: &u32| matches!(plan.placement(*bucket), Some(Placement::Settled(_)));
        let open: Vec<u32> = buckets
            .into_iter()
            .filter(|bucket| !settled(bucket))
            .collect();
        let next = if open.is_empty() {
            Arc::clone(plan)
        } else {
            Arc::new(plan.settled_all(open)?)
        };
        self.core.publish(&mut planner, next).await
    }

    /// Calls migrations off: each of these buckets migrates back to the shard it came from, in one epoch, and
    /// the plan is [published](Self::publish). New executions are created where they were before, what has moved
    /// already moves back lazily or by a [drain](Self::drain), and once its other side is empty the bucket
    /// settles where it was. Reverting a revert goes on as before.
    ///
    /// # Errors
    /// [`PlanChangeError::Plan`] for a bucket that does not migrate, [`PlanChangeError::Unplanned`] when there
    /// is no plan, and the others as for [`publish`](Self::publish).
    ///
    /// # Cancel safety
    /// As [`publish`](Self::publish). A call whose answer was lost must not be repeated blindly, since it turns
    /// the buckets round again: look at the plan first.
    pub async fn revert(
        &self,
        buckets: impl IntoIterator<Item = u32> + Send,
    ) -> Result<Published, PlanChangeError> {
        let buckets: Vec<u32> = buckets.into_iter().collect();
        let mut planner = self.core.planner.lock().await;
        self.core.catch_up(&mut planner).await?;
        let routing = self.core.current.load_full();
        let plan = routing.plan().ok_or(PlanChangeError::Unplanned)?;
        let next = Arc::new(plan.reverted_all(buckets)?);
        self.core.publish(&mut planner, next).await
    }

    /// Settles every migrating bucket that is drained, in one epoch. One execution that never ends holds up its
    /// own bucket and no other; the report names it.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    ///
    /// # Cancel safety
    /// As [`settle`](Self::settle).
    pub async fn settle_drained(&self) -> Result<Settled, PlanChangeError> {
        async {
            let mut planner = self.core.planner.lock().await;
            for _ in 1..ATTEMPTS {
                match self.core.settle_drained(&mut planner).await {
                    // Somebody else changed the plan meanwhile: what is drained under the new one is to be
                    // settled.
                    Err(error) if is_overtaken(&error) => {}
                    settled => return settled,
                }
            }
            self.core.settle_drained(&mut planner).await
        }
        .instrument(tracing::info_span!("loom.settle"))
        .await
    }
}

impl Core {
    async fn settle_drained(&self, planner: &mut Planner) -> Result<Settled, PlanChangeError> {
        self.catch_up(planner).await?;
        let routing = self.complete(planner).await?;
        let plan = routing.plan().ok_or(PlanChangeError::Unplanned)?;
        let report = report_of(&routing, None).await?;
        let buckets: Vec<u32> = report.drained().collect();
        let left = DrainReport {
            buckets: report.undrained().cloned().collect(),
        };
        let published = if buckets.is_empty() {
            None
        } else {
            let next = plan.settled_all(buckets.iter().copied())?;
            Some(self.commit(planner, &routing, Arc::new(next)).await?)
        };
        Ok(Settled {
            buckets,
            left,
            epoch: self.current.load().epoch(),
            published,
        })
    }
}

/// What [`ShardedStore::settle_drained`] did.
#[derive(Debug)]
#[non_exhaustive]
pub struct Settled {
    /// The buckets that have settled.
    pub buckets: Vec<u32>,
    /// The buckets that go on migrating, and what is left of them.
    pub left: DrainReport,
    /// The plan that is current now.
    pub epoch: Option<PlanEpoch>,
    /// The publication; `None` when nothing was drained and the plan is as it was.
    pub published: Option<Published>,
}
