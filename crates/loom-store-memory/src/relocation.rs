//! Moving records in and out.

use std::collections::HashSet;

use async_trait::async_trait;
use loom_spi::{
    Branch, ExecutionId, Import, ImportAdmission, Imported, Inspect, ListCursor, Operation,
    RecordPage, RecordState, RecordSummary, Records, Relocation, Retire, Seal, SealedRecord,
    StoreError, StoreErrorKind, Unseal,
};

use crate::MemoryStore;
use crate::arrivals::{Part, compare};
use crate::record::{Holder, Record};
use crate::store::refused;
use crate::stripes::Stripe;

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Relocation for MemoryStore {
    async fn inspect(&self, request: Inspect) -> Result<Option<RecordSummary>, StoreError> {
        let (stripe, position) = self.stripes.read(&request.id);
        let record = stripe.records.get(&position);
        state(&stripe, record)
            .admit_inspect(&request)
            .map_err(refused(Operation::Inspect, &request.id))?;
        Ok(record.map(|record| summary(&request.id, record)))
    }

    async fn seal(&self, request: Seal) -> Result<SealedRecord, StoreError> {
        let (mut stripe, position) = self.stripes.write(&request.id);
        state(&stripe, stripe.records.get(&position))
            .admit_seal(&request)
            .map_err(refused(Operation::Seal, &request.id))?;
        let record = stripe.records.entry(position).or_default();
        record.set_sealed(true);
        let branches = self.parents.branches(record.children());
        let sealed = SealedRecord::new(record.head(), record.fence, branches);
        // An append may have brought a higher token since, of which nobody is known to be the holder.
        let holder = record
            .holder()
            .filter(|holder| Some(holder.token) == record.fence);
        let holder = holder.map(|holder| holder.name.clone());
        Ok(sealed.with_holder(holder))
    }

    async fn import(&self, request: Import) -> Result<Imported, StoreError> {
        self.import_part(&request)
            .map_err(refused(Operation::Import, &request.id))
    }

    async fn retire(&self, request: Retire) -> Result<(), StoreError> {
        let (mut stripe, position) = self.stripes.write(&request.id);
        let present = state(&stripe, stripe.records.get(&position))
            .admit_retire(&request)
            .map_err(refused(Operation::Retire, &request.id))?;
        if present && let Some(record) = stripe.records.remove(&position) {
            let children = record.children();
            self.parents.of(children).remove(children);
        }
        Ok(())
    }

    async fn unseal(&self, request: Unseal) -> Result<(), StoreError> {
        let (mut stripe, position) = self.stripes.write(&request.id);
        state(&stripe, stripe.records.get(&position))
            .admit_unseal(&request)
            .map_err(refused(Operation::Unseal, &request.id))?;
        if let Some(record) = stripe.records.get_mut(&position) {
            record.set_sealed(false);
        }
        Ok(())
    }

    async fn records(&self, request: Records) -> Result<RecordPage, StoreError> {
        let (records, more) = self.page(
            Operation::Records,
            request.limit,
            request.cursor.as_ref(),
            request.route,
            request.epoch,
            |id, record| Some(summary(id, record)),
        )?;
        let last = records.last().filter(|_| more);
        let next = last.map(|last| ListCursor::after(&last.id));
        Ok(RecordPage::new(records, next))
    }
}

impl MemoryStore {
    fn import_part(&self, request: &Import) -> Result<Imported, StoreErrorKind> {
        let (mut stripe, position) = self.stripes.write(&request.id);
        let here = state(&stripe, stripe.records.get(&position));
        let marked = stripe.arrivals.is_marked(&request.id);
        match here.admit_import(request, marked)? {
            ImportAdmission::Compare => {
                let record = stripe.records.entry(position).or_default();
                compare(&request.events, &record.events)?;
                let next_sequence = request.next_sequence();
                if next_sequence < request.sealed.events() {
                    return Ok(Imported::Staged { next_sequence });
                }
                raise_fence(record, &request.sealed);
                Ok(Imported::AlreadyThere)
            }
            admission => {
                let known = stripe
                    .records
                    .get(&position)
                    .map_or(&[][..], Record::children);
                let branches = merged(&request.sealed.branches, &self.parents.branches(known));
                let children: Vec<_> = branches.iter().map(|branch| branch.child.clone()).collect();
                let mut links = self.parents.of(&children);
                let all_known = links.admit(&request.id, &branches)?;
                let events = match admission {
                    ImportAdmission::Join => Vec::new(),
                    _ => match stripe.arrivals.stage(request)? {
                        Part::Staged(answer) => return Ok(answer),
                        Part::Complete(events) => events,
                    },
                };
                let fence = stripe
                    .records
                    .get(&position)
                    .and_then(|record| record.fence);
                if events.is_empty() && all_known && fence >= request.sealed.fence {
                    return Ok(Imported::AlreadyThere);
                }
                let record = stripe.records.entry(position).or_default();
                if !events.is_empty() {
                    record.events = events;
                }
                raise_fence(record, &request.sealed);
                links.insert(&request.id, &branches);
                record.set_children(children);
                Ok(Imported::Visible)
            }
        }
    }
}

fn state(stripe: &Stripe, record: Option<&Record>) -> RecordState {
    let nothing = || RecordState::new().with_plan(stripe.plan);
    record.map_or_else(nothing, |record| record.state(stripe.plan))
}

fn summary(id: &ExecutionId, record: &Record) -> RecordSummary {
    RecordSummary::new(
        id.clone(),
        record.head(),
        record.fence,
        record.children().len() as u64,
        record.is_sealed(),
    )
}

/// The branches that come, and those that only are here.
fn merged(coming: &[Branch], here: &[Branch]) -> Vec<Branch> {
    let known: HashSet<&ExecutionId, ahash::RandomState> =
        coming.iter().map(|branch| &branch.child).collect();
    let only_here = here.iter().filter(|branch| !known.contains(&branch.child));
    coming.iter().chain(only_here).cloned().collect()
}

/// The token of an import fences out whoever it did where it comes from; its holder may renew here.
fn raise_fence(record: &mut Record, sealed: &SealedRecord) {
    let Some(token) = sealed.fence else { return };
    let unheld = record.holder().is_none_or(|holder| holder.token != token);
    if record.fence < Some(token) || (record.fence == Some(token) && unheld) {
        record.fence = Some(token);
        record.set_holder(sealed.holder.clone().map(|name| Holder {
            name,
            token,
            leased_until: None,
        }));
    }
}
