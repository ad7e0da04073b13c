//! Every id that a shard lists, once, with the shards that list it.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join_all;
use loom_spi::{EventStore as _, ExecutionId, List, ListCursor};

use crate::failure::Failure;
use crate::sides::{Look, Side, Stop, View};

/// An execution, and the shards that listed it.
pub(super) type Listed = (ExecutionId, BTreeSet<u16>);

/// Goes over all shards side by side, which all list in the same order, part by part.
pub(super) struct Walk<'a> {
    deployment: &'a dyn Look,
    page: usize,
    view: View,
    cursor: Option<ListCursor>,
    done: bool,
}

impl<'a> Walk<'a> {
    /// Asks each shard for `page` executions at a time.
    pub(super) async fn new(deployment: &'a dyn Look, page: usize) -> Result<Self, Failure> {
        Ok(Self {
            deployment,
            page,
            view: deployment.look().await?,
            cursor: None,
            done: false,
        })
    }

    /// The plan and the shards, as they were when the last part was listed.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// The next part; `None` behind the last one. A plan that is published meanwhile has the part listed again.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Listed>>, Failure> {
        while !self.done {
            match self.part().await {
                Ok((part, next)) => {
                    self.done = next.is_none();
                    self.cursor = next;
                    return Ok(Some(part));
                }
                Err(Stop::Changed) => self.view = self.deployment.look().await?,
                Err(Stop::Failed(failure)) => return Err(failure),
            }
        }
        Ok(None)
    }

    /// Lists everything twice. What moves from shard to shard while the first round is made may be missed by it, where
    /// its new shard was asked before and its old one after the move. Under one plan it moves only once, so that the
    /// second round meets it; and both rounds are of one plan, since a shard that is under another one refuses.
    async fn part(&self) -> Result<(Vec<Listed>, Option<ListCursor>), Stop> {
        let mut found: BTreeMap<(i64, ExecutionId), BTreeSet<u16>> = BTreeMap::new();
        let mut end: Option<(i64, ExecutionId)> = None;
        for _ in 0..2 {
            let pages = self.view.sides.iter().map(|side| self.page_of(side));
            for (side, page) in self.view.sides.iter().zip(try_join_all(pages).await?) {
                for execution in page.executions {
                    let position = (execution.id.route_hash().index_key(), execution.id);
                    found.entry(position).or_default().insert(side.shard);
                }
                if let Some(next) = page.next {
                    let (key, id) = next.position();
                    let reached = (key, id.clone());
                    // What lies behind the shard that is least far is for the next part.
                    end = Some(end.map_or(reached.clone(), |end| end.min(reached)));
                }
            }
        }
        if let Some(end) = &end {
            found.retain(|position, _| position <= end);
        }
        let next = end.map(|(_, id)| ListCursor::after(&id));
        let part = found.into_iter().map(|((_, id), on)| (id, on)).collect();
        Ok((part, next))
    }

    async fn page_of(&self, side: &Side) -> Result<loom_spi::ListPage, Stop> {
        let request = List::new(self.page)
            .with_cursor(self.cursor.clone())
            .with_epoch(side.epoch);
        Ok(side.store.list(request).await?)
    }
}
