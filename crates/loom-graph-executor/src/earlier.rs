//! What an earlier run of a graph that fails fast may have recorded.

use std::collections::{HashSet, VecDeque};

use ahash::RandomState;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loom_spi::{BranchRegistry, Children, EventStore, ExecutionId, Head, StoreError};

/// Logs that are looked at at the same time.
const AT_ONCE: usize = 64;

/// Nodes that an earlier run began. They come first, and until they have settled nothing else is begun: one of them may
/// have failed, and then nothing else is to run.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    begun: HashSet<u32, RandomState>,
    /// Those of them that have not settled.
    held: HashSet<u32, RandomState>,
    /// Those of them that wait for nothing more.
    ready: VecDeque<u32>,
}

impl Earlier {
    pub(crate) fn add(&mut self, number: u32, is_ready: bool) {
        self.begun.insert(number);
        self.held.insert(number);
        if is_ready {
            self.ready.push_back(number);
        }
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        !self.begun.is_empty() && self.begun.contains(&number)
    }

    /// Whether others have to wait.
    pub(crate) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    pub(crate) fn pop(&mut self) -> Option<u32> {
        self.ready.pop_front()
    }

    /// Takes a node that waits for nothing more, if it is one of these.
    pub(crate) fn take(&mut self, number: u32) -> bool {
        let is_one = self.contains(number);
        if is_one {
            self.ready.push_back(number);
        }
        is_one
    }

    /// What is recorded of the node is known.
    pub(crate) fn know(&mut self, number: u32) {
        // Nearly always empty, and then nothing need be hashed.
        if self.holds() {
            self.held.remove(&number);
        }
    }

    /// Holds nobody up any more; `false` when it did not.
    pub(crate) fn let_go(&mut self) -> bool {
        let held = self.holds();
        self.held.clear();
        held
    }
}

/// The branches of which an earlier run may have recorded how they ended. Where the logs can be looked at, those that
/// have ended.
pub(crate) async fn ended<R: BranchRegistry + ?Sized>(
    registry: &R,
    logs: Option<&dyn EventStore>,
    parent: &ExecutionId,
) -> Result<HashSet<ExecutionId, RandomState>, StoreError> {
    let children = registry.children(Children::new(parent.clone())).await?;
    let children = children.into_iter().map(|branch| branch.child);
    let Some(logs) = logs else {
        return Ok(children.collect());
    };
    let looked_at = stream::iter(children).map(|child| async move {
        let head = logs.head(Head::new(child.clone())).await?;
        Ok::<_, StoreError>(head.is_some_and(|head| head.is_closed()).then_some(child))
    });
    let mut looked_at = looked_at.buffer_unordered(AT_ONCE);
    let mut ended = HashSet::default();
    while let Some(child) = looked_at.try_next().await? {
        ended.extend(child);
    }
    Ok(ended)
}
