//! Imports that go wrong.

use loom_spi::{
    AcquireFence, Branch, Delete, ExecutionState, Forget, Import, Imported, Operation, Parent,
    RecordSummary, RenewLease, StoreError, StoreErrorKind, Timestamp,
};

use super::notes::pause;
use super::{Fault, Mutant};
use crate::suites::MINUTE;

pub(super) fn refused(request: &Import, kind: StoreErrorKind) -> StoreError {
    StoreError::new(Operation::Import, kind).with_execution(&request.id)
}

pub(super) fn invalid(request: &Import) -> StoreError {
    let reason = "it does not fit".to_owned();
    refused(request, StoreErrorKind::InvalidArgument { reason })
}

pub(super) fn conflict(request: &Import) -> StoreError {
    let reason = "it is another one".to_owned();
    refused(request, StoreErrorKind::RecordConflict { reason })
}

impl Mutant {
    pub(super) async fn import_wrongly(&self, mut request: Import) -> Result<Imported, StoreError> {
        let inner = self.relocation(Operation::Import)?;
        let here = self.real(&request.id, request.epoch).await?;
        self.refuse_for_marks(&request)?;
        if let Some(answer) = self.take_part_wrongly(&mut request)? {
            return Ok(answer);
        }
        self.change_record(&mut request);
        match here.as_ref().map(|here| here.head.is_some()) {
            Some(true) if request.sealed.head.is_none() => self.join_wrongly(&mut request).await?,
            Some(true) => self.refuse_to_compare(&mut request)?,
            Some(false) => self.merge_wrongly(&mut request, here.as_ref()).await?,
            None => self.arrive_wrongly(&mut request).await?,
        }
        if self.fault == Fault::ImportNotAtomic {
            pause().await;
        }
        let answer = inner.import(request.clone()).await;
        match answer {
            Ok(answer) => self.after_import(&request, here.as_ref(), answer).await,
            Err(error) => self.despite(request, here.as_ref(), error).await,
        }
    }

    /// Changes what comes.
    fn change_record(&self, request: &mut Import) {
        let sealed = &mut request.sealed;
        match self.fault {
            Fault::ImportForgetsFence => (sealed.fence, sealed.holder) = (None, None),
            Fault::ImportForgetsHolder => sealed.holder = None,
            Fault::ImportInventsHolder if sealed.fence.is_some() => {
                sealed.holder.get_or_insert_with(|| "somebody".to_owned());
            }
            Fault::ImportForgetsLineage => sealed.branches.clear(),
            Fault::ImportSortsLineage => sealed.branches.sort_by(|a, b| a.child.cmp(&b.child)),
            Fault::ImportOpens => {
                if let Some(head) = &mut sealed.head {
                    head.state = ExecutionState::Open;
                }
                for event in &mut request.events {
                    event.terminal = false;
                }
            }
            Fault::ImportStampsTimes => {
                let now = Timestamp::from_millis(1);
                if let Some(head) = &mut sealed.head {
                    (head.created_at, head.updated_at) = (now, now);
                }
                for event in &mut request.events {
                    event.recorded_at = now;
                }
            }
            Fault::ImportPayloadAsText => {
                for event in &mut request.events {
                    event.payload = String::from_utf8_lossy(&event.payload).into_owned().into();
                }
            }
            _ => {}
        }
    }

    /// What goes wrong where nothing is.
    async fn arrive_wrongly(&self, request: &mut Import) -> Result<(), StoreError> {
        let whole = request.events.len() as u64 == request.sealed.events();
        let first_part = request.first_sequence() == 0 && !whole;
        let limits = self.inner.capabilities().limits;
        match self.fault {
            Fault::ImportNeedsALog if request.sealed.head.is_none() => {
                return Err(refused(request, StoreErrorKind::NotFound));
            }
            Fault::ImportAppliesLimits => {
                let large =
                    |event: &loom_spi::Event| event.payload.len() > limits.max_payload_bytes;
                if request.events.iter().any(large) {
                    return Err(invalid(request));
                }
            }
            Fault::ImportNeedsOnePart if !whole => return Err(invalid(request)),
            Fault::ImportShowsLineageEarly if first_part => {
                let branches = request.sealed.branches.clone();
                self.record_all(&request.id, &branches, request.epoch)
                    .await?;
            }
            Fault::PartTornByDrop if !whole => {
                let branches = request.sealed.branches.clone();
                self.record_all(&request.id, &branches, request.epoch)
                    .await?;
                pause().await;
                let forget = Forget::new(request.id.clone()).with_epoch(request.epoch);
                self.branches(Operation::Import)?.forget(forget).await?;
            }
            Fault::ImportShowsLogEarly if first_part => self.show_half(request.clone()).await?,
            Fault::ImportTornByDrop if whole && request.events.len() > 1 => {
                let mut half = request.clone();
                half.events.truncate(request.events.len() / 2);
                self.show_half(half).await?;
                pause().await;
                self.remove(&request.id, request.epoch).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Makes a part visible as if it were all.
    async fn show_half(&self, mut part: Import) -> Result<(), StoreError> {
        let events = part.events.len() as u64;
        if let (Some(head), Some(last)) = (&mut part.sealed.head, part.events.last()) {
            (head.next_sequence, head.state) = (events, ExecutionState::Open);
            head.updated_at = last.recorded_at;
        }
        let inner = self.relocation(Operation::Import)?;
        inner.import(part).await.map(drop)
    }

    /// What goes wrong where a log is and none comes.
    async fn join_wrongly(&self, request: &mut Import) -> Result<(), StoreError> {
        match self.fault {
            Fault::JoinDropsLineage => request.sealed.branches.clear(),
            Fault::JoinDropsFence => (request.sealed.fence, request.sealed.holder) = (None, None),
            Fault::JoinSkipsConflicts => self.without_conflicts(request).await?,
            Fault::JoinReplacesLog => {
                let delete = Delete::new(request.id.clone()).with_epoch(request.epoch);
                self.inner.delete(delete).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// What goes wrong where a record without a log is.
    async fn merge_wrongly(
        &self,
        request: &mut Import,
        here: Option<&RecordSummary>,
    ) -> Result<(), StoreError> {
        let (id, epoch) = (request.id.clone(), request.epoch);
        let fence = here.and_then(|here| here.fence);
        let sealed = here.is_some_and(|here| here.sealed);
        match self.fault {
            Fault::MergeRefusesFence if fence.is_some() => return Err(conflict(request)),
            Fault::MergeDropsLineage if !sealed => {
                let forget = Forget::new(id).with_epoch(epoch);
                self.branches(Operation::Import)?.forget(forget).await?;
            }
            Fault::MergeKeepsFence if fence.is_some() => request.sealed.fence = None,
            Fault::MergeReplacesFence if fence.is_some() && !sealed => {
                self.remove(&id, epoch).await?;
            }
            Fault::MergeKeepsHolder => {
                let known = self.notes().moves.holders.get(&id).cloned();
                request.sealed.holder = known.or(request.sealed.holder.take());
            }
            Fault::MergePutsHereFirst | Fault::MergeCountsTwice => {
                let mut branches = self.real_branches(&id, epoch).await?;
                let coming = std::mem::take(&mut request.sealed.branches);
                let (known, new): (Vec<Branch>, Vec<Branch>) = coming
                    .iter()
                    .cloned()
                    .partition(|branch| branches.contains(branch));
                branches.extend(new);
                let mut notes = self.notes();
                notes.moves.twice.entry(id).or_insert(known.len() as u64);
                request.sealed.branches = match self.fault {
                    Fault::MergePutsHereFirst => branches,
                    _ => coming,
                };
            }
            _ => {}
        }
        Ok(())
    }

    /// What goes wrong after an import was done.
    async fn after_import(
        &self,
        request: &Import,
        here: Option<&RecordSummary>,
        answer: Imported,
    ) -> Result<Imported, StoreError> {
        let (id, epoch) = (request.id.clone(), request.epoch);
        let over_a_log = here.is_some_and(|here| here.head.is_some());
        match answer {
            Imported::Visible => self.notes().moves.imported.insert(id.clone()),
            Imported::Staged { next_sequence } if !over_a_log => {
                let mut notes = self.notes();
                let part = (request.sealed.head, request.events.clone());
                notes.moves.parts.entry(id.clone()).or_insert(part);
                let before = notes.moves.staged.insert(id.clone(), next_sequence);
                before.is_none()
            }
            _ => false,
        };
        let visible = answer == Imported::Visible;
        match self.fault {
            Fault::ImportStaysSealed if visible => self.mend_seal(true, &id, epoch).await,
            Fault::ImportStartsLease if visible && request.sealed.holder.is_some() => {
                if let Some(token) = request.sealed.fence {
                    let renewal = RenewLease::new(id, token, MINUTE).with_epoch(epoch);
                    let fencing = self.fencing(Operation::Import)?;
                    fencing.renew_lease(renewal).await?;
                }
            }
            Fault::ImportLosesParents if visible => {
                let children = request.sealed.branches.iter().map(|it| it.child.clone());
                self.notes().moves.orphans.extend(children);
            }
            Fault::ImportNotAtomic if here.is_none() && answer == Imported::AlreadyThere => {
                return Ok(Imported::Visible);
            }
            Fault::CompareJoinsLineage if over_a_log => {
                self.record_all(&id, &request.sealed.branches, epoch)
                    .await?;
            }
            Fault::CompareReplacesHolder if over_a_log => {
                let holder = request.sealed.holder.clone();
                self.notes().moves.replaced.insert(id, holder);
            }
            Fault::CompareRefusesEqual | Fault::CompareRefusesLonger
                if over_a_log && answer == Imported::AlreadyThere =>
            {
                let length = here.and_then(|here| here.head);
                let longer =
                    length.is_some_and(|head| head.next_sequence > request.sealed.events());
                if longer == (self.fault == Fault::CompareRefusesLonger) {
                    return Err(conflict(request));
                }
            }
            _ => return Ok(self.answer_wrongly(request, answer)),
        }
        Ok(answer)
    }

    fn answer_wrongly(&self, request: &Import, answer: Imported) -> Imported {
        let Imported::Staged { mut next_sequence } = answer else {
            return answer;
        };
        match self.fault {
            Fault::ImportAnswersOwnEnd => next_sequence = request.next_sequence(),
            Fault::ImportAnswersStart => next_sequence = request.first_sequence(),
            _ => {}
        }
        Imported::Staged { next_sequence }
    }

    /// Leaves out the children that have other parents here.
    pub(super) async fn without_conflicts(&self, request: &mut Import) -> Result<(), StoreError> {
        let mut free = Vec::new();
        for branch in std::mem::take(&mut request.sealed.branches) {
            let parent = Parent::new(branch.child.clone()).with_epoch(request.epoch);
            let link = self.branches(Operation::Import)?.parent(parent).await?;
            if link.is_none_or(|link| link.parent == request.id) {
                free.push(branch);
            }
        }
        request.sealed.branches = free;
        Ok(())
    }

    pub(super) async fn raise_fence_anyway(&self, request: &Import) -> Result<(), StoreError> {
        if request.sealed.fence.is_some() {
            let acquisition = AcquireFence::new(request.id.clone())
                .with_floor(request.sealed.fence)
                .with_take_over(true)
                .with_epoch(request.epoch);
            let fencing = self.fencing(Operation::Import)?;
            fencing.acquire_fence(acquisition).await?;
        }
        Ok(())
    }
}
