//! What the store offers: what all of its shards do.

use loom_spi::{Append, Capabilities, EventStore, Limits, StoreErrorKind};

use crate::core::{Core, Offers};

impl Core {
    /// The capabilities of this store: never the objects of a shard, which would lead around the routing.
    pub(crate) fn capabilities(&self) -> Capabilities<'_> {
        let mut offered = Capabilities::none().with_limits(self.offers.limits);
        if self.offers.fencing {
            offered = offered.with_fencing(self);
        }
        if self.offers.branches {
            offered = offered.with_branches(self);
        }
        offered
    }
}

impl Offers {
    /// What the first shard offers.
    pub(crate) fn of(store: &dyn EventStore) -> Self {
        let offered = store.capabilities();
        Self {
            ledgers: offered.ledger.is_some(),
            fencing: offered.fencing.is_some(),
            relocation: offered.relocation.is_some() && offered.ledger.is_some(),
            branches: offered.branches.is_some(),
            limits: offered.limits,
            uneven_limits: false,
        }
    }

    /// What both offer.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            ledgers: self.ledgers && other.ledgers,
            fencing: self.fencing && other.fencing,
            relocation: self.relocation && other.relocation,
            branches: self.branches && other.branches,
            limits: strictest(self.limits, other.limits),
            uneven_limits: self.uneven_limits || self.limits != other.limits,
        }
    }

    /// What is missing from `other` of what this offers.
    pub(crate) fn missing_from(self, other: Self) -> Option<&'static str> {
        if self.ledgers && !other.ledgers {
            Some("a plan ledger")
        } else if self.fencing && !other.fencing {
            Some("fencing")
        } else if self.relocation && !other.relocation {
            Some("relocation")
        } else if self.branches && !other.branches {
            Some("a branch registry")
        } else if strictest(self.limits, other.limits) != self.limits {
            Some("requests as large")
        } else {
            None
        }
    }

    /// Refuses what some shard would accept and another would not.
    pub(crate) fn check(self, request: &Append) -> Result<(), StoreErrorKind> {
        if self.uneven_limits {
            self.limits.check(request)
        } else {
            Ok(())
        }
    }
}

fn strictest(a: Limits, b: Limits) -> Limits {
    let mut limits = a;
    limits.max_kind_bytes = a.max_kind_bytes.min(b.max_kind_bytes);
    limits.max_payload_bytes = a.max_payload_bytes.min(b.max_payload_bytes);
    limits.max_append_events = a.max_append_events.min(b.max_append_events);
    limits.max_append_bytes = a.max_append_bytes.min(b.max_append_bytes);
    limits
}
