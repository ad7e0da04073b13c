//! Walking the records in list order.

use std::ops::Bound;

use loom_spi::{ExecutionId, ListCursor, Operation, PlanEpoch, RouteFilter, StoreError};

use crate::MemoryStore;
use crate::event_store::no_limit;
use crate::record::Record;
use crate::stripes::{Position, stripe_of};

impl MemoryStore {
    /// Up to `limit` of the records that `select` makes something of, and whether there are more.
    pub(crate) fn page<T>(
        &self,
        operation: Operation,
        limit: usize,
        cursor: Option<&ListCursor>,
        route: Option<RouteFilter>,
        epoch: Option<PlanEpoch>,
        select: impl Fn(&ExecutionId, &Record) -> Option<T>,
    ) -> Result<(Vec<T>, bool), StoreError> {
        let refused = |kind| StoreError::new(operation, kind);
        if limit == 0 {
            return Err(refused(no_limit()));
        }
        let range = route.map_or(i64::MIN..=i64::MAX, RouteFilter::key_range);
        let start = match cursor.map(ListCursor::position) {
            Some((key, id)) if key >= *range.start() => Bound::Excluded((key, id.clone())),
            _ => first_at(*range.start()),
        };
        let first = match &start {
            Bound::Included((key, _)) | Bound::Excluded((key, _)) => *key,
            Bound::Unbounded => i64::MIN,
        };
        let mut page = Vec::new();
        let first = stripe_of(first);
        // At least one, even when the cursor is past the range: the plan is judged all the same.
        for stripe in first..=stripe_of(*range.end()).max(first) {
            // One stripe at a time: a listing holds up no writer for long. Each checks the plan, so that a
            // page never spans a change of plan.
            let stripe = self.stripes.read_nth(stripe);
            stripe.admit(epoch).map_err(refused)?;
            for ((key, id), record) in stripe.records.range((start.clone(), Bound::Unbounded)) {
                if *key > *range.end() {
                    break;
                }
                if route.is_some_and(|route| !route.matches(id.route_hash())) {
                    continue;
                }
                let Some(selected) = select(id, record) else {
                    continue;
                };
                if page.len() == limit {
                    return Ok((page, true));
                }
                page.push(selected);
            }
        }
        Ok((page, false))
    }
}

/// Where the records with an index key of at least `key` begin.
fn first_at(key: i64) -> Bound<Position> {
    // No id comes before a single space: ids have no control characters and are not empty.
    ExecutionId::new(" ").map_or(Bound::Unbounded, |least| Bound::Included((key, least)))
}
