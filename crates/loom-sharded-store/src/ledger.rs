//! The plan as the shards' ledgers keep it.

use std::sync::Arc;

use loom_shard_plan::ShardPlan;
use loom_spi::{
    DeploymentId, Operation, PlanEpoch, PlanLedger, Publish, PublishedPlan, ShardIdentity,
    StoreError, StoreErrorKind,
};

use crate::OpenError;
use crate::routing::plan_epoch;
use crate::shard::Shard;

/// What one attempt to publish came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The shard has the plan.
    Taken,
    /// The shard has another one than was expected.
    Conflict(Option<PlanEpoch>),
}

impl Shard {
    /// The ledger, which every shard has if one does.
    fn ledger(&self, operation: Operation) -> Result<&dyn PlanLedger, StoreError> {
        self.store.capabilities().ledger.ok_or_else(|| {
            let capability = "a plan ledger";
            StoreError::new(operation, StoreErrorKind::Unsupported { capability })
                .with_shard(self.id.get())
        })
    }

    /// The name of the plan that the shard is under.
    pub(crate) async fn epoch(&self) -> Result<Option<PlanEpoch>, StoreError> {
        Ok(self.published().await?.map(|published| published.epoch))
    }

    /// The plan that the shard is under.
    pub(crate) async fn plan(&self) -> Result<Option<Arc<ShardPlan>>, OpenError> {
        let Some(published) = self.published().await? else {
            return Ok(None);
        };
        let plan = ShardPlan::from_bytes(&published.bytes).map_err(|source| {
            OpenError::UnreadablePlan {
                shard: self.id,
                source,
            }
        })?;
        let found = plan_epoch(&plan);
        if found != published.epoch {
            let stated = published.epoch;
            return Err(OpenError::MislabelledPlan {
                shard: self.id,
                stated,
                found,
            });
        }
        Ok(Some(Arc::new(plan)))
    }

    async fn published(&self) -> Result<Option<PublishedPlan>, StoreError> {
        let current = self.ledger(Operation::CurrentPlan)?.current().await;
        current.map_err(|error| error.with_shard(self.id.get()))
    }

    /// Compare and set.
    pub(crate) async fn publish(
        &self,
        plan: &PublishedPlan,
        expected: Option<PlanEpoch>,
    ) -> Result<Attempt, StoreError> {
        let ledger = self.ledger(Operation::PublishPlan)?;
        match ledger.publish(Publish::new(plan.clone(), expected)).await {
            Ok(()) => Ok(Attempt::Taken),
            Err(error) => match error.kind() {
                // Ours, from an attempt whose answer was lost, or by another node.
                StoreErrorKind::PublishConflict { current } if *current == Some(plan.epoch) => {
                    Ok(Attempt::Taken)
                }
                StoreErrorKind::PublishConflict { current } => Ok(Attempt::Conflict(*current)),
                _ => Err(error.with_shard(self.id.get())),
            },
        }
    }

    /// Refuses a store that is not this shard of the deployment.
    pub(crate) async fn verify(&self, deployment: &DeploymentId) -> Result<(), StoreError> {
        let expected = ShardIdentity::new(deployment.clone(), self.id.get());
        let found = self.identity().await?;
        if found.as_ref() == Some(&expected) {
            return Ok(());
        }
        let kind = StoreErrorKind::WrongShard { expected, found };
        Err(StoreError::new(Operation::Identity, kind).with_shard(self.id.get()))
    }

    /// Which shard the store says it is.
    pub(crate) async fn identity(&self) -> Result<Option<ShardIdentity>, StoreError> {
        let identity = self.ledger(Operation::Identity)?.identity().await;
        identity.map_err(|error| error.with_shard(self.id.get()))
    }

    /// Makes an unused store this shard of the deployment, or checks that it is.
    pub(crate) async fn initialize(&self, deployment: &DeploymentId) -> Result<(), StoreError> {
        let identity = ShardIdentity::new(deployment.clone(), self.id.get());
        let done = self.ledger(Operation::Identity)?.initialize(identity).await;
        done.map_err(|error| error.with_shard(self.id.get()))
    }

    /// Where the shard's directory says that another one is.
    pub(crate) async fn location_of(&self, shard: u16) -> Result<Option<String>, StoreError> {
        let directory = self.ledger(Operation::Directory)?.directory().await;
        let directory = directory.map_err(|error| error.with_shard(self.id.get()))?;
        let entry = directory.into_iter().find(|entry| entry.shard == shard);
        Ok(entry.map(|entry| entry.location))
    }

    /// Writes to the shard's directory.
    pub(crate) async fn record_locations(
        &self,
        locations: Vec<loom_spi::ShardLocation>,
    ) -> Result<(), StoreError> {
        let recorded = self
            .ledger(Operation::Directory)?
            .record_locations(locations)
            .await;
        recorded.map_err(|error| error.with_shard(self.id.get()))
    }
}

/// A plan in the form in which ledgers keep it.
pub(crate) fn publishable(plan: &ShardPlan) -> PublishedPlan {
    PublishedPlan::new(plan_epoch(plan), plan.to_bytes())
}
