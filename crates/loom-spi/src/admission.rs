//! The decisions that every store makes, made in one place.

use crate::{
    AcquireFence, Append, Delete, ExecutionState, FenceToken, Forget, Import, Inspect, Limits,
    LogHead, PlanEpoch, RecordLineage, Require, Retire, Seal, StoreErrorKind, Unseal,
};

/// What a store knows of an execution when it decides about a request: for implementers.
///
/// The methods hold the order of checks that the [`EventStore`](crate::EventStore) contract states, so that all
/// stores refuse alike. They decide; the store applies, in the same transaction.
///
/// ```
/// use loom_spi::{Append, ExecutionId, Limits, NewEvent, RecordState, StoreErrorKind};
///
/// let request = Append::new(ExecutionId::new("order-7")?, 3, vec![NewEvent::new("paid", "")]);
/// let nothing_stored = RecordState::default();
/// assert_eq!(
///     nothing_stored.admit_append(&request, &Limits::default()),
///     Err(StoreErrorKind::SequenceConflict { expected: 3, actual: 0 })
/// );
/// # Ok::<(), loom_spi::InvalidExecutionId>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordState {
    /// The log, if there is one.
    pub head: Option<LogHead>,
    /// The highest fence token seen, if any.
    pub fence: Option<FenceToken>,
    /// Whether lineage edges start here.
    pub has_branches: bool,
    /// Whether the record is sealed.
    pub sealed: bool,
    /// The plan that the store is under.
    pub plan: Option<PlanEpoch>,
}

impl RecordState {
    /// Nothing stored.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the log's state.
    #[must_use]
    pub fn with_head(mut self, head: Option<LogHead>) -> Self {
        self.head = head;
        self
    }

    /// Sets the highest fence token.
    #[must_use]
    pub fn with_fence(mut self, fence: Option<FenceToken>) -> Self {
        self.fence = fence;
        self
    }

    /// Sets whether lineage edges start here.
    #[must_use]
    pub fn with_branches(mut self, has_branches: bool) -> Self {
        self.has_branches = has_branches;
        self
    }

    /// Sets whether the record is sealed.
    #[must_use]
    pub fn with_sealed(mut self, sealed: bool) -> Self {
        self.sealed = sealed;
        self
    }

    /// Sets the store's plan.
    #[must_use]
    pub fn with_plan(mut self, plan: Option<PlanEpoch>) -> Self {
        self.plan = plan;
        self
    }

    /// Whether any part of the record exists.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.head.is_some() || self.fence.is_some() || self.has_branches
    }

    /// Decides about an append. When it is admitted, the store also remembers
    /// `request.fence`, if that is higher than the highest token seen.
    ///
    /// # Errors
    /// The first refusal in the order invalid argument, plan epoch, sealed, fenced, closed, sequence.
    pub fn admit_append(&self, request: &Append, limits: &Limits) -> Result<(), StoreErrorKind> {
        limits.check(request)?;
        PlanEpoch::admit(self.plan, request.epoch)?;
        self.admit_unsealed()?;
        if let Some(current) = self.fence
            && request.fence.is_none_or(|presented| presented < current)
        {
            return Err(StoreErrorKind::Fenced {
                presented: request.fence,
                current,
            });
        }
        let actual = self.head.map_or(0, |head| head.next_sequence);
        if self
            .head
            .is_some_and(|head| head.state == ExecutionState::Closed)
        {
            return Err(StoreErrorKind::Closed {
                next_sequence: actual,
            });
        }
        if request.expected != actual {
            return Err(StoreErrorKind::SequenceConflict {
                expected: request.expected,
                actual,
            });
        }
        Ok(())
    }

    /// Decides about a delete, and returns how many events go.
    ///
    /// # Errors
    /// The first refusal in the order plan epoch, sealed, not found, sequence.
    pub fn admit_delete(&self, request: &Delete) -> Result<u64, StoreErrorKind> {
        PlanEpoch::admit(self.plan, request.epoch)?;
        self.admit_unsealed()?;
        let actual = self.head.ok_or(StoreErrorKind::NotFound)?.next_sequence;
        match request.expected {
            Some(expected) if expected != actual => {
                Err(StoreErrorKind::SequenceConflict { expected, actual })
            }
            _ => Ok(actual),
        }
    }

    /// Decides about an acquisition, except for leases, and returns the new token.
    ///
    /// # Errors
    /// The first refusal in the order invalid argument, plan epoch, sealed, not found.
    pub fn admit_fence(&self, request: &AcquireFence) -> Result<FenceToken, StoreErrorKind> {
        request.check()?;
        PlanEpoch::admit(self.plan, request.epoch)?;
        self.admit_unsealed()?;
        if request.require == Require::Exists && !self.exists() {
            return Err(StoreErrorKind::NotFound);
        }
        let next = self.fence.map_or(1, |seen| seen.0.saturating_add(1));
        let token = next.max(request.floor.map_or(0, |floor| floor.0));
        if token > FenceToken::MAX.0 {
            return Err(StoreErrorKind::InvalidArgument {
                reason: format!("fence tokens end at {}, asked for {token}", FenceToken::MAX),
            });
        }
        Ok(FenceToken(token))
    }

    /// Decides about renewing or releasing the lease that belongs to `token`, except for the plan's epoch.
    ///
    /// # Errors
    /// The first refusal in the order sealed, not found, fenced.
    pub fn admit_lease_change(&self, token: FenceToken) -> Result<(), StoreErrorKind> {
        self.admit_unsealed()?;
        let current = self.fence.ok_or(StoreErrorKind::NotFound)?;
        if token == current {
            Ok(())
        } else {
            Err(StoreErrorKind::Fenced {
                presented: Some(token),
                current,
            })
        }
    }

    /// Decides about recording an edge that starts here, except for what the child already has.
    ///
    /// # Errors
    /// The first refusal in the order invalid argument, plan epoch, sealed, not found.
    pub fn admit_lineage(&self, request: &RecordLineage) -> Result<(), StoreErrorKind> {
        request.check()?;
        PlanEpoch::admit(self.plan, request.epoch)?;
        self.admit_unsealed()?;
        if request.require == Require::Exists && !self.exists() {
            return Err(StoreErrorKind::NotFound);
        }
        Ok(())
    }

    /// Decides about removing the edges that start here.
    ///
    /// # Errors
    /// The first refusal in the order plan epoch, sealed.
    pub fn admit_forget(&self, request: &Forget) -> Result<(), StoreErrorKind> {
        PlanEpoch::admit(self.plan, request.epoch)?;
        self.admit_unsealed()
    }

    /// Decides about looking at the record, and says whether there is one.
    ///
    /// # Errors
    /// A refusal of the plan epoch.
    pub fn admit_inspect(&self, request: &Inspect) -> Result<bool, StoreErrorKind> {
        PlanEpoch::admit(self.plan, request.epoch)?;
        Ok(self.exists())
    }

    /// Decides about sealing. A record that is sealed already is sealed again without a change.
    ///
    /// # Errors
    /// The first refusal in the order plan epoch, not found.
    pub fn admit_seal(&self, request: &Seal) -> Result<(), StoreErrorKind> {
        PlanEpoch::admit(self.plan, request.epoch)?;
        self.admit_existing()
    }

    /// Decides about unsealing. A record that is not sealed is left as it is.
    ///
    /// # Errors
    /// The first refusal in the order plan epoch, not found.
    pub fn admit_unseal(&self, request: &Unseal) -> Result<(), StoreErrorKind> {
        PlanEpoch::admit(self.plan, request.epoch)?;
        self.admit_existing()
    }

    /// Decides about removing a sealed record, and says whether there is anything to remove.
    ///
    /// # Errors
    /// The first refusal in the order plan epoch, not sealed.
    pub fn admit_retire(&self, request: &Retire) -> Result<bool, StoreErrorKind> {
        PlanEpoch::admit(self.plan, request.epoch)?;
        match (self.exists(), self.sealed) {
            (false, _) => Ok(false),
            (true, true) => Ok(true),
            (true, false) => Err(StoreErrorKind::NotSealed),
        }
    }

    /// Decides what to do with a part of an import; `deleted_here` says whether a mark forbids it. What was
    /// staged before and the events that are here are for the store to look at.
    ///
    /// # Errors
    /// The first refusal in the order invalid argument, plan epoch, deleted here, sealed, conflict.
    pub fn admit_import(
        &self,
        request: &Import,
        deleted_here: bool,
    ) -> Result<ImportAdmission, StoreErrorKind> {
        request.check()?;
        PlanEpoch::admit(self.plan, request.epoch)?;
        if deleted_here {
            return Err(StoreErrorKind::DeletedHere);
        }
        self.admit_unsealed()?;
        let (there, here) = (
            request.sealed.events(),
            self.head.map_or(0, |head| head.next_sequence),
        );
        if here == 0 {
            Ok(ImportAdmission::Stage)
        } else if there == 0 {
            Ok(ImportAdmission::Join)
        } else if here < there {
            Err(StoreErrorKind::RecordConflict {
                reason: format!("the log here has {here} events, the imported one {there}"),
            })
        } else {
            Ok(ImportAdmission::Compare)
        }
    }

    fn admit_existing(&self) -> Result<(), StoreErrorKind> {
        if self.exists() {
            Ok(())
        } else {
            Err(StoreErrorKind::NotFound)
        }
    }

    /// Refuses what would change a sealed record.
    ///
    /// # Errors
    /// [`StoreErrorKind::Sealed`].
    pub fn admit_unsealed(&self) -> Result<(), StoreErrorKind> {
        if self.sealed {
            Err(StoreErrorKind::Sealed)
        } else {
            Ok(())
        }
    }
}

/// What a store does with a part of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportAdmission {
    /// Put it with the parts before it, and make the record visible when that was the last.
    Stage,
    /// Compare its events with the same ones of the log that is here, and change nothing but the fence.
    Compare,
    /// It has no log, and a log is here, which stays: take over the higher fence token, and the branches that are
    /// not here.
    Join,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Branch, Event, ExecutionId, NewEvent, PlanFingerprint, SealedRecord, Timestamp};

    fn id() -> ExecutionId {
        ExecutionId::new("e").unwrap()
    }

    fn log(next: u64, state: ExecutionState) -> RecordState {
        let at = Timestamp::from_millis(0);
        RecordState::new().with_head(Some(LogHead::new(next, state, at, at)))
    }

    fn append(expected: u64) -> Append {
        Append::new(id(), expected, vec![NewEvent::new("k", "")])
    }

    #[test]
    fn the_first_refusal_in_the_stated_order_is_reported() {
        let plan = PlanEpoch::new(2, PlanFingerprint(1));
        let mut state = log(3, ExecutionState::Closed)
            .with_fence(Some(FenceToken(5)))
            .with_sealed(true)
            .with_plan(Some(plan));
        let mut request = append(1);
        let empty = Append::new(id(), 1, vec![]);
        let limits = Limits::default();
        assert!(matches!(
            state.admit_append(&empty, &limits),
            Err(StoreErrorKind::InvalidArgument { .. })
        ));
        assert!(matches!(
            state.admit_append(&request, &limits),
            Err(StoreErrorKind::StalePlan { .. })
        ));
        request = request.with_epoch(plan);
        assert_eq!(
            state.admit_append(&request, &limits),
            Err(StoreErrorKind::Sealed)
        );
        state.sealed = false;
        assert!(matches!(
            state.admit_append(&request, &limits),
            Err(StoreErrorKind::Fenced { .. })
        ));
        request = request.with_fence(FenceToken(5));
        assert_eq!(
            state.admit_append(&request, &limits),
            Err(StoreErrorKind::Closed { next_sequence: 3 })
        );
        let open = log(3, ExecutionState::Open).with_plan(Some(plan));
        assert_eq!(
            open.admit_append(&request, &limits),
            Err(StoreErrorKind::SequenceConflict {
                expected: 1,
                actual: 3
            })
        );
        request.expected = 3;
        assert_eq!(open.admit_append(&request, &limits), Ok(()));
    }

    #[test]
    fn a_higher_token_than_the_highest_seen_is_admitted() {
        let state = RecordState::new().with_fence(Some(FenceToken(5)));
        let with = |token| append(0).with_fence(FenceToken(token));
        assert!(state.admit_append(&with(6), &Limits::default()).is_ok());
        assert!(state.admit_append(&with(5), &Limits::default()).is_ok());
        assert!(state.admit_append(&with(4), &Limits::default()).is_err());
    }

    #[test]
    fn a_token_exceeds_what_was_seen_and_reaches_the_floor() {
        let token = |state: RecordState, floor: Option<u64>| {
            state
                .admit_fence(&AcquireFence::new(id()).with_floor(floor.map(FenceToken)))
                .unwrap()
                .0
        };
        let seen = RecordState::new().with_fence(Some(FenceToken(5)));
        assert_eq!(token(RecordState::new(), None), 1);
        assert_eq!(token(RecordState::new(), Some(9)), 9);
        assert_eq!(token(seen, Some(5)), 6);
        assert_eq!(token(seen, Some(9)), 9);
    }

    #[test]
    fn a_required_record_may_be_a_fence_or_lineage_alone() {
        let request = AcquireFence::new(id()).with_require(Require::Exists);
        assert_eq!(
            RecordState::new().admit_fence(&request),
            Err(StoreErrorKind::NotFound)
        );
        assert!(
            RecordState::new()
                .with_branches(true)
                .admit_fence(&request)
                .is_ok()
        );
        assert!(
            RecordState::new()
                .with_fence(Some(FenceToken(1)))
                .admit_fence(&request)
                .is_ok()
        );
    }

    #[test]
    fn the_last_token_is_handed_out_once() {
        let at_end = RecordState::new().with_fence(Some(FenceToken::MAX));
        assert!(matches!(
            at_end.admit_fence(&AcquireFence::new(id())),
            Err(StoreErrorKind::InvalidArgument { .. })
        ));
    }

    #[test]
    fn what_is_sealed_can_only_be_unsealed_and_retired() {
        let record = log(3, ExecutionState::Open).with_sealed(true);
        let edge = RecordLineage::new(id(), ExecutionId::new("child").unwrap(), String::new());
        assert_eq!(record.admit_lineage(&edge), Err(StoreErrorKind::Sealed));
        assert_eq!(
            record.admit_forget(&Forget::new(id())),
            Err(StoreErrorKind::Sealed)
        );
        assert_eq!(record.admit_seal(&Seal::new(id())), Ok(()));
        assert_eq!(record.admit_unseal(&Unseal::new(id())), Ok(()));
        assert_eq!(record.admit_retire(&Retire::new(id())), Ok(true));
        let open = record.with_sealed(false);
        assert_eq!(
            open.admit_retire(&Retire::new(id())),
            Err(StoreErrorKind::NotSealed)
        );
        assert_eq!(open.admit_lineage(&edge), Ok(()));
    }

    #[test]
    fn what_is_not_there_cannot_be_sealed_and_needs_no_retiring() {
        let nothing = RecordState::new();
        assert_eq!(
            nothing.admit_seal(&Seal::new(id())),
            Err(StoreErrorKind::NotFound)
        );
        assert_eq!(
            nothing.admit_unseal(&Unseal::new(id())),
            Err(StoreErrorKind::NotFound)
        );
        assert_eq!(nothing.admit_retire(&Retire::new(id())), Ok(false));
        let edge = RecordLineage::new(id(), ExecutionId::new("child").unwrap(), String::new());
        assert_eq!(
            nothing.admit_lineage(&edge.with_require(Require::Exists)),
            Err(StoreErrorKind::NotFound)
        );
    }

    fn import(events: u64) -> Import {
        let at = Timestamp::from_millis(0);
        let head = (events > 0)
            .then(|| LogHead::new(events, ExecutionState::Open, at, at).with_sealed(true));
        let events = (0..events)
            .map(|sequence| Event::from_new(sequence, NewEvent::new("k", "").recorded_at(at)));
        Import::new(
            id(),
            SealedRecord::new(head, None, vec![]),
            events.collect(),
        )
    }

    #[test]
    fn an_import_is_staged_where_no_log_is_compared_with_one_at_least_as_long_and_joined_when_it_has_none()
     {
        let admit = |state: RecordState| state.admit_import(&import(2), false);
        assert_eq!(admit(RecordState::new()), Ok(ImportAdmission::Stage));
        assert_eq!(
            admit(RecordState::new().with_fence(Some(FenceToken(1)))),
            Ok(ImportAdmission::Stage)
        );
        assert_eq!(
            admit(log(2, ExecutionState::Open)),
            Ok(ImportAdmission::Compare)
        );
        assert_eq!(
            admit(log(3, ExecutionState::Open)),
            Ok(ImportAdmission::Compare)
        );
        assert!(matches!(
            admit(log(1, ExecutionState::Open)),
            Err(StoreErrorKind::RecordConflict { .. })
        ));
        assert_eq!(
            log(1, ExecutionState::Open).admit_import(&import(0), false),
            Ok(ImportAdmission::Join)
        );
        assert_eq!(
            log(1, ExecutionState::Open)
                .with_sealed(true)
                .admit_import(&import(0), false),
            Err(StoreErrorKind::Sealed)
        );
        assert_eq!(
            admit(log(2, ExecutionState::Open).with_sealed(true)),
            Err(StoreErrorKind::Sealed)
        );
        assert_eq!(
            RecordState::new().admit_import(&import(2), true),
            Err(StoreErrorKind::DeletedHere)
        );
    }

    #[test]
    fn a_part_of_an_import_has_no_gaps_and_fits_the_sealed_head() {
        let refused =
            |import: Import| matches!(import.check(), Err(StoreErrorKind::InvalidArgument { .. }));
        assert_eq!(import(2).check(), Ok(()));
        let mut part = import(3);
        part.events.remove(0);
        assert_eq!(
            (part.check(), part.first_sequence(), part.next_sequence()),
            (Ok(()), 1, 3)
        );
        part.events.remove(0);
        part.events.insert(0, import(1).events.remove(0));
        assert!(refused(part), "a gap");
        let mut none = import(2);
        none.events.clear();
        assert!(refused(none), "no events");
        let mut more = import(2);
        more.events = import(3).events;
        assert!(refused(more), "more than the head says");
        let mut terminal = import(2);
        terminal.events[1].terminal = true;
        assert!(refused(terminal), "terminal in an open log");
        let mut mistimed = import(2);
        mistimed.events[1].recorded_at = Timestamp::from_millis(1);
        assert!(refused(mistimed), "not of the head's time");
        let of = |sealed: SealedRecord| Import::new(id(), sealed, vec![]);
        let past = FenceToken(FenceToken::MAX.0 + 1);
        assert!(
            refused(of(SealedRecord::new(None, Some(past), vec![]))),
            "past the last token"
        );
        let itself = Branch::new(id(), "label");
        assert!(
            refused(of(SealedRecord::new(None, None, vec![itself]))),
            "its own branch"
        );
        let unnamed =
            SealedRecord::new(None, Some(FenceToken(1)), vec![]).with_holder(String::new());
        assert!(refused(of(unnamed)), "a holder without a name");
        let fence_alone = Import::new(
            id(),
            SealedRecord::new(None, Some(FenceToken(1)), vec![]),
            vec![],
        );
        assert_eq!(fence_alone.check(), Ok(()));
    }

    #[test]
    fn a_delete_counts_the_events_and_checks_the_length() {
        let state = log(3, ExecutionState::Open);
        assert_eq!(state.admit_delete(&Delete::new(id())), Ok(3));
        assert_eq!(
            state.admit_delete(&Delete::new(id()).with_expected(3)),
            Ok(3)
        );
        assert_eq!(
            state.admit_delete(&Delete::new(id()).with_expected(2)),
            Err(StoreErrorKind::SequenceConflict {
                expected: 2,
                actual: 3
            })
        );
        assert_eq!(
            RecordState::new().admit_delete(&Delete::new(id())),
            Err(StoreErrorKind::NotFound)
        );
    }
}
