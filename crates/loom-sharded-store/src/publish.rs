//! The door to a new plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loom_shard_plan::{Placement, ShardId, ShardPlan};
use loom_spi::{EventStore, PlanEpoch, PublishedPlan, ShardLocation, StoreError};

use crate::core::Core;
use crate::drain::report_of;
use crate::ledger::{Attempt, publishable};
use crate::planner::Planner;
use crate::routing::{Routing, plan_epoch, routes_as_unplanned};
use crate::shard::Shard;
use crate::{BucketDrain, OpenError, PlanChangeError, ShardedStore};

/// How often one shard is tried again because its plan changes under the publisher.
const ATTEMPTS: usize = 8;

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

impl Core {
    pub(crate) async fn publish(
        &self,
        planner: &mut Planner,
        next: Arc<ShardPlan>,
    ) -> Result<Published, PlanChangeError> {
        let given = plan_epoch(&next);
        self.catch_up(planner).await?;
        if self.current.load().epoch() == Some(given) {
            let unreached = self.spread(planner, &next, &[]).await;
            return Ok(Published {
                epoch: given,
                unreached,
            });
        }
        let routing = self.complete(planner).await?;
        match (routing.plan(), routing.epoch()) {
            (Some(now), Some(current)) => {
                if given.epoch <= current.epoch {
                    return Err(PlanChangeError::Superseded { given, current });
                }
                now.validate_transition(&next)?;
                check_drained(&routing, now, &next).await?;
            }
            _ => {
                let shards = routing.sides().len();
                if !routes_as_unplanned(&next, shards as u64) {
                    return Err(PlanChangeError::ReroutesUnplanned { shards });
                }
            }
        }
        self.commit(planner, &routing, next).await
    }

    /// Publishes a plan that may follow the one of `routing`, which is complete.
    pub(crate) async fn commit(
        &self,
        planner: &mut Planner,
        routing: &Routing,
        next: Arc<ShardPlan>,
    ) -> Result<Published, PlanChangeError> {
        let epoch = plan_epoch(&next);
        planner.connect_missing(&next).await?;
        let mut unreached = Vec::new();
        if self.offers.ledgers {
            self.prepare_shards(planner, routing, &next).await?;
            self.decide(planner, routing, &next).await?;
            let leaving = routing.plan().map_or_else(Vec::new, |now| members(now));
            unreached = self.spread(planner, &next, &leaving).await;
        }
        self.install(planner, next).await?;
        Ok(Published { epoch, unreached })
    }

    /// Follows the newest plan that a shard has.
    pub(crate) async fn catch_up(&self, planner: &mut Planner) -> Result<(), PlanChangeError> {
        let routing = self.current.load_full();
        let (Some(mut seen), true) = (routing.epoch(), self.offers.ledgers) else {
            return Ok(());
        };
        for side in routing.sides() {
            let shard = side.shard();
            let ahead = shard
                .epoch()
                .await?
                .is_some_and(|epoch| epoch.epoch > seen.epoch);
            if ahead && self.follow(planner, seen, shard).await? {
                seen = self.current.load().epoch().unwrap_or(seen);
            }
        }
        Ok(())
    }

    /// The present plan on every one of its shards, before another one is thought of. Returns its routing.
    pub(crate) async fn complete(
        &self,
        planner: &Planner,
    ) -> Result<Arc<Routing>, PlanChangeError> {
        let routing = self.current.load_full();
        if let (Some(plan), true) = (routing.plan(), self.offers.ledgers)
            && let Some((_, error)) = self.spread(planner, plan, &[]).await.into_iter().next()
        {
            return Err(error);
        }
        Ok(routing)
    }

    /// Shards that join become shards of this deployment under the present plan, before any node is sent to
    /// them: then every shard is at most one epoch behind once the next plan is decided.
    async fn prepare_shards(
        &self,
        planner: &Planner,
        routing: &Routing,
        next: &ShardPlan,
    ) -> Result<(), PlanChangeError> {
        for id in members(next) {
            let shard = shard(&planner.known, id)?;
            if let Some(deployment) = &planner.deployment {
                shard.initialize(deployment).await?;
            }
            if let Some(now) = routing.plan()
                && now.shard(id).is_none()
            {
                give(shard, &publishable(now), true).await?;
            }
        }
        Ok(())
    }

    /// Compare and set on the lowest shard of the present plan; without one, of the first plan.
    async fn decide(
        &self,
        planner: &Planner,
        routing: &Routing,
        next: &ShardPlan,
    ) -> Result<(), PlanChangeError> {
        let deciding = members(routing.plan().map_or(next, |now| now));
        let deciding = deciding.first().ok_or(OpenError::NoShards)?;
        let deciding = shard(&planner.known, *deciding)?;
        match deciding
            .publish(&publishable(next), routing.epoch())
            .await?
        {
            Attempt::Taken => Ok(()),
            Attempt::Conflict(current) => Err(PlanChangeError::Lost { current }),
        }
    }

    /// Gives a plan that is decided to its shards and to `others`, and returns those that it did not reach.
    async fn spread(
        &self,
        planner: &Planner,
        plan: &ShardPlan,
        others: &[ShardId],
    ) -> Vec<(ShardId, PlanChangeError)> {
        if !self.offers.ledgers {
            return Vec::new();
        }
        let published = publishable(plan);
        let ids: BTreeSet<ShardId> = members(plan)
            .into_iter()
            .chain(others.iter().copied())
            .collect();
        let mut unreached = Vec::new();
        for id in ids {
            let given = match shard(&planner.known, id) {
                Ok(shard) => give(shard, &published, false).await,
                Err(error) => Err(error.into()),
            };
            if let Err(error) = given {
                unreached.push((id, error));
            }
        }
        unreached
    }
}

/// Refuses a plan that settles a bucket whose source still holds something.
async fn check_drained(
    routing: &Routing,
    now: &ShardPlan,
    next: &ShardPlan,
) -> Result<(), PlanChangeError> {
    // A step that changes the number of buckets settles none.
    let settling = now
        .migrating()
        .map(|migration| migration.bucket)
        .filter(|bucket| matches!(next.placement(*bucket), Some(Placement::Settled(_))))
        .collect();
    let undrained: Vec<BucketDrain> = report_of(routing, Some(settling))
        .await?
        .undrained()
        .cloned()
        .collect();
    if undrained.is_empty() {
        Ok(())
    } else {
        Err(PlanChangeError::NotDrained(undrained))
    }
}

/// Gives a decided plan to a shard, unless the shard is ahead of it. Only one that joins may have missed
/// more than one epoch.
async fn give(shard: &Shard, plan: &PublishedPlan, joins: bool) -> Result<(), PlanChangeError> {
    let mut conflict = None;
    for _ in 0..ATTEMPTS {
        let current = shard.epoch().await?;
        match current {
            Some(found) if found.epoch >= plan.epoch.epoch => return Ok(()),
            Some(found) if found.epoch + 1 < plan.epoch.epoch && !joins => {
                let (shard, expected) = (shard.id, plan.epoch);
                return Err(PlanChangeError::FarBehind {
                    shard,
                    current,
                    expected,
                });
            }
            _ => {}
        }
        match shard.publish(plan, current).await? {
            Attempt::Taken => return Ok(()),
            Attempt::Conflict(current) => conflict = current,
        }
    }
    Err(PlanChangeError::Lost { current: conflict })
}

/// The shards of a plan, ascending.
fn members(plan: &ShardPlan) -> Vec<ShardId> {
    plan.shards()
        .iter()
        .map(loom_shard_plan::Shard::id)
        .collect()
}

fn shard(known: &BTreeMap<ShardId, Shard>, id: ShardId) -> Result<&Shard, OpenError> {
    known.get(&id).ok_or(OpenError::MissingShard { shard: id })
}
