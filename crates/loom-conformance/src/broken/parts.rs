//! Parts and comparisons that go wrong.

use loom_spi::{
    Event, ExecutionId, ExecutionState, Import, Imported, Operation, Read, RecordSummary,
    StoreError, StoreErrorKind,
};

use super::imports::{conflict, invalid, refused};
use super::{Fault, Mutant};

impl Mutant {
    /// Refuses, or forgets to refuse, for what was removed.
    pub(super) fn refuse_for_marks(&self, request: &Import) -> Result<(), StoreError> {
        let notes = self.notes();
        let marks = &notes.moves.marks;
        let marked = match self.fault {
            Fault::MarkByPrefix => marks
                .iter()
                .any(|marked| request.id.as_str().starts_with(marked.as_str())),
            Fault::MarksOutlivePlans
            | Fault::MarksClearedBySamePlan
            | Fault::RefusedDeleteMarks => marks.contains(&request.id),
            _ => false,
        };
        match marked {
            true => Err(refused(request, StoreErrorKind::DeletedHere)),
            false => Ok(()),
        }
    }

    /// Changes a part, or answers it without looking.
    pub(super) fn take_part_wrongly(
        &self,
        request: &mut Import,
    ) -> Result<Option<Imported>, StoreError> {
        let length = request.sealed.events();
        let first = request.first_sequence();
        match self.fault {
            Fault::PartsMayBeEmpty if request.events.is_empty() && length > 0 => {
                return Ok(Some(Imported::Staged { next_sequence: 0 }));
            }
            Fault::PartsCloseHoles => {
                for (sequence, event) in (first..).zip(&mut request.events) {
                    event.sequence = sequence;
                }
            }
            Fault::PartsCutOff => request.events.retain(|event| event.sequence < length),
            Fault::PartsFitEnds => {
                let closed = request.sealed.head.is_some_and(|head| head.is_closed());
                for event in &mut request.events {
                    event.terminal = closed && event.sequence + 1 == length;
                }
            }
            Fault::PartsRefusedTwice => {
                let reached = self.notes().moves.staged.get(&request.id).copied();
                if reached.is_some_and(|reached| first < reached) {
                    return Err(invalid(request));
                }
            }
            Fault::PartsDroppedByRefusal | Fault::PartsDroppedBySamePlan => {
                let mut notes = self.notes();
                if first == 0 {
                    notes.moves.dropped.remove(&request.id);
                } else if notes.moves.dropped.contains(&request.id) {
                    return Err(invalid(request));
                }
            }
            Fault::PartsMixIncarnations => {
                if let Some((head, kept)) = self.notes().moves.parts.get(&request.id)
                    && *head != request.sealed.head
                {
                    for event in &mut request.events {
                        let place = usize::try_from(event.sequence).unwrap_or(usize::MAX);
                        *event = kept.get(place).unwrap_or(event).clone();
                    }
                }
            }
            Fault::PartsFoldIds => {
                let folded = request.id.as_str().to_lowercase();
                request.id = ExecutionId::new(folded).unwrap_or(request.id.clone());
            }
            _ => {}
        }
        Ok(None)
    }

    /// What goes wrong where a log is, before it is looked at.
    pub(super) fn refuse_to_compare(&self, request: &mut Import) -> Result<(), StoreError> {
        let whole = request.events.len() as u64 == request.sealed.events();
        match self.fault {
            Fault::CompareNeedsOnePart if !whole => Err(invalid(request)),
            Fault::CompareNeedsTheStart if request.first_sequence() > 0 => Err(invalid(request)),
            Fault::CompareKeepsFence => {
                request.sealed.fence = None;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What is done although the store refused.
    pub(super) async fn despite(
        &self,
        mut request: Import,
        here: Option<&RecordSummary>,
        error: StoreError,
    ) -> Result<Imported, StoreError> {
        let inner = self.relocation(Operation::Import)?;
        match error.kind() {
            StoreErrorKind::Sealed if self.fault == Fault::ImportOverSealed => {
                let unseal = loom_spi::Unseal::new(request.id.clone());
                inner.unseal(unseal.with_epoch(request.epoch)).await?;
                let (id, epoch) = (request.id.clone(), request.epoch);
                let answer = inner.import(request).await;
                self.mend_seal(true, &id, epoch).await;
                answer
            }
            StoreErrorKind::LineageConflict { .. } => match self.fault {
                Fault::ImportSkipsConflicts => {
                    self.without_conflicts(&mut request).await?;
                    inner.import(request).await
                }
                Fault::ImportTornByConflict => {
                    let first = request.sealed.branches.get(..1).unwrap_or_default();
                    self.record_all(&request.id, first, request.epoch).await?;
                    Err(error)
                }
                _ => Err(error),
            },
            StoreErrorKind::RecordConflict { .. } => {
                self.despite_conflict(request, here, error).await
            }
            StoreErrorKind::InvalidArgument { .. } => self.despite_misfit(request, error).await,
            _ => Err(error),
        }
    }

    async fn despite_conflict(
        &self,
        mut request: Import,
        here: Option<&RecordSummary>,
        error: StoreError,
    ) -> Result<Imported, StoreError> {
        let inner = self.relocation(Operation::Import)?;
        let there = Ok(Imported::AlreadyThere);
        let length = here.and_then(|here| here.head);
        let shorter = length.is_some_and(|head| head.next_sequence < request.sealed.events());
        match self.fault {
            Fault::CompareNothing if !shorter => return there,
            Fault::CompareTakesShorter if shorter => return there,
            Fault::CompareFirstPart if request.first_sequence() > 0 => return there,
            Fault::CompareRaisesFenceAnyway => {
                self.raise_fence_anyway(&request).await?;
                return Err(error);
            }
            Fault::CompareOverwrites => {
                self.remove(&request.id, request.epoch).await?;
                return inner.import(request).await;
            }
            Fault::CompareNoEnds => {
                if let Some(head) = &mut request.sealed.head {
                    head.state = ExecutionState::Open;
                }
                for event in &mut request.events {
                    event.terminal = false;
                }
            }
            Fault::CompareAllButLast | Fault::CompareNoTimes => {
                let known = self.known(&request).await?;
                let last = request.sealed.events();
                for (event, known) in request.events.iter_mut().zip(known) {
                    if self.fault == Fault::CompareNoTimes {
                        event.recorded_at = known.recorded_at;
                    } else if event.sequence + 1 == last {
                        *event = known;
                    }
                }
            }
            _ => return Err(error),
        }
        inner
            .import(request.clone())
            .await
            .map_err(|_| conflict(&request))
    }

    /// The events that are here in the place of those that come.
    async fn known(&self, request: &Import) -> Result<Vec<Event>, StoreError> {
        let count = request.events.len().max(1);
        let read = Read::new(request.id.clone(), request.first_sequence(), count);
        let page = self.inner.read(read.with_epoch(request.epoch)).await?;
        Ok(page.events)
    }

    async fn despite_misfit(
        &self,
        request: Import,
        error: StoreError,
    ) -> Result<Imported, StoreError> {
        let inner = self.relocation(Operation::Import)?;
        let begun = self.notes().moves.staged.contains_key(&request.id);
        let late = request.check().is_ok() && request.first_sequence() > 0;
        let next_sequence = request.next_sequence();
        match self.fault {
            Fault::PartsMayGap if late && begun => Ok(Imported::Staged { next_sequence }),
            Fault::PartsStartAnywhere if late && !begun => Ok(Imported::Staged { next_sequence }),
            Fault::PartsDroppedByRefusal => {
                self.notes().moves.dropped.insert(request.id);
                Err(error)
            }
            Fault::PartsOutlivePlans if late && begun => {
                let kept = self.notes().moves.parts.get(&request.id).cloned();
                let mut before = request.clone();
                before.events = kept.map_or(vec![], |(_, events)| events);
                inner.import(before).await?;
                inner.import(request).await
            }
            _ => Err(error),
        }
    }
}
