//! Moving records: sealing, unsealing and retiring them. What arrives is in `import`, the looks at records in `records`.

use async_trait::async_trait;
use loom_spi::{
    Import, Imported, Inspect, Operation, RecordPage, RecordSummary, Records, Relocation, Retire,
    Seal, SealedRecord, StoreError, Unseal,
};

use crate::SqliteStore;
use crate::failure::Failure;
use crate::readers::Size;
use crate::record::Record;
use crate::writer::{Transaction, Work};
use crate::{lineage, records};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Relocation for SqliteStore {
    async fn inspect(&self, request: Inspect) -> Result<Option<RecordSummary>, StoreError> {
        let id = request.id.clone();
        self.look(Operation::Inspect, Some(&id), Size::Few, move |reader| {
            records::inspect(reader, &request)
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
        self.change(Operation::Retire, &id, request).await
    }

    async fn unseal(&self, request: Unseal) -> Result<(), StoreError> {
        let id = request.id.clone();
        self.change(Operation::Unseal, &id, request).await
    }

    async fn records(&self, request: Records) -> Result<RecordPage, StoreError> {
        self.look(Operation::Records, None, Size::Many, move |reader| {
            records::list(reader, &request)
        })
        .await
    }
}

impl Work for Seal {
    type Output = SealedRecord;

    fn run(&self, transaction: &mut Transaction<'_, '_>) -> Result<SealedRecord, Failure> {
        let (found, state) = transaction.find(&self.id)?;
        state.admit_seal(self)?;
        let mut record = found.unwrap_or_default();
        let branches = lineage::branches(transaction.connection(), &self.id, &record)?;
        if !record.sealed {
            record.set_sealed(true);
            transaction.store(&self.id, record.clone())?;
        }
        let fence = record.fence;
        let holder = fence.and_then(|fence| Some(record.holder_under(fence)?.name.to_string()));
        Ok(SealedRecord::new(record.head, fence, branches).with_holder(holder))
    }
}

impl Work for Unseal {
    type Output = ();

    fn run(&self, transaction: &mut Transaction<'_, '_>) -> Result<(), Failure> {
        let (found, state) = transaction.find(&self.id)?;
        state.admit_unseal(self)?;
        let mut record = found.unwrap_or_default();
        if record.sealed {
            record.set_sealed(false);
            transaction.store(&self.id, record)?;
        }
        Ok(())
    }
}

impl Work for Retire {
    type Output = ();

    /// Takes the same time however long the log is: its events become garbage.
    fn run(&self, transaction: &mut Transaction<'_, '_>) -> Result<(), Failure> {
        let (found, state) = transaction.find(&self.id)?;
        if !state.admit_retire(self)? {
            return Ok(());
        }
        let record = found.unwrap_or_default();
        if record.branches > 0 {
            lineage::remove(transaction.connection(), &record)?;
        }
        if let Some(log) = record.log {
            transaction.leave_garbage(log)?;
        }
        // Of a record that says nothing any more the row is removed.
        let nothing = Record {
            record: record.record,
            ..Record::default()
        };
        transaction.store(&self.id, nothing)
    }
}
