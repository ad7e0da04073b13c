//! The plan ledger: the plan travels with the data.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{ExecutionId, InvalidExecutionId, PlanEpoch, StoreError};

/// Keeps the current plan, the identity of the shard and the locations of all shards beside the data.
///
/// A store that offers it checks the epoch of every request in the transaction of the operation
/// ([`PlanEpoch::admit`]). That is what keeps nodes with different plans from splitting a log.
///
/// The ledger's own methods are not subject to that check.
#[async_trait]
pub trait PlanLedger: Send + Sync {
    /// The plan that was published here last.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`.
    ///
    /// # Cancel safety
    /// Reads change nothing.
    async fn current(&self) -> Result<Option<PublishedPlan>, StoreError>;

    /// Replaces the plan, if the shard is still where the publisher believes it to be. The store does not
    /// look into the plan. Publishing the very plan that is current succeeds and changes nothing.
    ///
    /// # Errors
    /// `PublishConflict` when the current plan is not `expected`, `InvalidArgument` when the new epoch is 0,
    /// past `i64::MAX`, or not higher than the current one, `Unavailable`.
    ///
    /// # Cancel safety
    /// Never torn. A dropped call may still take effect; it may be repeated.
    async fn publish(&self, request: Publish) -> Result<(), StoreError>;

    /// Which shard of which deployment this is; `None` before [`initialize`](Self::initialize).
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`.
    ///
    /// # Cancel safety
    /// Reads change nothing.
    async fn identity(&self) -> Result<Option<ShardIdentity>, StoreError>;

    /// Makes an unused store a shard. Doing it again with the same identity changes nothing.
    ///
    /// # Errors
    /// `WrongShard` when it has another identity, `Unavailable`.
    ///
    /// # Cancel safety
    /// Never torn. A dropped call may still take effect; it may be repeated.
    async fn initialize(&self, identity: ShardIdentity) -> Result<(), StoreError>;

    /// Where the shards of the deployment are, by shard.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`.
    ///
    /// # Cancel safety
    /// Reads change nothing.
    async fn directory(&self) -> Result<Vec<ShardLocation>, StoreError>;

    /// Adds locations to the directory, or replaces those of the same shards.
    ///
    /// # Errors
    /// `Unavailable`.
    ///
    /// # Cancel safety
    /// Never torn. A dropped call may still take effect; it may be repeated.
    async fn record_locations(&self, locations: Vec<ShardLocation>) -> Result<(), StoreError>;
}

/// A plan as a ledger keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublishedPlan {
    /// Which plan it is.
    pub epoch: PlanEpoch,
    /// The plan, in whatever form the publisher writes it.
    pub bytes: Bytes,
}

impl PublishedPlan {
    /// A plan and its name.
    #[must_use]
    pub fn new(epoch: PlanEpoch, bytes: impl Into<Bytes>) -> Self {
        Self {
            epoch,
            bytes: bytes.into(),
        }
    }
}

/// Asks to replace the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Publish {
    /// The new plan.
    pub plan: PublishedPlan,
    /// The plan that has to be current; `None` when there has to be none yet.
    pub expected: Option<PlanEpoch>,
}

impl Publish {
    /// Replaces `expected` with `plan`.
    #[must_use]
    pub fn new(plan: PublishedPlan, expected: Option<PlanEpoch>) -> Self {
        Self { plan, expected }
    }

    /// Whether a ledger whose plan is `current` takes this: for implementers. `Ok(false)` means that it
    /// is current already.
    ///
    /// # Errors
    /// As [`PlanLedger::publish`].
    pub fn admit(&self, current: Option<PlanEpoch>) -> Result<bool, crate::StoreErrorKind> {
        let new = self.plan.epoch;
        if current == Some(new) {
            return Ok(false);
        }
        if current != self.expected {
            return Err(crate::StoreErrorKind::PublishConflict { current });
        }
        let reason = match current {
            // A request outside any plan counts as epoch 0, and SQL's integers have to hold every epoch.
            _ if new.epoch == 0 || new.epoch > i64::MAX.cast_unsigned() => format!(
                "the new plan has epoch {}: expected 1 to {}",
                new.epoch,
                i64::MAX
            ),
            Some(current) if new.epoch <= current.epoch => format!(
                "the new plan has epoch {}: expected a higher one than the current {}",
                new.epoch, current.epoch
            ),
            _ => return Ok(true),
        };
        Err(crate::StoreErrorKind::InvalidArgument { reason })
    }
}

/// Which shard of which deployment a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardIdentity {
    /// Names the deployment: unique, so that a shard of another one is noticed.
    pub deployment: DeploymentId,
    /// The shard's number in the plan.
    pub shard: u16,
}

impl ShardIdentity {
    /// Names a shard.
    #[must_use]
    pub fn new(deployment: DeploymentId, shard: u16) -> Self {
        Self { deployment, shard }
    }
}

impl fmt::Display for ShardIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "shard {} of deployment `{}`",
            self.shard, self.deployment
        )
    }
}

/// Where a shard is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardLocation {
    /// The shard's number in the plan.
    pub shard: u16,
    /// A URL without secrets.
    pub location: String,
}

impl ShardLocation {
    /// Names a place.
    #[must_use]
    pub fn new(shard: u16, location: impl Into<String>) -> Self {
        Self {
            shard,
            location: location.into(),
        }
    }
}

/// Names a deployment, so that a shard of another one is noticed. The same bounds as an
/// [`ExecutionId`](crate::ExecutionId): 1 to 255 bytes of UTF-8 without control characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeploymentId(ExecutionId);

impl DeploymentId {
    /// Checks and takes a name.
    ///
    /// # Errors
    /// As [`ExecutionId::new`].
    pub fn new(name: impl AsRef<str>) -> Result<Self, InvalidExecutionId> {
        ExecutionId::new(name).map(Self)
    }

    /// A new name that no other call returns.
    #[must_use]
    pub fn generate() -> Self {
        Self(ExecutionId::generate())
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for DeploymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PlanFingerprint, StoreErrorKind};

    fn plan(epoch: u64) -> PlanEpoch {
        PlanEpoch::new(epoch, PlanFingerprint(7))
    }

    fn admit(
        new: u64,
        expected: Option<u64>,
        current: Option<u64>,
    ) -> Result<bool, StoreErrorKind> {
        Publish::new(PublishedPlan::new(plan(new), ""), expected.map(plan)).admit(current.map(plan))
    }

    #[test]
    fn a_plan_is_taken_when_the_current_one_is_expected_and_older() {
        assert_eq!(admit(1, None, None), Ok(true));
        assert_eq!(admit(9, Some(4), Some(4)), Ok(true));
        for (expected, current) in [(None, Some(4)), (Some(3), Some(4)), (Some(4), None)] {
            assert_eq!(
                admit(9, expected, current),
                Err(StoreErrorKind::PublishConflict {
                    current: current.map(plan)
                })
            );
        }
        assert!(matches!(
            admit(3, Some(4), Some(4)),
            Err(StoreErrorKind::InvalidArgument { .. })
        ));
    }

    #[test]
    fn the_current_plan_is_taken_again_whatever_is_expected() {
        for expected in [None, Some(3), Some(4)] {
            assert_eq!(admit(4, expected, Some(4)), Ok(false));
        }
    }

    #[test]
    fn an_epoch_is_neither_that_of_no_plan_nor_past_signed_integers() {
        for outside in [0, i64::MAX.cast_unsigned() + 1, u64::MAX] {
            assert!(matches!(
                admit(outside, None, None),
                Err(StoreErrorKind::InvalidArgument { .. })
            ));
        }
        assert_eq!(admit(i64::MAX.cast_unsigned(), None, None), Ok(true));
    }
}
