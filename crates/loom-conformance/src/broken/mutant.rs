//! A store with a fault.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use loom_spi::{
    Append, Appended, BranchRegistry, Capabilities, Delete, Deleted, EventStore, ExecutionId,
    Fencing, Head, Limits, List, ListPage, LogHead, Operation, PlanEpoch, PlanFingerprint,
    PlanLedger, Read, ReadPage, StoreError, StoreErrorKind,
};

use super::Fault;
use super::notes::{Notes, pause};

/// A sound store with one [`Fault`].
///
/// It offers the fencing, the ledger, the registry and the relocation of the store that it wraps, as far as they are
/// there.
#[derive(Debug)]
pub struct Mutant {
    pub(super) inner: Arc<dyn EventStore>,
    pub(super) fault: Fault,
    notes: Mutex<Notes>,
}

impl Mutant {
    /// Breaks a store.
    #[must_use]
    pub fn new(store: Arc<dyn EventStore>, fault: Fault) -> Self {
        Self {
            inner: store,
            fault,
            notes: Mutex::default(),
        }
    }

    pub(super) fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn fencing(&self, operation: Operation) -> Result<&dyn Fencing, StoreError> {
        let offered = self.inner.capabilities().fencing;
        offered.ok_or_else(|| unsupported(operation, "fencing"))
    }

    pub(super) fn ledger(&self, operation: Operation) -> Result<&dyn PlanLedger, StoreError> {
        let offered = self.inner.capabilities().ledger;
        offered.ok_or_else(|| unsupported(operation, "a plan ledger"))
    }

    pub(super) fn branches(&self, operation: Operation) -> Result<&dyn BranchRegistry, StoreError> {
        let offered = self.inner.capabilities().branches;
        offered.ok_or_else(|| unsupported(operation, "branches"))
    }

    /// The id under which the store knows an execution.
    pub(super) fn id(&self, id: ExecutionId) -> ExecutionId {
        let text = id.as_str();
        let changed = match self.fault {
            Fault::IdsFolded => text.to_lowercase(),
            Fault::IdsTrimmed => text.trim_end().to_owned(),
            Fault::IdsTruncated => text[..text.floor_char_boundary(64)].to_owned(),
            Fault::IdsAscii => text.replace(|c: char| !c.is_ascii(), "?"),
            _ => return id,
        };
        ExecutionId::new(changed).unwrap_or(id)
    }

    /// The plan that is presented to the store in the place of the one that came with a request.
    pub(super) async fn epoch(
        &self,
        operation: Operation,
        presented: Option<PlanEpoch>,
    ) -> Result<Option<PlanEpoch>, StoreError> {
        let Some(ledger) = self.inner.capabilities().ledger else {
            return Ok(presented);
        };
        let refused = |kind| StoreError::new(operation, kind);
        let current = || async { Ok(ledger.current().await?.map(|plan| plan.epoch)) };
        Ok(match (self.fault, presented) {
            (fault, _) if fault.ignores_epoch_of() == Some(operation) => current().await?,
            (Fault::UnplannedServed, None) => current().await?,
            (Fault::UnplannedRefused, None) => match current().await? {
                Some(current) => {
                    return Err(refused(StoreErrorKind::StalePlan { presented, current }));
                }
                None => None,
            },
            (Fault::FingerprintIgnored, Some(asked)) => match current().await? {
                Some(current) if current.epoch == asked.epoch => Some(current),
                _ => presented,
            },
            (Fault::NewerPlanServed, Some(asked)) => match current().await? {
                Some(current) if current.epoch < asked.epoch => Some(current),
                _ => presented,
            },
            (Fault::FingerprintTruncated, Some(asked)) => Some(truncated(asked)),
            // It was checked before.
            (Fault::EpochNotAtomic, _) if operation == Operation::Append => current().await?,
            _ => presented,
        })
    }

    /// Checks the plan of an append, and then takes its time: until somebody has looked at the execution under
    /// another plan, but not for ever.
    async fn check_and_dawdle(&self, request: &Append) -> Result<(), StoreError> {
        let current = self.current_epoch().await?;
        PlanEpoch::admit(current, request.epoch)
            .map_err(|kind| StoreError::new(Operation::Append, kind))?;
        for _ in 0..300 {
            let looked = self.notes().looks.get(&request.id).copied();
            if looked.is_some_and(|under| under != request.epoch) {
                break;
            }
            pause().await;
        }
        Ok(())
    }

    /// The error that is passed on in the place of the store's.
    pub(super) fn error(&self, error: StoreError) -> StoreError {
        let named = |error: StoreError, id: Option<&ExecutionId>| match id {
            Some(id) => error.with_execution(id),
            None => error,
        };
        let (operation, kind) = (error.operation(), error.kind().clone());
        let (operation, kind) = match (self.fault, kind) {
            (Fault::ErrorsWithoutExecution, kind) => return StoreError::new(operation, kind),
            (Fault::ErrorsOfAnotherOperation, kind) => (Operation::Append, kind),
            (Fault::ConflictWithoutLength, StoreErrorKind::SequenceConflict { expected, .. }) => (
                operation,
                StoreErrorKind::SequenceConflict {
                    expected,
                    actual: 0,
                },
            ),
            (Fault::AbsentIsUnavailable, StoreErrorKind::NotFound) => {
                let reason = "it was not there".to_owned();
                let outcome_known = true;
                (
                    operation,
                    StoreErrorKind::Unavailable {
                        reason,
                        outcome_known,
                    },
                )
            }
            (Fault::OutcomeClaimedKnown, StoreErrorKind::Unavailable { reason, .. }) => {
                let outcome_known = true;
                (
                    operation,
                    StoreErrorKind::Unavailable {
                        reason,
                        outcome_known,
                    },
                )
            }
            (Fault::OutageIsAbsent, StoreErrorKind::Unavailable { .. }) => {
                (operation, StoreErrorKind::NotFound)
            }
            _ => return error,
        };
        named(StoreError::new(operation, kind), error.execution())
    }

    fn limits(&self, real: Limits) -> Limits {
        match self.fault {
            Fault::LimitsOverstated => {
                real.with_max_payload_bytes(real.max_payload_bytes.saturating_mul(2))
            }
            Fault::LimitsUnderstated => real.with_max_append_events(real.max_append_events / 2),
            Fault::LimitsContradict => real.with_max_append_bytes(real.max_payload_bytes),
            _ => real,
        }
    }
}

/// A fingerprint as it comes out of 64 bits.
pub(super) fn truncated(epoch: PlanEpoch) -> PlanEpoch {
    let PlanFingerprint(fingerprint) = epoch.fingerprint;
    PlanEpoch::new(
        epoch.epoch,
        PlanFingerprint(fingerprint & u128::from(u64::MAX)),
    )
}

fn unsupported(operation: Operation, capability: &'static str) -> StoreError {
    StoreError::new(operation, StoreErrorKind::Unsupported { capability })
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl EventStore for Mutant {
    async fn append(&self, mut request: Append) -> Result<Appended, StoreError> {
        request.id = self.id(request.id);
        if self.fault == Fault::EpochNotAtomic {
            self.check_and_dawdle(&request).await?;
        }
        request.epoch = self.epoch(Operation::Append, request.epoch).await?;
        let (id, epoch) = (request.id.clone(), request.epoch);
        self.append_to_moved(&mut request).await?;
        let broken = self.break_seal(Operation::Append, &id, epoch).await?;
        let mut done = self.append_wrongly(request).await;
        self.mend_seal(broken, &id, epoch).await;
        if self.fault == Fault::SealedBeforeInvalid
            && done.is_err()
            && self.is_sealed(&id, epoch).await?
        {
            let error = StoreError::new(Operation::Append, StoreErrorKind::Sealed);
            done = Err(error.with_execution(&id));
        }
        self.notes().appended |= done.is_ok();
        done.map_err(|error| self.error(error))
    }

    async fn read(&self, mut request: Read) -> Result<ReadPage, StoreError> {
        request.id = self.id(request.id);
        request.epoch = self.epoch(Operation::Read, request.epoch).await?;
        let id = request.id.clone();
        let mut page = self
            .read_wrongly(request)
            .await
            .map_err(|error| self.error(error))?;
        match self.fault {
            Fault::SealedUnreadable if page.head.sealed => {
                let error = StoreError::new(Operation::Read, StoreErrorKind::Sealed);
                return Err(error.with_execution(&id));
            }
            Fault::ReadHidesSeal => page.head.sealed = false,
            _ => {}
        }
        Ok(page)
    }

    async fn head(&self, mut request: Head) -> Result<Option<LogHead>, StoreError> {
        request.id = self.id(request.id);
        request.epoch = self.epoch(Operation::Head, request.epoch).await?;
        self.notes().looks.insert(request.id.clone(), request.epoch);
        let id = request.id.clone();
        let head = self.head_wrongly(request).await;
        let mut head = head.map_err(|error| self.error(error))?;
        if let Some(head) = &mut head {
            let notes = self.notes();
            let once = &notes.moves.sealed_once;
            match self.fault {
                Fault::HeadHidesSeal => head.sealed = false,
                Fault::HeadKeepsSeal => head.sealed |= once.contains(&id),
                Fault::HeadSharesSeal => head.sealed |= !once.is_empty(),
                _ => {}
            }
        }
        Ok(head)
    }

    async fn list(&self, mut request: List) -> Result<ListPage, StoreError> {
        request.epoch = self.epoch(Operation::List, request.epoch).await?;
        let page = self.list_wrongly(request).await;
        let mut page = page.map_err(|error| self.error(error))?;
        match self.fault {
            Fault::SealedUnlisted => page.executions.retain(|found| !found.head.sealed),
            Fault::ListHidesSeal => {
                for found in &mut page.executions {
                    found.head.sealed = false;
                }
            }
            _ => {}
        }
        Ok(page)
    }

    async fn delete(&self, mut request: Delete) -> Result<Deleted, StoreError> {
        request.id = self.id(request.id);
        request.epoch = self.epoch(Operation::Delete, request.epoch).await?;
        let (id, epoch) = (request.id.clone(), request.epoch);
        let broken = self.break_seal(Operation::Delete, &id, epoch).await?;
        let deleted = self.delete_wrongly(request).await;
        self.mend_seal(broken, &id, epoch).await;
        deleted.map_err(|error| self.error(error))
    }

    fn capabilities(&self) -> Capabilities<'_> {
        let real = self.inner.capabilities();
        let mut offered = Capabilities::none().with_limits(self.limits(real.limits));
        if self.fault == Fault::CapabilitiesVanish && self.notes().appended {
            return offered;
        }
        if real.fencing.is_some() {
            offered = offered.with_fencing(self);
        }
        if real.ledger.is_some() {
            offered = offered.with_ledger(self);
        }
        if real.branches.is_some() {
            offered = offered.with_branches(self);
        }
        if real.relocation.is_some() {
            offered = offered.with_relocation(self);
        }
        offered
    }
}
