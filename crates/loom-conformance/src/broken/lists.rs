//! Listings that go wrong.

use loom_spi::{
    ExecutionState, ExecutionSummary, List, ListCursor, ListPage, LogHead, StoreError, Timestamp,
};

use super::{Fault, Mutant};
use crate::support::place;

impl Mutant {
    pub(super) async fn list_wrongly(&self, mut request: List) -> Result<ListPage, StoreError> {
        let limit = request.limit;
        match self.fault {
            Fault::ListLimitZero if limit == 0 => request.limit = 1,
            Fault::ListOverLimit if limit > 0 => request.limit = limit.saturating_add(1),
            Fault::ListStateIgnored => request.state = None,
            Fault::RouteForgottenByCursor if request.cursor.is_some() => request.route = None,
            Fault::ListInIdOrder => return self.list_in_id_order(request).await,
            Fault::ListByOffset => return self.list_by_offset(request).await,
            Fault::OpenAfterTerminal => return self.list_with_ends(request).await,
            Fault::ListCursorNeedsItsRow => {
                if let Some(cursor) = &request.cursor {
                    let id = cursor.position().1.clone();
                    let head = loom_spi::Head::new(id).with_epoch(request.epoch);
                    if self.inner.head(head).await?.is_none() {
                        return Ok(ListPage::new(vec![], None));
                    }
                }
            }
            Fault::RouteLosesOddModuli
            | Fault::RouteUnsigned
            | Fault::RouteEndExclusive
            | Fault::RouteStartExclusive
            | Fault::RouteUnchecked => return self.list_routed_wrongly(request).await,
            _ => {}
        }
        let mut page = self.inner.list(request.clone()).await?;
        match self.fault {
            Fault::ListEndsEarly => page.next = None,
            Fault::ListNeverEnds => {
                let last = page
                    .executions
                    .last()
                    .map(|last| ListCursor::after(&last.id));
                page.next = page.next.or(last).or(request.cursor);
            }
            Fault::ListHeadsWrong => {
                for found in &mut page.executions {
                    found.head.next_sequence = 1;
                }
            }
            Fault::ListCursorSkips if page.next.is_some() && page.executions.len() > 1 => {
                // Its cursor still says that it was there.
                page.executions.pop();
            }
            Fault::ListCursorRepeats => self.repeat_the_last(&request, &mut page).await?,
            Fault::ListCombinationLosesARow
                if request.cursor.is_some()
                    && request.route.is_some()
                    && request.state.is_some() =>
            {
                page.executions = page.executions.split_off(1.min(page.executions.len()));
            }
            Fault::ListsFencesAlone => self.add_fences(&request, &mut page),
            _ => {}
        }
        Ok(page)
    }

    /// Every execution that a request selects, whatever its cursor and limit.
    pub(super) async fn everything(
        &self,
        request: &List,
    ) -> Result<Vec<ExecutionSummary>, StoreError> {
        let mut all = Vec::new();
        let mut request = request.clone();
        (request.cursor, request.limit) = (None, 1000);
        loop {
            let page = self.inner.list(request.clone()).await?;
            all.extend(page.executions);
            match page.next {
                None => return Ok(all),
                next => request.cursor = next,
            }
        }
    }

    async fn list_in_id_order(&self, request: List) -> Result<ListPage, StoreError> {
        if request.limit == 0 {
            return self.inner.list(request).await;
        }
        let mut all = self.everything(&request).await?;
        all.sort_by(|a, b| a.id.cmp(&b.id));
        if let Some(cursor) = &request.cursor {
            let (_, last) = cursor.position();
            all.retain(|found| found.id > *last);
        }
        Ok(page_of(all, request.limit))
    }

    async fn list_by_offset(&self, request: List) -> Result<ListPage, StoreError> {
        if request.limit == 0 {
            return self.inner.list(request).await;
        }
        let skipped = request.cursor.as_ref().map_or(0, |cursor| {
            let known = self.notes().offsets.get(cursor.position().1).copied();
            known.unwrap_or(0)
        });
        let all = self.everything(&request).await?;
        let page = page_of(all.into_iter().skip(skipped).collect(), request.limit);
        if let Some(last) = page.executions.last() {
            let offset = skipped + page.executions.len();
            self.notes().offsets.insert(last.id.clone(), offset);
        }
        Ok(page)
    }

    /// Patches the heads of executions that were closed, and filters by the patched state.
    async fn list_with_ends(&self, request: List) -> Result<ListPage, StoreError> {
        if request.limit == 0 {
            return self.inner.list(request).await;
        }
        let mut any = request.clone();
        any.state = None;
        let mut all = self.everything(&any).await?;
        for found in &mut all {
            found.head = self.closed_where_it_ended(&found.id, found.head);
        }
        all.retain(|found| request.state.is_none_or(|state| found.head.state == state));
        retain_after(&mut all, request.cursor.as_ref());
        Ok(page_of(all, request.limit))
    }

    async fn repeat_the_last(&self, request: &List, page: &mut ListPage) -> Result<(), StoreError> {
        let Some(cursor) = &request.cursor else {
            return Ok(());
        };
        let id = cursor.position().1.clone();
        let head = loom_spi::Head::new(id.clone()).with_epoch(request.epoch);
        if let Some(head) = self.inner.head(head).await? {
            page.executions.insert(0, ExecutionSummary::new(id, head));
            page.executions.truncate(request.limit);
        }
        Ok(())
    }

    fn add_fences(&self, request: &List, page: &mut ListPage) {
        let now = Timestamp::from_millis(0);
        let head = LogHead::new(0, ExecutionState::Open, now, now);
        for id in self.notes().tokens.keys() {
            let new = page.executions.iter().all(|found| found.id != *id);
            if new && request.cursor.is_none() && page.executions.len() < request.limit {
                page.executions
                    .push(ExecutionSummary::new(id.clone(), head));
            }
        }
        page.executions
            .sort_by(|a, b| place(&a.id).cmp(&place(&b.id)));
    }
}

/// The first `limit` of what is left of a listing.
pub(super) fn page_of(mut rest: Vec<ExecutionSummary>, limit: usize) -> ListPage {
    let more = rest.len() > limit;
    rest.truncate(limit);
    let last = rest.last().filter(|_| more);
    let next = last.map(|last| ListCursor::after(&last.id));
    ListPage::new(rest, next)
}

pub(super) fn retain_after(all: &mut Vec<ExecutionSummary>, cursor: Option<&ListCursor>) {
    if let Some(cursor) = cursor {
        all.retain(|found| place(&found.id) > cursor.position());
    }
}
