//! The event store.

use std::collections::btree_map::Entry;

use async_trait::async_trait;
use loom_spi::{
    Append, Appended, Capabilities, Delete, Deleted, EventStore, ExecutionSummary, Head, List,
    ListCursor, ListPage, LogHead, Operation, Read, ReadPage, RecordState, StoreError,
    StoreErrorKind,
};

use crate::MemoryStore;
use crate::record::Record;
use crate::store::refused;

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl EventStore for MemoryStore {
    async fn append(&self, request: Append) -> Result<Appended, StoreError> {
        let (mut stripe, position) = self.stripes.write(&request.id);
        let plan = stripe.plan;
        let refused = refused(Operation::Append, &request.id);
        match stripe.records.entry(position) {
            Entry::Vacant(vacant) => {
                RecordState::new()
                    .with_plan(plan)
                    .admit_append(&request, &self.limits)
                    .map_err(refused)?;
                Ok(store(vacant.insert(Record::default()), request))
            }
            Entry::Occupied(mut occupied) => {
                let record = occupied.get_mut();
                record
                    .state(plan)
                    .admit_append(&request, &self.limits)
                    .map_err(refused)?;
                Ok(store(record, request))
            }
        }
    }

    async fn read(&self, request: Read) -> Result<ReadPage, StoreError> {
        let refused = refused(Operation::Read, &request.id);
        if request.limit == 0 {
            return Err(refused(no_limit()));
        }
        let (stripe, position) = self.stripes.read(&request.id);
        let found = stripe.admit(request.epoch).and_then(|()| {
            let record = stripe.records.get(&position);
            record
                .and_then(|record| Some((record, record.head()?)))
                .ok_or(StoreErrorKind::NotFound)
        });
        let (record, head) = found.map_err(refused)?;
        // A sequence that does not fit the address space is past the end of any log.
        let from = usize::try_from(request.from)
            .unwrap_or(usize::MAX)
            .min(record.events.len());
        let rest = &record.events[from..];
        let page = &rest[..request.limit.min(rest.len())];
        Ok(ReadPage::new(page.to_vec(), head))
    }

    async fn head(&self, request: Head) -> Result<Option<LogHead>, StoreError> {
        let (stripe, position) = self.stripes.read(&request.id);
        stripe
            .admit(request.epoch)
            .map_err(refused(Operation::Head, &request.id))?;
        Ok(stripe.records.get(&position).and_then(Record::head))
    }

    async fn list(&self, request: List) -> Result<ListPage, StoreError> {
        let state = request.state;
        let (page, more) = self.page(
            Operation::List,
            request.limit,
            request.cursor.as_ref(),
            request.route,
            request.epoch,
            |id, record| {
                let head = record.head()?;
                let selected = state.is_none_or(|state| state == head.state);
                selected.then(|| ExecutionSummary::new(id.clone(), head))
            },
        )?;
        let last = page.last().filter(|_| more);
        let next = last.map(|last| ListCursor::after(&last.id));
        Ok(ListPage::new(page, next))
    }

    async fn delete(&self, request: Delete) -> Result<Deleted, StoreError> {
        let (mut stripe, position) = self.stripes.write(&request.id);
        let plan = stripe.plan;
        let refused = refused(Operation::Delete, &request.id);
        let Entry::Occupied(mut record) = stripe.records.entry(position) else {
            let absent = RecordState::new().with_plan(plan);
            return absent
                .admit_delete(&request)
                .map(Deleted::new)
                .map_err(refused);
        };
        let state = record.get().state(plan);
        let events = state.admit_delete(&request).map_err(refused)?;
        record.get_mut().events = Vec::new();
        if record.get().is_empty() {
            record.remove();
        }
        if request.mark {
            stripe.arrivals.mark(&request.id);
        }
        Ok(Deleted::new(events))
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::none()
            .with_limits(self.limits)
            .with_fencing(self)
            .with_relocation(self)
            .with_ledger(self)
            .with_branches(self)
    }
}

/// Applies an append that was admitted.
fn store(record: &mut Record, request: Append) -> Appended {
    record.fence = record.fence.max(request.fence);
    record.push(request.events);
    Appended::new(record.events.len() as u64)
}

pub(crate) fn no_limit() -> StoreErrorKind {
    StoreErrorKind::InvalidArgument {
        reason: "the limit of a page is 0: expected at least 1".to_owned(),
    }
}
