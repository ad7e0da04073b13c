//! What an awkward store offers beyond the event store.

use async_trait::async_trait;
use loom_spi::{
    AcquireFence, Branch, BranchRegistry, Children, FenceToken, Fencing, Forget, Import, Imported,
    Inspect, Operation, Parent, ParentLink, PlanLedger, Publish, PublishedPlan, RecordLineage,
    RecordPage, RecordSummary, Records, ReleaseLease, Relocation, RenewLease, Retire, Seal,
    SealedRecord, ShardIdentity, ShardLocation, StoreError, Unseal,
};

use super::awkward::{Awkward, missing};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Fencing for Awkward {
    async fn acquire_fence(&self, request: AcquireFence) -> Result<FenceToken, StoreError> {
        let id = request.id.clone();
        let inner = self.inner.capabilities().fencing;
        let inner = inner.ok_or_else(|| missing(Operation::AcquireFence, "fencing"))?;
        self.reach(Operation::AcquireFence, Some(&id)).await?;
        let answer = inner.acquire_fence(request).await;
        self.answer(Operation::AcquireFence, Some(&id), answer)
            .await
    }

    async fn renew_lease(&self, request: RenewLease) -> Result<(), StoreError> {
        let id = request.id.clone();
        let inner = self.inner.capabilities().fencing;
        let inner = inner.ok_or_else(|| missing(Operation::RenewLease, "fencing"))?;
        self.reach(Operation::RenewLease, Some(&id)).await?;
        let answer = inner.renew_lease(request).await;
        self.answer(Operation::RenewLease, Some(&id), answer).await
    }

    async fn release_lease(&self, request: ReleaseLease) -> Result<(), StoreError> {
        let id = request.id.clone();
        let inner = self.inner.capabilities().fencing;
        let inner = inner.ok_or_else(|| missing(Operation::ReleaseLease, "fencing"))?;
        self.reach(Operation::ReleaseLease, Some(&id)).await?;
        let answer = inner.release_lease(request).await;
        self.answer(Operation::ReleaseLease, Some(&id), answer)
            .await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl PlanLedger for Awkward {
    async fn current(&self) -> Result<Option<PublishedPlan>, StoreError> {
        let inner = self.inner.capabilities().ledger;
        let inner = inner.ok_or_else(|| missing(Operation::CurrentPlan, "a plan ledger"))?;
        self.reach(Operation::CurrentPlan, None).await?;
        let answer = inner.current().await;
        self.answer(Operation::CurrentPlan, None, answer).await
    }

    async fn publish(&self, request: Publish) -> Result<(), StoreError> {
        let inner = self.inner.capabilities().ledger;
        let inner = inner.ok_or_else(|| missing(Operation::PublishPlan, "a plan ledger"))?;
        self.reach(Operation::PublishPlan, None).await?;
        let answer = inner.publish(request).await;
        self.answer(Operation::PublishPlan, None, answer).await
    }

    async fn identity(&self) -> Result<Option<ShardIdentity>, StoreError> {
        let inner = self.inner.capabilities().ledger;
        let inner = inner.ok_or_else(|| missing(Operation::Identity, "a plan ledger"))?;
        self.reach(Operation::Identity, None).await?;
        let answer = inner.identity().await;
        self.answer(Operation::Identity, None, answer).await
    }

    async fn initialize(&self, identity: ShardIdentity) -> Result<(), StoreError> {
        let inner = self.inner.capabilities().ledger;
        let inner = inner.ok_or_else(|| missing(Operation::Identity, "a plan ledger"))?;
        self.reach(Operation::Identity, None).await?;
        let answer = inner.initialize(identity).await;
        self.answer(Operation::Identity, None, answer).await
    }

    async fn directory(&self) -> Result<Vec<ShardLocation>, StoreError> {
        let inner = self.inner.capabilities().ledger;
        let inner = inner.ok_or_else(|| missing(Operation::Directory, "a plan ledger"))?;
        self.reach(Operation::Directory, None).await?;
        let answer = inner.directory().await;
        self.answer(Operation::Directory, None, answer).await
    }

    async fn record_locations(&self, locations: Vec<ShardLocation>) -> Result<(), StoreError> {
        let inner = self.inner.capabilities().ledger;
        let inner = inner.ok_or_else(|| missing(Operation::Directory, "a plan ledger"))?;
        self.reach(Operation::Directory, None).await?;
        let answer = inner.record_locations(locations).await;
        self.answer(Operation::Directory, None, answer).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl BranchRegistry for Awkward {
    async fn record_lineage(&self, request: RecordLineage) -> Result<(), StoreError> {
        let id = request.parent.clone();
        let inner = self.inner.capabilities().branches;
        let inner = inner.ok_or_else(|| missing(Operation::RecordLineage, "branches"))?;
        self.reach(Operation::RecordLineage, Some(&id)).await?;
        let answer = inner.record_lineage(request).await;
        self.answer(Operation::RecordLineage, Some(&id), answer)
            .await
    }

    async fn children(&self, request: Children) -> Result<Vec<Branch>, StoreError> {
        let id = request.parent.clone();
        let inner = self.inner.capabilities().branches;
        let inner = inner.ok_or_else(|| missing(Operation::Children, "branches"))?;
        self.reach(Operation::Children, Some(&id)).await?;
        let answer = inner.children(request).await;
        self.answer(Operation::Children, Some(&id), answer).await
    }

    async fn parent(&self, request: Parent) -> Result<Option<ParentLink>, StoreError> {
        let id = request.child.clone();
        let inner = self.inner.capabilities().branches;
        let inner = inner.ok_or_else(|| missing(Operation::Parent, "branches"))?;
        self.reach(Operation::Parent, Some(&id)).await?;
        let answer = inner.parent(request).await;
        self.answer(Operation::Parent, Some(&id), answer).await
    }

    async fn forget(&self, request: Forget) -> Result<u64, StoreError> {
        let id = request.parent.clone();
        let inner = self.inner.capabilities().branches;
        let inner = inner.ok_or_else(|| missing(Operation::Forget, "branches"))?;
        self.reach(Operation::Forget, Some(&id)).await?;
        let answer = inner.forget(request).await;
        self.answer(Operation::Forget, Some(&id), answer).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Relocation for Awkward {
    async fn inspect(&self, request: Inspect) -> Result<Option<RecordSummary>, StoreError> {
        let id = request.id.clone();
        let inner = self.inner.capabilities().relocation;
        let inner = inner.ok_or_else(|| missing(Operation::Inspect, "relocation"))?;
        self.reach(Operation::Inspect, Some(&id)).await?;
        let answer = inner.inspect(request).await;
        self.answer(Operation::Inspect, Some(&id), answer).await
    }

    async fn seal(&self, request: Seal) -> Result<SealedRecord, StoreError> {
        let id = request.id.clone();
        let inner = self.inner.capabilities().relocation;
        let inner = inner.ok_or_else(|| missing(Operation::Seal, "relocation"))?;
        self.reach(Operation::Seal, Some(&id)).await?;
        let answer = inner.seal(request).await;
        self.answer(Operation::Seal, Some(&id), answer).await
    }

    async fn import(&self, request: Import) -> Result<Imported, StoreError> {
        let id = request.id.clone();
        let inner = self.inner.capabilities().relocation;
        let inner = inner.ok_or_else(|| missing(Operation::Import, "relocation"))?;
        self.reach(Operation::Import, Some(&id)).await?;
        let answer = inner.import(request).await;
        self.answer(Operation::Import, Some(&id), answer).await
    }

    async fn retire(&self, request: Retire) -> Result<(), StoreError> {
        let id = request.id.clone();
        let inner = self.inner.capabilities().relocation;
        let inner = inner.ok_or_else(|| missing(Operation::Retire, "relocation"))?;
        self.reach(Operation::Retire, Some(&id)).await?;
        let answer = inner.retire(request).await;
        self.answer(Operation::Retire, Some(&id), answer).await
    }

    async fn unseal(&self, request: Unseal) -> Result<(), StoreError> {
        let id = request.id.clone();
        let inner = self.inner.capabilities().relocation;
        let inner = inner.ok_or_else(|| missing(Operation::Unseal, "relocation"))?;
        self.reach(Operation::Unseal, Some(&id)).await?;
        let answer = inner.unseal(request).await;
        self.answer(Operation::Unseal, Some(&id), answer).await
    }

    async fn records(&self, mut request: Records) -> Result<RecordPage, StoreError> {
        let inner = self.inner.capabilities().relocation;
        let inner = inner.ok_or_else(|| missing(Operation::Records, "relocation"))?;
        request.limit = request.limit.min(self.page);
        self.reach(Operation::Records, None).await?;
        let answer = inner.records(request).await;
        self.answer(Operation::Records, None, answer).await
    }
}
