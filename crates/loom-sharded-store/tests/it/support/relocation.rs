//! Moving records in and out of a test's shard.

use async_trait::async_trait;
use loom_spi::{
    Import, Imported, Inspect, Operation, RecordPage, RecordSummary, Records, Relocation, Retire,
    Seal, SealedRecord, StoreError, Unseal,
};

use super::TestShard;

#[async_trait]
impl Relocation for TestShard {
    async fn inspect(&self, request: Inspect) -> Result<Option<RecordSummary>, StoreError> {
        let id = request.id.clone();
        self.run(Operation::Inspect, Some(&id), self.inner.inspect(request))
            .await
    }

    async fn seal(&self, request: Seal) -> Result<SealedRecord, StoreError> {
        let id = request.id.clone();
        self.run(Operation::Seal, Some(&id), self.inner.seal(request))
            .await
    }

    async fn import(&self, request: Import) -> Result<Imported, StoreError> {
        let id = request.id.clone();
        self.run(Operation::Import, Some(&id), self.inner.import(request))
            .await
    }

    async fn retire(&self, request: Retire) -> Result<(), StoreError> {
        let id = request.id.clone();
        self.run(Operation::Retire, Some(&id), self.inner.retire(request))
            .await
    }

    async fn unseal(&self, request: Unseal) -> Result<(), StoreError> {
        let id = request.id.clone();
        self.run(Operation::Unseal, Some(&id), self.inner.unseal(request))
            .await
    }

    async fn records(&self, request: Records) -> Result<RecordPage, StoreError> {
        self.run(Operation::Records, None, self.inner.records(request))
            .await
    }
}
