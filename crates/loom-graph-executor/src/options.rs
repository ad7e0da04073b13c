//! How a graph is run.

use std::fmt;
use std::sync::Arc;

use loom_spi::ExecutionId;

use crate::GraphEvent;

type Observer = Arc<dyn Fn(&GraphEvent<'_>) + Send + Sync>;

/// How a graph is run.
#[derive(Clone)]
#[non_exhaustive]
pub struct GraphOptions {
    /// The execution of which the nodes are branches. The ids of their executions derive from it, so that
    /// running the graph again under the same parent resumes it.
    pub parent: ExecutionId,
    /// The most nodes in flight at a time, at least 1. Default 64.
    pub limit: usize,
    observer: Option<Observer>,
}

impl GraphOptions {
    /// Runs the nodes as branches of `parent`.
    #[must_use]
    pub fn new(parent: ExecutionId) -> Self {
        Self {
            parent,
            limit: 64,
            observer: None,
        }
    }

    /// Sets [`limit`](Self::limit).
    #[must_use]
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Calls `observer` when a node starts and when it settles, between two polls of the branches: it has to
    /// return soon. When it panics, so does [`execute_graph`](crate::execute_graph).
    #[must_use]
    pub fn with_observer(
        mut self,
        observer: impl Fn(&GraphEvent<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    pub(crate) fn observe<'a>(&self, event: impl FnOnce() -> GraphEvent<'a>) {
        if let Some(observer) = &self.observer {
            observer(&event());
        }
    }
}

impl fmt::Debug for GraphOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphOptions")
            .field("parent", &self.parent)
            .field("limit", &self.limit)
            .field("observer", &self.observer.is_some())
            .finish()
    }
}
