//! Deleting.

use loom_spi::{Delete, Deleted};

use crate::change::{Change, Work};
use crate::failure::Failure;
use crate::{garbage, marks};

impl Work for Delete {
    type Output = Deleted;

    /// Takes the same time however long the log is: its events become garbage.
    async fn run(&self, change: &mut Change<'_>) -> Result<Deleted, Failure> {
        let (found, state) = change.find();
        let events = state.admit_delete(self)?;
        if self.mark {
            marks::leave(change.session(), &self.id).await?;
        }
        let mut record = found.unwrap_or_default();
        record.head = None;
        if let Some(log) = record.log.take() {
            garbage::leave(change.session(), log).await?;
        }
        change.store(&self.id, &record).await?;
        Ok(Deleted::new(events))
    }

    fn is_exclusive(&self) -> bool {
        self.mark
    }
}
