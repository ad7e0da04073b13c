//! Which plan a store is opened with, where the shards keep it.

use std::sync::Arc;

use loom_shard_plan::{ShardId, ShardPlan};
use loom_spi::{List, PlanEpoch};

use crate::OpenError;
use crate::ledger::{Attempt, publishable};
use crate::planner::{Planner, Unused};
use crate::routing::{plan_epoch, routes_as_unplanned};

/// The newest plan that a shard holds. If none holds one, the plan that was given is published as the first.
pub(crate) async fn choose(
    planner: &mut Planner,
    given: Option<Arc<ShardPlan>>,
) -> Result<Option<Arc<ShardPlan>>, OpenError> {
    let Some((current, plan)) = newest(planner).await? else {
        if let Some(given) = &given {
            publish_first(planner, given).await?;
        }
        return Ok(given);
    };
    match given.as_deref().map(plan_epoch) {
        Some(given) if given.epoch >= current.epoch && given != current => {
            Err(OpenError::NotPublished { given, current })
        }
        _ => Ok(Some(plan)),
    }
}

async fn newest(planner: &Planner) -> Result<Option<(PlanEpoch, Arc<ShardPlan>)>, OpenError> {
    let mut newest: Option<(PlanEpoch, ShardId)> = None;
    for shard in planner.known.values() {
        let Some(found) = shard.epoch().await? else {
            continue;
        };
        newest = match newest {
            Some((current, _)) if found.epoch == current.epoch && found != current => {
                return Err(OpenError::RivalPlans {
                    shard: shard.id,
                    found,
                    current,
                });
            }
            Some((current, _)) if found.epoch <= current.epoch => newest,
            _ => Some((found, shard.id)),
        };
    }
    let Some((_, holder)) = newest else {
        return Ok(None);
    };
    let Some(shard) = planner.known.get(&holder) else {
        return Ok(None);
    };
    let plan = shard.plan().await?;
    Ok(plan.map(|plan| (plan_epoch(&plan), plan)))
}

/// On the lowest shard first: of two processes that come with different plans, one wins.
async fn publish_first(planner: &mut Planner, plan: &Arc<ShardPlan>) -> Result<(), OpenError> {
    planner.connect_missing(plan, Unused::Refused).await?;
    refuse_hidden(planner, plan).await?;
    let published = publishable(plan);
    for id in plan.shards().iter().map(loom_shard_plan::Shard::id) {
        let Some(shard) = planner.known.get(&id) else {
            return Err(OpenError::MissingShard { shard: id });
        };
        match shard.publish(&published, None).await? {
            Attempt::Taken | Attempt::Conflict(None) => {}
            Attempt::Conflict(Some(current)) if current.epoch > published.epoch.epoch => {
                // Others have gone on meanwhile; the first request will meet their plan.
                return Ok(());
            }
            Attempt::Conflict(Some(current)) => {
                let given = published.epoch;
                return Err(OpenError::NotPublished { given, current });
            }
        }
    }
    Ok(())
}

/// Refuses a first plan that would not find what is there: it has to route as its shards have been routed to
/// so far, and every shard that it leaves out has to be empty; or all shards are.
async fn refuse_hidden(planner: &Planner, plan: &ShardPlan) -> Result<(), OpenError> {
    let shards = plan.shards().len();
    let routes_alike = routes_as_unplanned(plan, shards as u64);
    for shard in planner.known.values() {
        if routes_alike && plan.shard(shard.id).is_some() {
            continue;
        }
        let page = shard.store.list(List::new(1)).await;
        let page = page.map_err(|error| error.with_shard(shard.id.get()))?;
        if !page.executions.is_empty() || page.next.is_some() {
            let shards = planner.known.len();
            return Err(OpenError::ReroutesUnplanned {
                shard: shard.id,
                shards,
            });
        }
    }
    Ok(())
}
