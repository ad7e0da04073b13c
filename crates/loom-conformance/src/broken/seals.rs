//! Seals that go wrong.

use loom_spi::{
    AcquireFence, Append, Branch, Children, Delete, ExecutionId, Forget, NewEvent, Operation,
    PlanEpoch, Read, RecordLineage, Records, ReleaseLease, Retire, Seal, SealedRecord, StoreError,
    StoreErrorKind, Unseal,
};

use super::notes::pause;
use super::{Fault, Mutant};

impl Mutant {
    pub(super) async fn seal_wrongly(&self, request: Seal) -> Result<SealedRecord, StoreError> {
        let inner = self.relocation(Operation::Seal)?;
        let (id, epoch) = (request.id.clone(), request.epoch);
        let refused = |kind| StoreError::new(Operation::Seal, kind).with_execution(&id);
        let before = self.real(&id, epoch).await?;
        let again = before.as_ref().is_some_and(|record| record.sealed);
        let mut branches = Vec::new();
        match self.fault {
            Fault::SealAgainRefused if again => return Err(refused(StoreErrorKind::Sealed)),
            Fault::SealNeedsALog if before.as_ref().is_some_and(|it| it.head.is_none()) => {
                return Err(refused(StoreErrorKind::NotFound));
            }
            Fault::SealOfNothingSucceeds if before.is_none() => {
                return Ok(SealedRecord::new(None, None, vec![]));
            }
            Fault::SealByPrefix => {
                for found in self.that_begin_with(&id, epoch).await? {
                    inner.seal(Seal::new(found).with_epoch(epoch)).await?;
                }
            }
            Fault::SealNotShared => {
                if !self.notes().moves.sealing.insert(id.clone()) {
                    return Err(refused(StoreErrorKind::Sealed));
                }
                pause().await;
            }
            Fault::SealReadsHeadFirst
            | Fault::SealReadsFenceFirst
            | Fault::SealReadsBranchesFirst => {
                branches = self.real_branches(&id, epoch).await?;
                // Until somebody has come between, but not for ever.
                for _ in 0..300 {
                    if self.real(&id, epoch).await? != before {
                        break;
                    }
                    pause().await;
                }
            }
            Fault::SealTornByDrop if !again => self.lose_branches_for_a_while(&id, epoch).await?,
            _ => {}
        }
        let sealed = inner.seal(request).await;
        self.notes().moves.sealing.remove(&id);
        let mut sealed = sealed?;
        self.notes().moves.sealed_once.insert(id.clone());
        match self.fault {
            Fault::SealDoesNothing => {
                inner.unseal(Unseal::new(id).with_epoch(epoch)).await?;
            }
            Fault::SealAgainForgets if again => sealed.branches.clear(),
            Fault::SealOmitsFence => (sealed.fence, sealed.holder) = (None, None),
            Fault::SealOmitsHolder => sealed.holder = None,
            Fault::SealNamesOldHolder => {
                let known = self.notes().moves.holders.get(&id).cloned();
                sealed.holder = sealed.holder.or(known);
            }
            Fault::CompareReplacesHolder => {
                let known = self.notes().moves.replaced.get(&id).cloned();
                sealed.holder = known.unwrap_or(sealed.holder);
            }
            Fault::SealSortsBranches => sealed.branches.sort_by(|a, b| a.child.cmp(&b.child)),
            Fault::SealHeadOpen => {
                sealed.head = sealed.head.map(|head| head.with_sealed(false));
            }
            Fault::SealReadsHeadFirst => {
                let before = before.and_then(|before| before.head);
                sealed.head = before.map(|head| head.with_sealed(true));
            }
            Fault::SealReadsFenceFirst => sealed.fence = before.and_then(|before| before.fence),
            Fault::SealReadsBranchesFirst => sealed.branches = branches,
            _ => {}
        }
        Ok(sealed)
    }

    async fn lose_branches_for_a_while(
        &self,
        id: &ExecutionId,
        epoch: Option<PlanEpoch>,
    ) -> Result<(), StoreError> {
        let lost = self.real_branches(id, epoch).await?;
        if let (false, Ok(branches)) = (lost.is_empty(), self.branches(Operation::Seal)) {
            let forget = Forget::new(id.clone()).with_epoch(epoch);
            branches.forget(forget).await?;
            pause().await;
            self.record_all(id, &lost, epoch).await?;
        }
        Ok(())
    }

    pub(super) async fn unseal_wrongly(&self, request: Unseal) -> Result<(), StoreError> {
        let inner = self.relocation(Operation::Unseal)?;
        let (id, epoch) = (request.id.clone(), request.epoch);
        let record = self.real(&id, epoch).await?;
        match self.fault {
            Fault::UnsealDoesNothing if record.is_some() => return Ok(()),
            Fault::UnsealOfNothingSucceeds if record.is_none() => return Ok(()),
            Fault::UnsealOfUnsealedRefused if record.as_ref().is_some_and(|it| !it.sealed) => {
                let error = StoreError::new(Operation::Unseal, StoreErrorKind::NotSealed);
                return Err(error.with_execution(&id));
            }
            _ => {}
        }
        inner.unseal(request).await?;
        if self.fault == Fault::UnsealTornByDrop {
            self.lose_branches_for_a_while(&id, epoch).await?;
        }
        if self.fault == Fault::UnsealEndsLease
            && let Some(token) = record.and_then(|record| record.fence)
        {
            let release = ReleaseLease::new(id, token).with_epoch(epoch);
            self.fencing(Operation::Unseal)?
                .release_lease(release)
                .await?;
        }
        Ok(())
    }

    pub(super) async fn retire_wrongly(&self, request: Retire) -> Result<(), StoreError> {
        let inner = self.relocation(Operation::Retire)?;
        let (id, epoch) = (request.id.clone(), request.epoch);
        let record = self.real(&id, epoch).await?;
        let sealed = record.as_ref().is_some_and(|record| record.sealed);
        let branches = self.real_branches(&id, epoch).await?;
        let mut events: Vec<NewEvent> = Vec::new();
        match self.fault {
            Fault::RetireTakesUnsealed if record.is_some() => return self.remove(&id, epoch).await,
            Fault::RetireOfNothingRefused if record.is_none() => {
                let error = StoreError::new(Operation::Retire, StoreErrorKind::NotFound);
                return Err(error.with_execution(&id));
            }
            Fault::RetireByPrefix if sealed => {
                for found in self.that_begin_with(&id, epoch).await? {
                    self.remove(&found, epoch).await?;
                }
            }
            Fault::RetireKeepsLog if record.as_ref().is_some_and(|it| it.head.is_some()) => {
                let read = Read::new(id.clone(), 0, 1000).with_epoch(epoch);
                let page = self.inner.read(read).await?;
                events = page.events.into_iter().map(as_new).collect();
            }
            Fault::RetireTornByDrop if sealed => {
                let unseal = Unseal::new(id.clone()).with_epoch(epoch);
                inner.unseal(unseal).await?;
                let delete = Delete::new(id.clone()).with_epoch(epoch);
                self.inner.delete(delete).await?;
                inner.seal(Seal::new(id.clone()).with_epoch(epoch)).await?;
                pause().await;
            }
            _ => {}
        }
        inner.retire(request).await?;
        let Some(record) = record else {
            return Ok(());
        };
        if let Some(head) = record.head {
            let mut notes = self.notes();
            notes.moves.retired.insert(id.clone(), head.next_sequence);
        }
        match self.fault {
            Fault::RetireKeepsLog if !events.is_empty() => {
                let append = Append::new(id, 0, events).with_epoch(epoch);
                self.inner.append(append).await.map(drop)
            }
            Fault::RetireKeepsFence if record.fence.is_some() => {
                let request = AcquireFence::new(id).with_floor(record.fence);
                let fencing = self.fencing(Operation::Retire)?;
                fencing
                    .acquire_fence(request.with_epoch(epoch))
                    .await
                    .map(drop)
            }
            Fault::RetireKeepsLineage => self.record_all(&id, &branches, epoch).await,
            Fault::RetireLeavesMark => {
                let create = Append::new(id.clone(), 0, vec![NewEvent::new("k", "")]);
                self.inner.append(create.with_epoch(epoch)).await?;
                let delete = Delete::new(id).with_mark(true).with_epoch(epoch);
                self.inner.delete(delete).await.map(drop)
            }
            _ => Ok(()),
        }
    }

    /// The ids of records that begin with this one and are longer.
    async fn that_begin_with(
        &self,
        id: &ExecutionId,
        epoch: Option<PlanEpoch>,
    ) -> Result<Vec<ExecutionId>, StoreError> {
        let inner = self.relocation(Operation::Records)?;
        let page = inner.records(Records::new(1000).with_epoch(epoch)).await?;
        let ids = page.records.into_iter().map(|record| record.id);
        Ok(ids
            .filter(|found| found != id && found.as_str().starts_with(id.as_str()))
            .collect())
    }

    pub(super) async fn real_branches(
        &self,
        id: &ExecutionId,
        epoch: Option<PlanEpoch>,
    ) -> Result<Vec<Branch>, StoreError> {
        match self.inner.capabilities().branches {
            Some(branches) => {
                let children = Children::new(id.clone()).with_epoch(epoch);
                branches.children(children).await
            }
            None => Ok(vec![]),
        }
    }

    pub(super) async fn record_all(
        &self,
        id: &ExecutionId,
        branches: &[Branch],
        epoch: Option<PlanEpoch>,
    ) -> Result<(), StoreError> {
        for Branch { child, label, .. } in branches {
            let edge = RecordLineage::new(id.clone(), child.clone(), label.clone());
            let registry = self.branches(Operation::RecordLineage)?;
            registry.record_lineage(edge.with_epoch(epoch)).await?;
        }
        Ok(())
    }
}

/// An event as it was when it was appended.
fn as_new(event: loom_spi::Event) -> NewEvent {
    let new = NewEvent::new(event.kind, event.payload).recorded_at(event.recorded_at);
    match event.terminal {
        true => new.terminal(),
        false => new,
    }
}
