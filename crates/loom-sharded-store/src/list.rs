//! Listing: one order over all shards.

use std::collections::btree_map::{BTreeMap, Entry};

use futures_util::future::try_join_all;
use loom_spi::{
    ExecutionId, ExecutionState, ExecutionSummary, List, ListCursor, ListPage, LogHead, Operation,
    StoreError, StoreErrorKind,
};

use crate::compare::may_be_leftover;
use crate::core::{Core, restarting};
use crate::routing::{Routing, belongs};
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
        for (sides, as_source) in [(passes.sources, true), (passes.destinations, false)] {
            let pages = try_join_all(sides.iter().map(|side| side.list(asked.clone()))).await?;
            for (side, page) in sides.iter().zip(pages) {
                merge.add(*side, page, as_source, routing);
            }
        }
        let (page, differing) = merge.finish(request.state.filter(|_| migrating));
        for _ in 0..differing {
            self.counters.both_sides_differ.count();
        }
        Ok(page)
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

struct Copies {
    source: Option<LogHead>,
    destination: Option<LogHead>,
}

impl Copies {
    /// The copy that counts.
    fn head(&self) -> Option<LogHead> {
        match (self.destination, self.source) {
            (Some(destination), Some(source)) if destination.sealed && !source.sealed => {
                Some(source)
            }
            (destination, source) => destination.or(source),
        }
    }

    fn differ(&self) -> bool {
        match (&self.source, &self.destination) {
            (Some(source), Some(destination)) if !source.sealed && !destination.sealed => {
                !may_be_leftover(source, destination)
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
        for ExecutionSummary { id, head, .. } in page.executions {
            let hash = id.route_hash();
            if !belongs(routing.placement(hash), side.id(), as_source) {
                continue;
            }
            let copies = match self.found.entry((hash.index_key(), id)) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(Copies {
                    source: None,
                    destination: None,
                }),
            };
            if as_source {
                copies.source = Some(head);
            } else {
                copies.destination = Some(head);
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
        for (position, copies) in found
            .into_iter()
            .take_while(|(position, _)| within(position))
        {
            let Some(head) = copies.head() else { continue };
            if state.is_some_and(|state| state != head.state) {
                continue;
            }
            if executions.len() == limit {
                let next = executions.last().map(|last| ListCursor::after(&last.id));
                return (ListPage::new(executions, next), differing);
            }
            differing += usize::from(copies.differ());
            executions.push(ExecutionSummary::new(position.1, head));
        }
        // The page may be empty, but it goes on: everything up to the frontier has been seen.
        let next = frontier.map(|(_, id)| ListCursor::after(&id));
        (ListPage::new(executions, next), differing)
    }
}
