//! Ledgers that go wrong.

use async_trait::async_trait;
use loom_spi::{
    Operation, PlanEpoch, PlanLedger, Publish, PublishedPlan, Records, ShardIdentity,
    ShardLocation, StoreError, StoreErrorKind, Unseal,
};

use super::mutant::truncated;
use super::notes::pause;
use super::{Fault, Mutant};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl PlanLedger for Mutant {
    async fn current(&self) -> Result<Option<PublishedPlan>, StoreError> {
        let plan = self.ledger(Operation::CurrentPlan)?.current().await?;
        Ok(plan.map(|mut plan| {
            if self.fault == Fault::PlanAsText {
                plan.bytes = String::from_utf8_lossy(&plan.bytes).into_owned().into();
            }
            plan
        }))
    }

    async fn publish(&self, mut request: Publish) -> Result<(), StoreError> {
        let ledger = self.ledger(Operation::PublishPlan)?;
        let refused = |kind| StoreError::new(Operation::PublishPlan, kind);
        let current = ledger.current().await?.map(|plan| plan.epoch);
        match self.fault {
            Fault::PublishWithoutCompare => request.expected = current,
            Fault::PublishNotAtomic if request.expected == current => {
                pause().await;
                return match ledger.publish(request).await {
                    // Somebody came between, and is taken to have been replaced.
                    Err(error)
                        if matches!(error.kind(), StoreErrorKind::PublishConflict { .. }) =>
                    {
                        Ok(())
                    }
                    result => result,
                };
            }
            Fault::PublishAgainRefused if current == Some(request.plan.epoch) => {
                return Err(refused(StoreErrorKind::PublishConflict { current }));
            }
            Fault::PublishOlderAccepted => {
                let newer =
                    current.is_some_and(|current| current.epoch >= request.plan.epoch.epoch);
                if newer && request.expected == current {
                    return Ok(());
                }
            }
            Fault::FingerprintTruncated => {
                request.plan.epoch = truncated(request.plan.epoch);
                request.expected = request.expected.map(truncated);
            }
            Fault::MarksClearedBySamePlan => self.notes().moves.marks.clear(),
            Fault::PartsDroppedBySamePlan => {
                let mut notes = self.notes();
                let staged: Vec<_> = notes.moves.staged.keys().cloned().collect();
                notes.moves.dropped.extend(staged);
            }
            Fault::PublishUnseals => {
                self.unseal_everything(current).await?;
            }
            _ => {}
        }
        ledger.publish(request).await
    }

    async fn identity(&self) -> Result<Option<ShardIdentity>, StoreError> {
        self.ledger(Operation::Identity)?.identity().await
    }

    async fn initialize(&self, identity: ShardIdentity) -> Result<(), StoreError> {
        let done = self.ledger(Operation::Identity)?.initialize(identity).await;
        match done {
            Err(error) => match (self.fault, error.kind()) {
                (Fault::IdentityUnchecked, StoreErrorKind::WrongShard { .. }) => Ok(()),
                _ => Err(error),
            },
            done => done,
        }
    }

    async fn directory(&self) -> Result<Vec<ShardLocation>, StoreError> {
        if self.fault == Fault::DirectoryReplaced {
            return Ok(self.notes().locations.clone());
        }
        self.ledger(Operation::Directory)?.directory().await
    }

    async fn record_locations(&self, locations: Vec<ShardLocation>) -> Result<(), StoreError> {
        if self.fault == Fault::DirectoryReplaced {
            let mut locations = locations;
            locations.sort_by_key(|location| location.shard);
            self.notes().locations = locations;
            return Ok(());
        }
        let ledger = self.ledger(Operation::Directory)?;
        ledger.record_locations(locations).await
    }
}

impl Mutant {
    async fn unseal_everything(&self, epoch: Option<PlanEpoch>) -> Result<(), StoreError> {
        let relocation = self.relocation(Operation::PublishPlan)?;
        let records = Records::new(1000).with_epoch(epoch);
        for record in relocation.records(records).await?.records {
            let unseal = Unseal::new(record.id).with_epoch(epoch);
            relocation.unseal(unseal).await?;
        }
        Ok(())
    }
}
