//! How a plan is published: see [`ShardedStore::publish`](crate::ShardedStore::publish).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loom_shard_plan::{Placement, ShardId, ShardPlan};
use loom_spi::{List, PublishedPlan, Records, StoreErrorKind};
use tracing::Instrument as _;

use super::Published;
use crate::core::Core;
use crate::drain::report_of;
use crate::ledger::{Attempt, publishable};
use crate::planner::{Planner, Unused};
use crate::routing::{Routing, plan_epoch, routes_as_unplanned};
use crate::rules::Rule;
use crate::shard::{Shard, Side};
use crate::{BucketDrain, OpenError, PlanChangeError};

/// How often one shard is tried again because its plan changes under the publisher.
const ATTEMPTS: usize = 8;

impl Core {
    pub(crate) async fn publish(
        &self,
        planner: &mut Planner,
        next: Arc<ShardPlan>,
    ) -> Result<Published, PlanChangeError> {
        let span = tracing::info_span!("loom.publish", epoch = next.epoch());
        async {
            for _ in 1..ATTEMPTS {
                match self.try_publish(planner, &next).await {
                    // The drain check met a newer plan: then this one comes too late, which is the answer.
                    Err(error @ PlanChangeError::Store(_)) if is_overtaken(&error) => {}
                    published => return published,
                }
            }
            self.try_publish(planner, &next).await
        }
        .instrument(span)
        .await
    }

    async fn try_publish(
        &self,
        planner: &mut Planner,
        next: &Arc<ShardPlan>,
    ) -> Result<Published, PlanChangeError> {
        let next = Arc::clone(next);
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
                if self.rules.keep(Rule::ValidateStep) {
                    now.validate_transition(&next)?;
                }
                if self.rules.keep(Rule::CheckDrained) {
                    check_drained(&routing, now, &next).await?;
                }
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
        planner.connect_missing(&next, Unused::Taken).await?;
        // Whether it can be routed by is known before it is decided.
        Routing::planned(Arc::clone(&next), &planner.known, Some(routing))?;
        let mut unreached = Vec::new();
        if self.offers.ledgers {
            self.prepare_shards(planner, routing, &next).await?;
            self.decide(planner, routing, &next).await?;
            let leaving = routing.plan().map_or_else(Vec::new, |now| members(now));
            unreached = self.spread(planner, &next, &leaving).await;
        }
        let settled = routing.plan().map_or(0, |now| settled_by(now, &next));
        self.install(planner, next).await?;
        self.counters.publications.count();
        self.counters.settled_buckets.add(settled);
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
        let complete = self.offers.ledgers && self.rules.keep(Rule::CompleteFirst);
        if let (Some(plan), true) = (routing.plan(), complete)
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
                refuse_used(shard, now).await?;
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
        let present = routing
            .plan()
            .filter(|_| self.rules.keep(Rule::DecideOnPresent));
        let deciding = members(present.map_or(next, |now| now));
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

/// Whether another plan was published meanwhile.
pub(crate) fn is_overtaken(error: &PlanChangeError) -> bool {
    match error {
        PlanChangeError::Lost { .. } | PlanChangeError::Superseded { .. } => true,
        PlanChangeError::Store(error) => matches!(error.kind(), StoreErrorKind::StalePlan { .. }),
        _ => false,
    }
}

/// Refuses a plan that settles a bucket whose source still holds something.
async fn check_drained(
    routing: &Routing,
    now: &ShardPlan,
    next: &ShardPlan,
) -> Result<(), PlanChangeError> {
    let settling = settling(now, next).collect();
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

/// Refuses a shard that joins and holds something. It is from before the shard was given up, or written around the
/// plan, and would be taken for the present.
async fn refuse_used(shard: &Shard, now: &ShardPlan) -> Result<(), PlanChangeError> {
    let epoch = shard.epoch().await?;
    if epoch.is_some_and(|epoch| epoch.epoch > now.epoch()) {
        // A rival was faster, which is for the decision to say.
        return Ok(());
    }
    let side = Side::new(shard, &epoch);
    let found = if shard.store.capabilities().relocation.is_some() {
        let page = side.records(Records::new(1)).await?;
        page.records.into_iter().next().map(|record| record.id)
    } else {
        let page = side.list(List::new(1)).await?;
        page.executions.into_iter().next().map(|found| found.id)
    };
    match found {
        None => Ok(()),
        Some(execution) => {
            let shard = shard.id;
            Err(PlanChangeError::Used { shard, execution })
        }
    }
}

/// The buckets that `next` settles. A step that changes the number of buckets settles none.
fn settling<'a>(now: &'a ShardPlan, next: &'a ShardPlan) -> impl Iterator<Item = u32> + 'a {
    now.migrating()
        .map(|migration| migration.bucket)
        .filter(|bucket| matches!(next.placement(*bucket), Some(Placement::Settled(_))))
}

fn settled_by(now: &ShardPlan, next: &ShardPlan) -> u64 {
    if now.bucket_count() == next.bucket_count() {
        settling(now, next).count() as u64
    } else {
        0
    }
}

/// Gives a decided plan to a shard, unless the shard is ahead of it. Only one that joins may have missed
/// more than one epoch.
pub(crate) async fn give(
    shard: &Shard,
    plan: &PublishedPlan,
    joins: bool,
) -> Result<(), PlanChangeError> {
    let mut conflict = None;
    for _ in 0..ATTEMPTS {
        let current = shard.epoch().await?;
        match current {
            Some(found) if found == plan.epoch || found.epoch > plan.epoch.epoch => return Ok(()),
            // A rival that nobody decided on.
            Some(found) if found.epoch == plan.epoch.epoch => {
                return Err(PlanChangeError::Lost { current });
            }
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
