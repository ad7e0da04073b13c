//! The decisions that every store makes, made in one place.

use crate::{
    AcquireFence, Append, Delete, ExecutionState, FenceToken, Limits, LogHead, PlanEpoch, Require,
    StoreErrorKind,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExecutionId, NewEvent, PlanFingerprint, Timestamp};

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
