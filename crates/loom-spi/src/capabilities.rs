//! What a store offers beyond the event store itself.

use std::fmt;

use crate::{BranchRegistry, Fencing, Limits, PlanLedger, Relocation};

/// The optional parts of a store. A new capability adds a field and breaks no implementer.
///
/// ```
/// use loom_spi::{Capabilities, EventStore};
///
/// fn describe(store: &dyn EventStore) -> &'static str {
///     match store.capabilities().fencing {
///         Some(_) => "a replaced writer is kept out",
///         None => "one writer at a time is the caller's care",
///     }
/// }
/// ```
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub struct Capabilities<'a> {
    /// What it accepts.
    pub limits: Limits,
    /// Keeping replaced writers out.
    pub fencing: Option<&'a dyn Fencing>,
    /// Moving single records safely.
    pub relocation: Option<&'a dyn Relocation>,
    /// The plan, the identity of the shard and the directory of shards.
    pub ledger: Option<&'a dyn PlanLedger>,
    /// Lineage.
    pub branches: Option<&'a dyn BranchRegistry>,
}

impl<'a> Capabilities<'a> {
    /// Nothing beyond the event store, with the default limits.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Offers fencing.
    #[must_use]
    pub fn with_fencing(mut self, fencing: &'a dyn Fencing) -> Self {
        self.fencing = Some(fencing);
        self
    }

    /// Offers relocation.
    #[must_use]
    pub fn with_relocation(mut self, relocation: &'a dyn Relocation) -> Self {
        self.relocation = Some(relocation);
        self
    }

    /// Offers a plan ledger.
    #[must_use]
    pub fn with_ledger(mut self, ledger: &'a dyn PlanLedger) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// Offers a branch registry.
    #[must_use]
    pub fn with_branches(mut self, branches: &'a dyn BranchRegistry) -> Self {
        self.branches = Some(branches);
        self
    }
}

impl fmt::Debug for Capabilities<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capabilities")
            .field("limits", &self.limits)
            .field("fencing", &self.fencing.is_some())
            .field("relocation", &self.relocation.is_some())
            .field("ledger", &self.ledger.is_some())
            .field("branches", &self.branches.is_some())
            .finish()
    }
}
