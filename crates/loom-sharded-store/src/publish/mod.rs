//! The door to a new plan.

mod protocol;

pub(crate) use protocol::is_overtaken;

use std::sync::Arc;

use loom_shard_plan::{ShardId, ShardPlan};
use loom_spi::{EventStore, PlanEpoch, ShardLocation, StoreError};

pub(crate) use self::protocol::give;
use crate::routing::plan_epoch;
use crate::shard::Shard;
use crate::{OpenError, PlanChangeError, ShardedStore};

impl ShardedStore {
    /// Makes `plan` the plan of the deployment, in this order:
    ///
    /// 1. Follows a newer plan, if a shard has one, and completes the present one on every shard.
    /// 2. Checks that `plan` may follow it, and that every bucket that settles is drained.
    /// 3. Connects to the shards that join, and makes them shards of this deployment.
    /// 4. Publishes, compare and set, on the deciding shard: the lowest of the *present* plan. From then on it
    ///    is decided.
    /// 5. Publishes on every other shard of both plans, and routes by it.
    ///
    /// Publishing the present plan again succeeds and completes it on shards that an earlier call did not
    /// reach. Other processes follow as soon as they meet a shard that has it.
    ///
    /// Where the shards keep no ledger, steps 2 and 3 are all there is to decide, and the plan is adopted in
    /// this process: see [`adopt`](Self::adopt).
    ///
    /// # Errors
    /// [`PlanChangeError`]. Before step 4 the plan is what it was. After it, shards that cannot be reached
    /// are named in [`Published::unreached`]; the publication stands.
    ///
    /// # Cancel safety
    /// Dropping the call leaves the plan published or not, on some shards or all; calling it again with the
    /// same plan completes it.
    pub async fn publish(&self, plan: ShardPlan) -> Result<Published, PlanChangeError> {
        let mut planner = self.core.planner.lock().await;
        self.core.publish(&mut planner, Arc::new(plan)).await
    }

    /// Routes by `plan` in this process, which somebody has decided on for the whole deployment.
    ///
    /// Where the shards keep no ledger, this is how a plan takes effect, in every process by itself, and that
    /// all of them come to the same one is the operator's care. The plan has to follow the present one and the
    /// buckets that settle have to be drained, or nothing is changed. Operations in flight are waited for, so
    /// that none runs under the old plan beside one under the new; those that come meanwhile wait too. An
    /// operation whose future is kept but never polled is waited for as well.
    ///
    /// Where the shards keep the plan, this only checks that they have been given it: use
    /// [`publish`](Self::publish) to change it, and [`refresh`](Self::refresh) to follow it early.
    ///
    /// Adopting the present plan again succeeds and changes nothing.
    ///
    /// # Errors
    /// [`PlanChangeError`]; the plan is then what it was.
    ///
    /// # Cancel safety
    /// Dropping the call leaves the old plan or the new one, never a mixture.
    pub async fn adopt(&self, plan: ShardPlan) -> Result<Published, PlanChangeError> {
        let mut planner = self.core.planner.lock().await;
        let plan = Arc::new(plan);
        if !self.core.offers.ledgers {
            return self.core.publish(&mut planner, plan).await;
        }
        self.core.catch_up(&mut planner).await?;
        let given = plan_epoch(&plan);
        match self.core.current.load().epoch() {
            Some(current) if current == given => Ok(Published::complete(given)),
            Some(current) => Err(PlanChangeError::NotPublished { given, current }),
            None => Err(PlanChangeError::Unplanned),
        }
    }

    /// Follows the newest plan that a shard has, instead of waiting until a request meets it. Says which plan
    /// is the present one.
    ///
    /// # Errors
    /// [`PlanChangeError::Store`] when a shard cannot be asked, [`PlanChangeError::Shards`] when a new one
    /// cannot be reached.
    ///
    /// # Cancel safety
    /// Dropping the call leaves the old plan or the newer one.
    pub async fn refresh(&self) -> Result<Option<PlanEpoch>, PlanChangeError> {
        let mut planner = self.core.planner.lock().await;
        if self.core.offers.ledgers {
            self.core.catch_up(&mut planner).await?;
        }
        Ok(self.core.current.load().epoch())
    }

    /// Gives the store of a shard that a later plan will name. Nothing is routed to it before.
    ///
    /// # Errors
    /// [`OpenError::DuplicateShard`] when the number is taken, [`OpenError::LessCapable`] when the store
    /// does not offer what the others do, [`OpenError::MixedLedgers`], and [`OpenError::Store`] when it is a
    /// shard of another deployment or cannot be reached.
    ///
    /// # Cancel safety
    /// The store is taken or not.
    pub async fn add_shard(
        &self,
        shard: impl Into<ShardId>,
        store: Arc<dyn EventStore>,
    ) -> Result<(), OpenError> {
        let shard = shard.into();
        let mut planner = self.core.planner.lock().await;
        if planner.known.contains_key(&shard) {
            return Err(OpenError::DuplicateShard { shard });
        }
        planner.admit(Shard { id: shard, store }).await
    }

    /// Writes where shards are into the directory of every shard that is known, so that processes that are
    /// running find one that joins. Call it before the plan that names the new shard is published.
    ///
    /// # Errors
    /// `Unavailable` when a shard cannot be reached, `Unsupported` when the shards keep no ledger.
    ///
    /// # Cancel safety
    /// Dropping the call leaves some directories written and others not; it may be repeated.
    pub async fn record_locations(&self, locations: Vec<ShardLocation>) -> Result<(), StoreError> {
        let planner = self.core.planner.lock().await;
        for shard in planner.known.values() {
            shard.record_locations(locations.clone()).await?;
        }
        Ok(())
    }
}

/// What became of a plan that was published or adopted.
#[derive(Debug)]
#[non_exhaustive]
pub struct Published {
    /// The plan that is current now.
    pub epoch: PlanEpoch,
    /// The shards that could not be given the plan, and why. They are under the old one until some process
    /// reaches them, and nothing more can be published before that.
    pub unreached: Vec<(ShardId, PlanChangeError)>,
}

impl Published {
    pub(crate) fn complete(epoch: PlanEpoch) -> Self {
        Self {
            epoch,
            unreached: Vec::new(),
        }
    }
}
