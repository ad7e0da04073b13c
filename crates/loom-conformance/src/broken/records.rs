//! Looks at records that go wrong.

use loom_spi::{
    ExecutionState, Inspect, ListCursor, Operation, Parent, RecordPage, RecordSummary, Records,
    StoreError, Unseal,
};

use super::notes::pause;
use super::{Fault, Mutant};

impl Mutant {
    pub(super) async fn inspect_wrongly(
        &self,
        request: Inspect,
    ) -> Result<Option<RecordSummary>, StoreError> {
        let (id, epoch) = (request.id.clone(), request.epoch);
        let inner = self.relocation(Operation::Inspect)?;
        if self.fault == Fault::InspectTornByDrop && !self.is_sealed(&id, epoch).await? {
            self.mend_seal(true, &id, epoch).await;
            pause().await;
            // It may be that there is nothing.
            let _ = inner
                .unseal(Unseal::new(id.clone()).with_epoch(epoch))
                .await;
        }
        let mut found = inner.inspect(request).await?;
        let nothing = || Some(RecordSummary::new(id.clone(), None, None, 0, false));
        match self.fault {
            Fault::InspectNeedsALog => found = found.filter(|record| record.head.is_some()),
            Fault::InspectForgetsDeleted if self.notes().deleted.contains(&id) => found = None,
            Fault::InspectShowsChildren if found.is_none() => {
                let parent = Parent::new(id.clone()).with_epoch(epoch);
                let link = self.branches(Operation::Inspect)?.parent(parent).await?;
                found = link.and_then(|_| nothing());
            }
            Fault::MarkIsARecord if self.notes().moves.marks.contains(&id) => {
                found = found.or_else(nothing);
            }
            Fault::InspectCached if found.is_some() => {
                let mut notes = self.notes();
                let known = &mut notes.moves.summaries;
                return Ok(known.entry(id).or_insert(found).clone());
            }
            Fault::MergeCountsTwice => {
                if let Some(record) = &mut found {
                    let twice = self.notes().moves.twice.get(&id).copied();
                    record.branches += twice.unwrap_or(0);
                }
            }
            _ => {}
        }
        if let Some(record) = &mut found {
            self.tell_wrongly(record);
        }
        Ok(found)
    }

    fn tell_wrongly(&self, record: &mut RecordSummary) {
        match self.fault {
            Fault::InspectHidesFence => record.fence = None,
            Fault::InspectNeverCloses => {
                if let Some(head) = &mut record.head {
                    head.state = ExecutionState::Open;
                }
            }
            Fault::InspectCountsNoBranches => record.branches = 0,
            Fault::InspectHidesSeal => record.sealed = false,
            _ => {}
        }
    }

    pub(super) async fn records_wrongly(
        &self,
        mut request: Records,
    ) -> Result<RecordPage, StoreError> {
        let inner = self.relocation(Operation::Records)?;
        let limit = request.limit;
        match self.fault {
            Fault::RecordsLimitZero if limit == 0 => request.limit = 1,
            Fault::RecordsOverLimit if limit > 0 => request.limit = limit.saturating_add(1),
            Fault::RecordsIgnoreRoute => request.route = None,
            Fault::RecordsRouteForgottenByCursor if request.cursor.is_some() => {
                request.route = None;
            }
            Fault::RecordsByOffset if limit > 0 => return self.records_by_offset(request).await,
            Fault::RecordsCursorNeedsItsRow => {
                if let Some(cursor) = &request.cursor {
                    let id = cursor.position().1.clone();
                    if self.real(&id, request.epoch).await?.is_none() {
                        return Ok(RecordPage::new(vec![], None));
                    }
                }
            }
            _ => {}
        }
        let mut page = inner.records(request).await?;
        match self.fault {
            Fault::RecordsNeedALog => page.records.retain(|record| record.head.is_some()),
            Fault::RecordsHideSealed => page.records.retain(|record| !record.sealed),
            Fault::RecordsCursorSkips if page.next.is_some() && page.records.len() > 1 => {
                // Its cursor still says that it was there.
                page.records.pop();
            }
            _ => page
                .records
                .iter_mut()
                .for_each(|record| self.tell_wrongly(record)),
        }
        Ok(page)
    }

    async fn records_by_offset(&self, mut request: Records) -> Result<RecordPage, StoreError> {
        let cursor = request.cursor.take();
        let skipped = cursor.map_or(0, |cursor| {
            let known = self.notes().offsets.get(cursor.position().1).copied();
            known.unwrap_or(0)
        });
        let limit = std::mem::replace(&mut request.limit, 10_000);
        let inner = self.relocation(Operation::Records)?;
        let all = inner.records(request).await?.records;
        let more = all.len().saturating_sub(skipped) > limit;
        let records: Vec<_> = all.into_iter().skip(skipped).take(limit).collect();
        let next = records.last().filter(|_| more).map(|last| {
            let offset = skipped + records.len();
            self.notes().offsets.insert(last.id.clone(), offset);
            ListCursor::after(&last.id)
        });
        Ok(RecordPage::new(records, next))
    }
}
