//! Giving up a shard that is gone for good.

mod plan;

use std::sync::Arc;

use loom_shard_plan::{BucketSet, Placement, ShardId, ShardPlan};
use loom_spi::{BoxError, DeploymentId, EventStore, ShardIdentity, StoreError};

use crate::ledger::{Attempt, publishable};
use crate::planner::{Planner, Unused};
use crate::publish::give;
use crate::shard::Shard;
use crate::{Connect, OpenError, PlanChangeError, Published, first_plan};

/// A shard that is to be given up, what that loses, and the plan without it.
///
/// A server that is down blocks the next publication, and nothing else: bringing it back is always better. This
/// is for one that will not come back. Whatever only it held is lost.
///
/// Made from the shards that are left; nothing is changed before [`publish`](Self::publish).
///
/// ```
/// use std::sync::Arc;
/// use loom_shard_plan::{ShardId, ShardPlan};
/// use loom_sharded_store::{Abandonment, ShardedStore};
/// use loom_spi::{DeploymentId, EventStore};
/// use loom_store_memory::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let shards: Vec<_> = (0..3).map(|_| Arc::new(MemoryStore::new()) as Arc<dyn EventStore>).collect();
/// let deployment = DeploymentId::generate();
/// let store = ShardedStore::builder()
///     .shards(shards.clone())
///     .deployment(deployment.clone())
///     .plan(ShardPlan::new(3)?)
///     .create()
///     .await?;
///
/// // Shard 1 is gone. The others take over its buckets, empty.
/// let left = [0, 2].map(|id| (ShardId(id), Arc::clone(&shards[usize::from(id)])));
/// let abandonment = Abandonment::prepare(deployment, ShardId(1), None, left, None).await?;
/// assert_eq!(abandonment.loss().buckets(), 1365);
/// abandonment.publish().await?;
/// store.refresh().await?;
/// assert!(store.plan().is_some_and(|plan| plan.shard(ShardId(1)).is_none()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Abandonment {
    planner: Planner,
    shard: ShardId,
    present: Arc<ShardPlan>,
    next: Arc<ShardPlan>,
    loss: Loss,
}

impl Abandonment {
    /// Finds out what giving up `shard` means. `remaining` are all the other shards of the deployment; those of
    /// them that are not given are connected to with `connect`. `there` is whatever can be opened at the places
    /// where `shard` itself may be: none of it may answer as the shard.
    ///
    /// # Errors
    /// [`AbandonError`]; nothing was changed.
    ///
    /// # Cancel safety
    /// Reads change nothing.
    pub async fn prepare(
        deployment: DeploymentId,
        shard: ShardId,
        there: impl IntoIterator<Item = Arc<dyn EventStore>>,
        remaining: impl IntoIterator<Item = (ShardId, Arc<dyn EventStore>)>,
        connect: Option<Arc<dyn Connect>>,
    ) -> Result<Self, AbandonError> {
        let remaining: Vec<Shard> = remaining
            .into_iter()
            .filter(|(id, _)| *id != shard)
            .map(|(id, store)| Shard { id, store })
            .collect();
        if remaining.is_empty() {
            return Err(AbandonError::NobodyLeft { shard });
        }
        let mut planner = Planner::new(remaining, Some(deployment.clone()), connect)?;
        for shard in planner.known.values() {
            planner.verify_unless_unused(shard).await?;
        }
        let present = first_plan::choose(&mut planner, None)
            .await?
            .ok_or(AbandonError::Unplanned)?;
        if present.shard(shard).is_none() {
            let epoch = present.epoch();
            return Err(AbandonError::NotInPlan { shard, epoch });
        }
        for store in there {
            refuse_alive(&deployment, Shard { id: shard, store }).await?;
        }
        let next = Arc::new(plan::without(&present, shard)?);
        // Every member of the present plan but the shard is one of the next, since some bucket names it.
        planner.connect_missing(&next, Unused::Refused).await?;
        for member in next.shards() {
            if let Some(shard) = planner.known.get(&member.id()) {
                planner.verify(shard).await?;
            }
        }
        Ok(Self {
            loss: Loss::of(&present, shard),
            planner,
            shard,
            present,
            next,
        })
    }

    /// The shard that is given up.
    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// The plan that the remaining shards are under.
    #[must_use]
    pub fn present(&self) -> &ShardPlan {
        &self.present
    }

    /// The plan without the shard, which [`publish`](Self::publish) publishes.
    #[must_use]
    pub fn next(&self) -> &ShardPlan {
        &self.next
    }

    /// What is lost.
    #[must_use]
    pub fn loss(&self) -> &Loss {
        &self.loss
    }

    /// Gives the shard up: completes the present plan on the remaining shards, publishes the next one, compare
    /// and set, on the lowest of them, and then on the others. Processes that are running follow at their next
    /// request to a shard that has it.
    ///
    /// The shard is no member any more. Should it come back, it is under an old plan and nobody sends anything
    /// to it. What it holds must not be taken for the present by letting it join as it is: a
    /// [repair](crate::ShardedStore::repair) takes what is nowhere else to where it belongs and leaves the shard empty.
    ///
    /// # Errors
    /// [`PlanChangeError`]: `Lost` when another plan was published meanwhile, so that the loss has to be looked
    /// at anew.
    ///
    /// # Cancel safety
    /// As [`ShardedStore::publish`](crate::ShardedStore::publish); preparing and publishing again completes it.
    pub async fn publish(self) -> Result<Published, PlanChangeError> {
        let (now, next) = (publishable(&self.present), publishable(&self.next));
        let members = || self.next.shards().iter().map(loom_shard_plan::Shard::id);
        for id in members() {
            give(self.member(id)?, &now, false).await?;
        }
        // The lowest that is left of the present plan: the shard itself may have been the deciding one.
        let deciding = members().next().ok_or(OpenError::NoShards)?;
        // The rules for steps refuse this one, since they lose nothing.
        match self
            .member(deciding)?
            .publish(&next, Some(now.epoch))
            .await?
        {
            Attempt::Taken => {}
            Attempt::Conflict(current) => return Err(PlanChangeError::Lost { current }),
        }
        let mut published = Published::complete(next.epoch);
        for id in members() {
            if let Err(error) = give(self.member(id)?, &next, false).await {
                published.unreached.push((id, error));
            }
        }
        Ok(published)
    }

    fn member(&self, shard: ShardId) -> Result<&Shard, OpenError> {
        self.planner
            .known
            .get(&shard)
            .ok_or(OpenError::MissingShard { shard })
    }
}

async fn refuse_alive(deployment: &DeploymentId, shard: Shard) -> Result<(), AbandonError> {
    let expected = ShardIdentity::new(deployment.clone(), shard.id.get());
    // A store that does not answer, or was wiped, has lost what the shard held.
    match shard.identity().await {
        Ok(Some(found)) if found == expected => Err(AbandonError::Answers { shard: shard.id }),
        _ => Ok(()),
    }
}

/// The buckets of which a shard may hold the only copy, or the one that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// Settled on the shard: everything in them is lost.
    pub settled: BucketSet,
    /// Migrating to the shard: what has moved there or was created there is lost, what is still on the source
    /// is kept.
    pub arriving: BucketSet,
    /// Migrating away from the shard: what has not moved yet is lost.
    pub departing: BucketSet,
    /// How many buckets the plan has.
    pub of: u32,
}

impl Loss {
    fn of(plan: &ShardPlan, shard: ShardId) -> Self {
        let which = |wanted: fn(Placement, ShardId) -> bool| -> BucketSet {
            (0..)
                .zip(plan.placements())
                .filter(|(_, placement)| wanted(*placement, shard))
                .map(|(bucket, _)| bucket)
                .collect()
        };
        Self {
            settled: which(|placement, shard| placement == Placement::Settled(shard)),
            arriving: which(|placement, shard| {
                placement.is_migrating() && placement.destination() == shard
            }),
            departing: which(|placement, shard| placement.source() == Some(shard)),
            of: plan.bucket_count(),
        }
    }

    /// How many buckets are concerned.
    #[must_use]
    pub fn buckets(&self) -> u32 {
        self.settled.len() + self.arriving.len() + self.departing.len()
    }

    /// Their share of all buckets, 0 to 1: about the share of all executions that is lost, at most.
    #[must_use]
    pub fn share(&self) -> f64 {
        f64::from(self.buckets()) / f64::from(self.of.max(1))
    }
}

/// Why a shard is not given up. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AbandonError {
    /// It is there.
    #[error(
        "shard {shard} answers: give up only what is gone for good; a shard that answers leaves by a plan without it, which loses nothing"
    )]
    Answers {
        /// The shard.
        shard: ShardId,
    },
    /// The plan does not name it.
    #[error("shard {shard} is not in the plan of epoch {epoch}: there is nothing to give up")]
    NotInPlan {
        /// The shard.
        shard: ShardId,
        /// The plan's epoch.
        epoch: u64,
    },
    /// Nobody would be left to take its buckets.
    #[error(
        "no shard but {shard} may hold buckets: give another one a weight first, or start a new deployment"
    )]
    NobodyLeft {
        /// The shard.
        shard: ShardId,
    },
    /// No shard that is left holds a plan.
    #[error("no shard that is left holds a plan")]
    Unplanned,
    /// The plan cannot be followed by another one.
    #[error("the plan without the shard cannot be made")]
    Plan(#[source] BoxError),
    /// The shards that are left do not make up the deployment.
    #[error("the shards that are left do not make up the deployment")]
    Shards(#[from] OpenError),
    /// A shard that is left could not be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}
