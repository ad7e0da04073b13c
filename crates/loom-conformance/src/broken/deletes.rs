//! Deletes that go wrong.

use loom_spi::{Delete, Deleted, Forget, Head, List, Operation, StoreError, StoreErrorKind};

use super::notes::pause;
use super::{Fault, Mutant};

impl Mutant {
    pub(super) async fn delete_wrongly(&self, mut request: Delete) -> Result<Deleted, StoreError> {
        let (id, epoch, expected) = (request.id.clone(), request.epoch, request.expected);
        match self.fault {
            Fault::DeleteIgnoresExpected => request.expected = None,
            Fault::MarkedDeleteIgnoresExpected if request.mark => request.expected = None,
            Fault::DeleteNotAtomic => {
                let head = self
                    .inner
                    .head(Head::new(id.clone()).with_epoch(epoch))
                    .await?;
                if expected.is_none() || expected == head.map(|head| head.next_sequence) {
                    pause().await;
                    request.expected = None;
                }
            }
            Fault::DeleteRefusesClosed => {
                let head = self
                    .inner
                    .head(Head::new(id.clone()).with_epoch(epoch))
                    .await?;
                if let Some(head) = head.filter(loom_spi::LogHead::is_closed) {
                    let next_sequence = head.next_sequence;
                    let kind = StoreErrorKind::Closed { next_sequence };
                    return Err(StoreError::new(Operation::Delete, kind).with_execution(&id));
                }
            }
            Fault::DeleteByPrefix => {
                let page = self.inner.list(List::new(1000).with_epoch(epoch)).await?;
                for found in page.executions {
                    if found.id != id && found.id.as_str().starts_with(id.as_str()) {
                        self.inner
                            .delete(Delete::new(found.id).with_epoch(epoch))
                            .await?;
                    }
                }
            }
            _ => {}
        }
        let asked = request.mark;
        request.mark = self.mark_wrongly(&id, asked, self.fault == Fault::DeleteLeavesNoMark);
        request.mark |= self.fault == Fault::DeleteAlwaysMarks;
        let deleted = match self.inner.delete(request).await {
            Err(error) => match (self.fault, error.kind()) {
                (Fault::DeleteAbsentSucceeds, StoreErrorKind::NotFound) => Deleted::new(0),
                (Fault::SealedAfterMissing, StoreErrorKind::Sealed) => {
                    let head = Head::new(id.clone()).with_epoch(epoch);
                    match self.inner.head(head).await? {
                        Some(_) => return Err(error),
                        None => {
                            let missing = StoreErrorKind::NotFound;
                            let error = StoreError::new(Operation::Delete, missing);
                            return Err(error.with_execution(&id));
                        }
                    }
                }
                (Fault::RefusedDeleteMarks, _) => {
                    self.marked(&id, asked);
                    return Err(error);
                }
                _ => return Err(error),
            },
            Ok(deleted) => deleted,
        };
        self.notes().deleted.insert(id.clone());
        self.marked(&id, asked && self.fault != Fault::RefusedDeleteMarks);
        match self.fault {
            Fault::DeleteCountsNothing => return Ok(Deleted::new(0)),
            Fault::DeleteForgetsLineage => {
                if let Some(branches) = self.inner.capabilities().branches {
                    branches.forget(Forget::new(id).with_epoch(epoch)).await?;
                }
            }
            _ => {}
        }
        Ok(deleted)
    }

    /// Whether a mark is left, of one that is asked for.
    pub(super) fn mark_wrongly(&self, id: &loom_spi::ExecutionId, asked: bool, none: bool) -> bool {
        let spared = match self.fault {
            Fault::MarkSparesTheBegun => self.notes().moves.staged.contains_key(id),
            // It keeps marks of its own.
            Fault::MarksClearedBySamePlan => true,
            _ => none,
        };
        asked && !spared
    }

    /// Remembers a mark.
    pub(super) fn marked(&self, id: &loom_spi::ExecutionId, mark: bool) {
        if mark {
            self.notes().moves.marks.insert(id.clone());
        }
    }
}
