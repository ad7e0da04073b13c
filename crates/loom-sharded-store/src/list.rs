//! Listing: one order over all shards.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use loom_spi::{
    ExecutionId, ExecutionState, ExecutionSummary, List, ListCursor, ListPage, Operation,
    StoreError, StoreErrorKind,
};

use crate::compare::may_be_leftover;
use crate::core::{Core, restarting};
use crate::routing::{Route, Routing, belongs};
use crate::rules::Rule;
use crate::shard::Side;

/// The least that a shard is asked for, so that a page of a few executions is one round.
const LEAST: usize = 64;

impl Core {
    pub(crate) async fn list(&self, request: List) -> Result<ListPage, StoreError> {
        if request.limit == 0 {
            let reason = "the limit of a page is 0: expected at least 1".to_owned();
            let kind = StoreErrorKind::InvalidArgument { reason };
            return Err(StoreError::new(Operation::List, kind));
        }
        restarting!(self, |routing| self.list_under(&routing, &request).await)
    }

    /// Reads all sources, then all destinations: an execution that moves from one to the other meanwhile is
    /// met at least once.
    async fn list_under(&self, routing: &Routing, request: &List) -> Result<ListPage, StoreError> {
        let passes = routing.passes(request.route);
        let migrating = !passes.sources.is_empty();
        let mut merge = Merge::new(request.limit);
        let mut asked = request.clone();
        asked.limit = share(request.limit, passes.destinations.len());
        if migrating {
            // Whether an execution is open is for the copy that counts to say, so both have to be seen.
            asked.state = None;
        }
        let mut order = [(passes.sources, true), (passes.destinations, false)];
        if !self.rules.keep(Rule::SourcesFirst) {
            order.reverse();
        }
        for (sides, as_source) in order {
            let pages = try_join_all(sides.iter().map(|side| side.list(asked.clone()))).await?;
            for (side, page) in sides.iter().zip(pages) {
                merge.add(*side, page, as_source, routing);
            }
        }
        for copies in merge.found.values_mut() {
            self.weigh(routing, copies).await?;
        }
        let (page, differing) = merge.finish(request.state.filter(|_| migrating));
        for _ in 0..differing {
            self.counters.both_sides_differ.count();
        }
        Ok(page)
    }

    /// Leaves out a copy on the destination that does not count. Only what looks like one costs a read.
    async fn weigh(&self, routing: &Routing, copies: &mut Copies) -> Result<(), StoreError> {
        let (Some(here), Some(there)) = (&copies.source, &copies.destination) else {
            return Ok(());
        };
        if !self.rules.keep(Rule::ListCounting) {
            copies.destination = None;
            return Ok(());
        }
        if let Route::Migrating(sides) = routing.route(here.id.route_hash())
            && self
                .left_on_destination(Operation::List, &here.id, sides, &here.head, &there.head)
                .await?
        {
            copies.destination = None;
        }
        Ok(())
    }
}

/// How many executions to ask each of `shards` shards for, when `limit` are wanted altogether. Their
/// executions are spread alike over the list order, so each has about its share of a page; what it has
/// more is read again for the next one.
fn share(limit: usize, shards: usize) -> usize {
    let twice = limit.saturating_mul(2).div_ceil(shards.max(1));
    limit.min(twice.max(LEAST))
}

type Position = (i64, ExecutionId);

/// Pages of several shards on their way to becoming one.
struct Merge {
    limit: usize,
    /// What was found, in list order.
    found: BTreeMap<Position, Copies>,
    /// How far all shards have answered; `None` while every page was its shard's last.
    frontier: Option<Position>,
}

#[derive(Default)]
struct Copies {
    source: Option<ExecutionSummary>,
    destination: Option<ExecutionSummary>,
}

impl Copies {
    /// The copy that counts.
    fn counting(self) -> Option<ExecutionSummary> {
        match (self.destination, self.source) {
            (Some(destination), Some(source)) if destination.head.sealed && !source.head.sealed => {
                Some(source)
            }
            (destination, source) => destination.or(source),
        }
    }

    fn differ(&self) -> bool {
        match (&self.source, &self.destination) {
            (Some(source), Some(destination)) => {
                let (source, destination) = (&source.head, &destination.head);
                !source.sealed && !destination.sealed && !may_be_leftover(source, destination)
            }
            _ => false,
        }
    }
}

impl Merge {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            found: BTreeMap::new(),
            frontier: None,
        }
    }

    fn add(&mut self, side: Side<'_>, page: ListPage, as_source: bool, routing: &Routing) {
        if let Some(next) = &page.next {
            let (key, id) = next.position();
            let reached = (key, id.clone());
            // Beyond the shard that is least far, a page could leave something out.
            self.frontier = Some(match self.frontier.take() {
                Some(frontier) => frontier.min(reached),
                None => reached,
            });
        }
        for execution in page.executions {
            let hash = execution.id.route_hash();
            if !belongs(routing.placement(hash), side.id(), as_source) {
                continue;
            }
            let position = (hash.index_key(), execution.id.clone());
            let copies = self.found.entry(position).or_default();
            if as_source {
                copies.source = Some(execution);
            } else {
                copies.destination = Some(execution);
            }
        }
    }

    /// The page, and how many executions on it have different logs on their two sides.
    fn finish(self, state: Option<ExecutionState>) -> (ListPage, usize) {
        let Self {
            limit,
            found,
            frontier,
        } = self;
        let mut executions: Vec<ExecutionSummary> = Vec::new();
        let mut differing = 0;
        let within = |position: &Position| frontier.as_ref().is_none_or(|end| position <= end);
        for (_, copies) in found
            .into_iter()
            .take_while(|(position, _)| within(position))
        {
            let differ = copies.differ();
            let Some(execution) = copies.counting() else {
                continue;
            };
            if state.is_some_and(|state| state != execution.head.state) {
                continue;
            }
            if executions.len() == limit {
                let next = executions.last().map(|last| ListCursor::after(&last.id));
                return (ListPage::new(executions, next), differing);
            }
            differing += usize::from(differ);
            executions.push(execution);
        }
        // The page may be empty, but it goes on: everything up to the frontier has been seen.
        let next = frontier.map(|(_, id)| ListCursor::after(&id));
        (ListPage::new(executions, next), differing)
    }
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn each_shard_is_asked_for_twice_its_share_but_never_for_more_than_the_page() {
        assert_eq!(share(256, 1), 256);
        assert_eq!(share(256, 2), 256);
        assert_eq!(share(256, 4), 128);
        assert_eq!(share(256, 5), 103);
        assert_eq!(share(20, 5), 20);
        assert_eq!(share(256, 200), 64);
        assert_eq!(share(1, 9), 1);
        assert_eq!(share(usize::MAX, 3), usize::MAX.div_ceil(3));
        assert_eq!(share(7, 0), 7);
    }
}
