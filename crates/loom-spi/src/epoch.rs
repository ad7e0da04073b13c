//! The plan epoch that every request carries.

use std::fmt;

use crate::StoreErrorKind;

/// Which shard plan a node acts under: the plan's epoch, and its fingerprint to tell two plans of
/// one epoch apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanEpoch {
    /// Counts the plans of a deployment, from 1.
    pub epoch: u64,
    /// Of the plan's canonical bytes.
    pub fingerprint: PlanFingerprint,
}

impl PlanEpoch {
    /// Names a plan.
    #[must_use]
    pub fn new(epoch: u64, fingerprint: PlanFingerprint) -> Self {
        Self { epoch, fingerprint }
    }

    /// Whether a shard whose ledger holds `current` serves a request that carries `presented`: for
    /// implementers of stores that offer a [`PlanLedger`](crate::PlanLedger). It has to be asked in the
    /// same transaction as the operation.
    ///
    /// A request outside any plan counts as epoch 0. It is served while the shard has no plan or epoch 1,
    /// and refused from epoch 2 on, so that a process that predates the plan cannot write past it.
    ///
    /// # Errors
    /// [`StoreErrorKind::StalePlan`] when the shard is ahead of the request or has another plan of
    /// the same epoch, [`StoreErrorKind::ShardBehind`] when the request is ahead of the shard.
    pub fn admit(
        current: Option<PlanEpoch>,
        presented: Option<PlanEpoch>,
    ) -> Result<(), StoreErrorKind> {
        match (current, presented) {
            (None, None) => Ok(()),
            (Some(current), None) if current.epoch <= 1 => Ok(()),
            (Some(current), None) => Err(StoreErrorKind::StalePlan { presented, current }),
            (Some(current), Some(asked)) if current == asked => Ok(()),
            (Some(current), Some(asked)) if current.epoch >= asked.epoch => {
                Err(StoreErrorKind::StalePlan { presented, current })
            }
            (_, Some(presented)) => Err(StoreErrorKind::ShardBehind { presented, current }),
        }
    }
}

impl fmt::Display for PlanEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {} ({})", self.epoch, self.fingerprint)
    }
}

/// A 128-bit hash of a plan's canonical bytes: equal plans have equal fingerprints.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PlanFingerprint(pub u128);

impl fmt::Display for PlanFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for PlanFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlanFingerprint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(epoch: u64, fingerprint: u128) -> Option<PlanEpoch> {
        Some(PlanEpoch::new(epoch, PlanFingerprint(fingerprint)))
    }

    #[test]
    fn only_the_very_same_plan_is_served() {
        assert_eq!(PlanEpoch::admit(plan(3, 7), plan(3, 7)), Ok(()));
        for presented in [plan(2, 7), plan(3, 8)] {
            assert!(matches!(
                PlanEpoch::admit(plan(3, 7), presented),
                Err(StoreErrorKind::StalePlan { .. })
            ));
        }
        for current in [plan(3, 7), None] {
            assert!(matches!(
                PlanEpoch::admit(current, plan(4, 7)),
                Err(StoreErrorKind::ShardBehind { .. })
            ));
        }
    }

    #[test]
    fn a_request_outside_a_plan_is_served_until_the_plan_changes() {
        assert_eq!(PlanEpoch::admit(None, None), Ok(()));
        assert_eq!(PlanEpoch::admit(plan(1, 7), None), Ok(()));
        assert!(matches!(
            PlanEpoch::admit(plan(2, 7), None),
            Err(StoreErrorKind::StalePlan { .. })
        ));
    }
}
