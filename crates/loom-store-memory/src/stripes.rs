//! Records, spread over locks.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use loom_spi::{ExecutionId, PlanEpoch, StoreErrorKind};

use crate::arrivals::Arrivals;
use crate::record::Record;

/// How many leading bits of the index key choose a stripe.
const BITS: u32 = 6;
/// How many stripes there are.
pub(crate) const COUNT: usize = 1 << BITS;

/// Where a record stands in list order.
pub(crate) type Position = (i64, ExecutionId);

/// The records in list order, cut into contiguous ranges with a lock each: walking the stripes in turn is
/// walking the list, and requests for different executions rarely meet.
pub(crate) struct Stripes(Box<[Padded; COUNT]>);

/// Keeps neighbouring locks off one cache line (two lines, since processors prefetch pairs).
#[derive(Default)]
#[repr(align(128))]
struct Padded(RwLock<Stripe>);

/// One range of the list order.
#[derive(Default)]
pub(crate) struct Stripe {
    /// A copy of the ledger's plan. Publishing changes all copies while it holds all stripes, so whoever
    /// holds one stripe checks the plan and acts in one step.
    pub(crate) plan: Option<PlanEpoch>,
    pub(crate) records: BTreeMap<Position, Record>,
    pub(crate) arrivals: Arrivals,
}

impl Stripe {
    /// Refuses a request under another plan.
    pub(crate) fn admit(&self, presented: Option<PlanEpoch>) -> Result<(), StoreErrorKind> {
        PlanEpoch::admit(self.plan, presented)
    }
}

impl Stripes {
    pub(crate) fn new() -> Self {
        Self(Box::new(std::array::from_fn(|_| Padded::default())))
    }

    /// Locks the stripe of `id` for reading, and says where the record stands.
    pub(crate) fn read(&self, id: &ExecutionId) -> (RwLockReadGuard<'_, Stripe>, Position) {
        let key = id.route_hash().index_key();
        (self.read_nth(stripe_of(key)), (key, id.clone()))
    }

    /// Locks the stripe of `id` for writing, and says where the record stands.
    pub(crate) fn write(&self, id: &ExecutionId) -> (RwLockWriteGuard<'_, Stripe>, Position) {
        let key = id.route_hash().index_key();
        (self.write_nth(stripe_of(key)), (key, id.clone()))
    }

    /// Locks one stripe for reading.
    pub(crate) fn read_nth(&self, stripe: usize) -> RwLockReadGuard<'_, Stripe> {
        // Nothing panics while it holds a stripe, so a poisoned one is whole.
        self.0[stripe]
            .0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks every stripe for writing, in ascending order.
    pub(crate) fn write_all(&self) -> Vec<RwLockWriteGuard<'_, Stripe>> {
        (0..COUNT).map(|stripe| self.write_nth(stripe)).collect()
    }

    fn write_nth(&self, stripe: usize) -> RwLockWriteGuard<'_, Stripe> {
        self.0[stripe]
            .0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which stripe an index key belongs to: monotonic, so that stripes are ranges.
pub(crate) fn stripe_of(index_key: i64) -> usize {
    // Undo the flipped sign bit, so that the leading bits count from the start of the list.
    let place = index_key.cast_unsigned() ^ (1 << 63);
    // At most six bits remain.
    (place >> (u64::BITS - BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_are_ranges_of_the_list_order() {
        assert_eq!(stripe_of(i64::MIN), 0);
        assert_eq!(stripe_of(i64::MAX), COUNT - 1);
        assert_eq!(stripe_of(-1), COUNT / 2 - 1);
        assert_eq!(stripe_of(0), COUNT / 2);
        for stripe in 1..COUNT {
            let start = i128::from(i64::MIN) + ((stripe as i128) << (64 - BITS));
            let start = i64::try_from(start).unwrap();
            assert_eq!(
                (stripe_of(start - 1), stripe_of(start)),
                (stripe - 1, stripe)
            );
        }
    }
}
