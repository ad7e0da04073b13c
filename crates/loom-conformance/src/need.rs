//! What a case needs beyond the event store itself.

use std::fmt;

/// What a case needs and a store may lack: a capability of the store, or a hook of its [`Subject`].
///
/// [`Subject`]: crate::Subject
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Need {
    /// The capability [`Fencing`](loom_spi::Fencing).
    Fencing,
    /// The capability [`Relocation`](loom_spi::Relocation).
    Relocation,
    /// The capability [`PlanLedger`](loom_spi::PlanLedger).
    Ledger,
    /// The capability [`BranchRegistry`](loom_spi::BranchRegistry).
    Branches,
    /// The hook [`with_reopen`](crate::Subject::with_reopen): the store outlives its process.
    Reopen,
    /// The hook [`with_clock`](crate::Subject::with_clock): the store's clock can be moved on.
    Clock,
    /// The hook [`with_outage`](crate::Subject::with_outage): the store can be made unreachable.
    Outage,
    /// Limits small enough to be reached by a test.
    ReachableLimits,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fencing => "fencing",
            Self::Relocation => "relocation",
            Self::Ledger => "ledger",
            Self::Branches => "branches",
            Self::Reopen => "reopen",
            Self::Clock => "clock",
            Self::Outage => "outage",
            Self::ReachableLimits => "reachable limits",
        })
    }
}
