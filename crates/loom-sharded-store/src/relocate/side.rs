//! The steps of a move, on one side.

use loom_spi::{
    ExecutionId, Import, Imported, Inspect, Operation, RecordPage, RecordSummary, Records,
    Relocation, Retire, Seal, SealedRecord, StoreError, Unseal,
};

use crate::shard::Side;

impl Side<'_> {
    fn relocation(&self, operation: Operation) -> Result<&dyn Relocation, StoreError> {
        let relocation = self.store().capabilities().relocation;
        relocation.ok_or_else(|| self.unsupported(operation, "relocation"))
    }

    /// The whole record, also one without a log.
    pub(crate) async fn inspect(
        self,
        id: &ExecutionId,
    ) -> Result<Option<RecordSummary>, StoreError> {
        let mut request = Inspect::new(id.clone());
        self.stamp(&mut request.epoch);
        let relocation = self.relocation(Operation::Inspect)?;
        relocation.inspect(request).await.map_err(self.blame())
    }

    pub(crate) async fn seal(self, id: &ExecutionId) -> Result<SealedRecord, StoreError> {
        let mut request = Seal::new(id.clone());
        self.stamp(&mut request.epoch);
        let relocation = self.relocation(Operation::Seal)?;
        relocation.seal(request).await.map_err(self.blame())
    }

    pub(crate) async fn import(self, mut request: Import) -> Result<Imported, StoreError> {
        self.stamp(&mut request.epoch);
        let relocation = self.relocation(Operation::Import)?;
        relocation.import(request).await.map_err(self.blame())
    }

    pub(crate) async fn retire(self, id: &ExecutionId) -> Result<(), StoreError> {
        let mut request = Retire::new(id.clone());
        self.stamp(&mut request.epoch);
        let relocation = self.relocation(Operation::Retire)?;
        relocation.retire(request).await.map_err(self.blame())
    }

    pub(crate) async fn unseal(self, id: &ExecutionId) -> Result<(), StoreError> {
        let mut request = Unseal::new(id.clone());
        self.stamp(&mut request.epoch);
        let relocation = self.relocation(Operation::Unseal)?;
        relocation.unseal(request).await.map_err(self.blame())
    }

    pub(crate) async fn records(self, mut request: Records) -> Result<RecordPage, StoreError> {
        self.stamp(&mut request.epoch);
        let relocation = self.relocation(Operation::Records)?;
        relocation.records(request).await.map_err(self.blame())
    }
}
