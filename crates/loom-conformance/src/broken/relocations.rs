//! Relocation that goes wrong: what each call is led through.

use async_trait::async_trait;
use loom_spi::{
    ExecutionId, Import, Imported, Inspect, Operation, PlanEpoch, RecordPage, RecordSummary,
    Records, Relocation, Retire, Seal, SealedRecord, StoreError, StoreErrorKind, Unseal,
};

use super::{Fault, Mutant};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Relocation for Mutant {
    async fn inspect(&self, mut request: Inspect) -> Result<Option<RecordSummary>, StoreError> {
        request.id = self.moved_apart(request.id);
        request.epoch = self.epoch(Operation::Inspect, request.epoch).await?;
        let found = self.inspect_wrongly(request).await;
        found.map_err(|error| self.error(error))
    }

    async fn seal(&self, mut request: Seal) -> Result<SealedRecord, StoreError> {
        request.id = self.moved_apart(request.id);
        request.epoch = self.epoch(Operation::Seal, request.epoch).await?;
        let sealed = self.seal_wrongly(request).await;
        sealed.map_err(|error| self.error(error))
    }

    async fn import(&self, mut request: Import) -> Result<Imported, StoreError> {
        request.id = self.moved_apart(request.id);
        request.epoch = self.epoch(Operation::Import, request.epoch).await?;
        let imported = self.import_wrongly(request).await;
        imported.map_err(|error| self.error(error))
    }

    async fn retire(&self, mut request: Retire) -> Result<(), StoreError> {
        request.id = self.moved_apart(request.id);
        request.epoch = self.epoch(Operation::Retire, request.epoch).await?;
        let retired = self.retire_wrongly(request).await;
        retired.map_err(|error| self.error(error))
    }

    async fn unseal(&self, mut request: Unseal) -> Result<(), StoreError> {
        request.id = self.moved_apart(request.id);
        request.epoch = self.epoch(Operation::Unseal, request.epoch).await?;
        let unsealed = self.unseal_wrongly(request).await;
        unsealed.map_err(|error| self.error(error))
    }

    async fn records(&self, mut request: Records) -> Result<RecordPage, StoreError> {
        request.epoch = self.epoch(Operation::Records, request.epoch).await?;
        let page = self.records_wrongly(request).await;
        page.map_err(|error| self.error(error))
    }
}

impl Mutant {
    pub(super) fn relocation(&self, operation: Operation) -> Result<&dyn Relocation, StoreError> {
        let capability = "relocation";
        let offered = self.inner.capabilities().relocation;
        offered
            .ok_or_else(|| StoreError::new(operation, StoreErrorKind::Unsupported { capability }))
    }

    /// The record that moves in the place of the one that the store knows.
    fn moved_apart(&self, id: ExecutionId) -> ExecutionId {
        let id = self.id(id);
        match self.fault {
            Fault::RelocationUnwired => ExecutionId::new(format!("apart from {id}")).unwrap_or(id),
            _ => id,
        }
    }

    /// The record as it is; `None` as well where there is no relocation.
    pub(super) async fn real(
        &self,
        id: &ExecutionId,
        epoch: Option<PlanEpoch>,
    ) -> Result<Option<RecordSummary>, StoreError> {
        match self.inner.capabilities().relocation {
            Some(inner) => {
                inner
                    .inspect(Inspect::new(id.clone()).with_epoch(epoch))
                    .await
            }
            None => Ok(None),
        }
    }

    pub(super) async fn is_sealed(
        &self,
        id: &ExecutionId,
        epoch: Option<PlanEpoch>,
    ) -> Result<bool, StoreError> {
        Ok(self
            .real(id, epoch)
            .await?
            .is_some_and(|record| record.sealed))
    }

    /// Opens a sealed record for an operation that ignores seals, and says whether it did.
    pub(super) async fn break_seal(
        &self,
        operation: Operation,
        id: &ExecutionId,
        epoch: Option<PlanEpoch>,
    ) -> Result<bool, StoreError> {
        if self.fault.ignores_seal_of() != Some(operation) || !self.is_sealed(id, epoch).await? {
            return Ok(false);
        }
        let unseal = Unseal::new(id.clone()).with_epoch(epoch);
        self.relocation(operation)?.unseal(unseal).await?;
        Ok(true)
    }

    /// Seals again what was opened.
    pub(super) async fn mend_seal(&self, broken: bool, id: &ExecutionId, epoch: Option<PlanEpoch>) {
        if let (true, Some(inner)) = (broken, self.inner.capabilities().relocation) {
            // Nothing may be left of it.
            let _ = inner.seal(Seal::new(id.clone()).with_epoch(epoch)).await;
        }
    }

    /// Removes a record, sealed or not.
    pub(super) async fn remove(
        &self,
        id: &ExecutionId,
        epoch: Option<PlanEpoch>,
    ) -> Result<(), StoreError> {
        let inner = self.relocation(Operation::Retire)?;
        inner.seal(Seal::new(id.clone()).with_epoch(epoch)).await?;
        inner
            .retire(Retire::new(id.clone()).with_epoch(epoch))
            .await
    }
}
