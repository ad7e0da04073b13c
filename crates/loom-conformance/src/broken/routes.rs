//! Filters by hash that go wrong.

use loom_spi::{ExecutionSummary, List, ListPage, RouteFilter, StoreError};

use super::lists::{page_of, retain_after};
use super::{Fault, Mutant};

impl Mutant {
    pub(super) async fn list_routed_wrongly(&self, request: List) -> Result<ListPage, StoreError> {
        let Some(route) = request.route.filter(|_| request.limit > 0) else {
            return self.inner.list(request).await;
        };
        let mut unfiltered = request.clone();
        unfiltered.route = None;
        let mut all = self.everything(&unfiltered).await?;
        all.retain(|found| self.selects(route, found));
        retain_after(&mut all, request.cursor.as_ref());
        Ok(page_of(all, request.limit))
    }

    fn selects(&self, route: RouteFilter, found: &ExecutionSummary) -> bool {
        let hash = found.id.route_hash();
        let (key, range) = (hash.index_key(), route.key_range());
        let in_range = match self.fault {
            Fault::RouteLosesOddModuli => {
                // As if every modulus were a power of two, with a mask in the place of a remainder.
                return hash.0 & (route.modulus() - 1) == route.residue();
            }
            Fault::RouteUnsigned => {
                let unsigned = range.start().cast_unsigned()..=range.end().cast_unsigned();
                unsigned.contains(&key.cast_unsigned())
            }
            Fault::RouteEndExclusive => (*range.start()..*range.end()).contains(&key),
            Fault::RouteStartExclusive => key > *range.start() && key <= *range.end(),
            _ => return range.contains(&key),
        };
        in_range && route.matches(hash)
    }
}
