//! Moving records: sealing, unsealing and retiring them. What arrives is in `import`, the looks at records in `head` and
//! `list`.

use std::sync::Arc;

use async_trait::async_trait;
use loom_spi::{
    Import, Imported, Inspect, Operation, RecordPage, RecordSummary, Records, Relocation, Retire,
    Seal, SealedRecord, StoreError, Unseal,
};

use crate::change::{Change, Work};
use crate::failure::Failure;
use crate::record::Record;
use crate::{PostgresStore, garbage, head, lineage, list};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Relocation for PostgresStore {
    async fn inspect(&self, request: Inspect) -> Result<Option<RecordSummary>, StoreError> {
        let id = request.id.clone();
        let request = Arc::new(request);
        self.look(Operation::Inspect, Some(&id), move |session| {
            let request = Arc::clone(&request);
            async move { head::inspect(&session, &request).await }
        })
        .await
    }

    async fn seal(&self, request: Seal) -> Result<SealedRecord, StoreError> {
        let id = request.id.clone();
        self.change(Operation::Seal, &id, request).await
    }

    async fn import(&self, request: Import) -> Result<Imported, StoreError> {
        let id = request.id.clone();
        self.change(Operation::Import, &id, request).await
    }

    async fn retire(&self, request: Retire) -> Result<(), StoreError> {
        let id = request.id.clone();
        self.change(Operation::Retire, &id, request).await?;
        self.collect_garbage();
        Ok(())
    }

    async fn unseal(&self, request: Unseal) -> Result<(), StoreError> {
        let id = request.id.clone();
        self.change(Operation::Unseal, &id, request).await
    }

    async fn records(&self, request: Records) -> Result<RecordPage, StoreError> {
        let request = Arc::new(request);
        self.look(Operation::Records, None, move |session| {
            let request = Arc::clone(&request);
            async move { list::records(&session, &request).await }
        })
        .await
    }
}

impl Work for Seal {
    type Output = SealedRecord;

    async fn run(&self, change: &mut Change<'_>) -> Result<SealedRecord, Failure> {
        let (found, state) = change.find();
        state.admit_seal(self)?;
        let mut record = found.unwrap_or_default();
        let branches = lineage::branches(change.session(), &self.id, &record).await?;
        if !record.sealed {
            record.set_sealed(true);
            change.store(&self.id, &record).await?;
        }
        let fence = record.fence;
        let holder = fence.and_then(|fence| Some(record.holder_under(fence)?.name.clone()));
        Ok(SealedRecord::new(record.head, fence, branches).with_holder(holder))
    }
}

impl Work for Unseal {
    type Output = ();

    async fn run(&self, change: &mut Change<'_>) -> Result<(), Failure> {
        let (found, state) = change.find();
        state.admit_unseal(self)?;
        let mut record = found.unwrap_or_default();
        if record.sealed {
            record.set_sealed(false);
            change.store(&self.id, &record).await?;
        }
        Ok(())
    }
}

impl Work for Retire {
    type Output = ();

    /// Takes the same time however long the log is: its events become garbage.
    async fn run(&self, change: &mut Change<'_>) -> Result<(), Failure> {
        let (found, state) = change.find();
        if !state.admit_retire(self)? {
            return Ok(());
        }
        let record = found.unwrap_or_default();
        if record.branches > 0 {
            lineage::remove(change.session(), &self.id).await?;
        }
        if let Some(log) = record.log {
            garbage::leave(change.session(), log).await?;
        }
        // The row of a record that says nothing any more is removed.
        change.store(&self.id, &Record::default()).await
    }
}
