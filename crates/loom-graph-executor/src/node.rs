//! Nodes of a graph.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use loom_spi::{BoxError, ExecutionDispatcher};

use crate::Retry;

/// One branch of a graph: it becomes an execution of its own.
///
/// ```
/// use std::time::Duration;
/// use loom_graph_executor::{GraphNode, Retry};
///
/// let report = GraphNode::new("report", "write-report")
///     .with_input(r#"{"to":"on-call"}"#)
///     .after(["metrics", "logs"])
///     .with_timeout(Duration::from_secs(30))
///     .with_retry(Retry::attempts(3));
/// assert_eq!(report.after, ["metrics", "logs"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphNode {
    /// Its name in the graph: 1 to 255 bytes without control characters, no two alike.
    pub key: String,
    /// Which code it runs: a name that the dispatcher knows.
    pub flow: String,
    /// What it is given. Empty means no input.
    pub input: Bytes,
    /// The keys of the nodes that have to complete before it runs, each once. It is handed their outputs in this
    /// order.
    pub after: Vec<String>,
    /// What few nodes have, out of the way of many.
    pub(crate) policy: Option<Box<Policy>>,
}

/// How a node is run, where that is not how all are.
#[derive(Clone, Default)]
pub(crate) struct Policy {
    pub(crate) retry: Option<Retry>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) dispatcher: Option<Arc<dyn ExecutionDispatcher>>,
    pub(crate) expand: Option<Expand>,
}

/// Makes nodes of an output.
pub(crate) type Expand = Arc<dyn Fn(&Bytes) -> Result<Vec<GraphNode>, BoxError> + Send + Sync>;

impl GraphNode {
    /// A node without input that waits for nothing.
    pub fn new(key: impl Into<String>, flow: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            flow: flow.into(),
            input: Bytes::new(),
            after: Vec::new(),
            policy: None,
        }
    }

    /// Sets the input.
    #[must_use]
    pub fn with_input(mut self, input: impl Into<Bytes>) -> Self {
        self.input = input.into();
        self
    }

    /// Sets the nodes that have to complete before it.
    #[must_use]
    pub fn after<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.after = keys.into_iter().map(Into::into).collect();
        self
    }

    /// Sets how often it is tried, in place of [`GraphOptions::with_retry`](crate::GraphOptions::with_retry).
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.policy_mut().retry = Some(retry);
        self
    }

    /// Sets how long one attempt may take, in place of
    /// [`GraphOptions::with_timeout`](crate::GraphOptions::with_timeout), which says what happens then.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.policy_mut().timeout = Some(timeout);
        self
    }

    /// Sets where it runs, if not where the others do.
    #[must_use]
    pub fn on(mut self, dispatcher: Arc<dyn ExecutionDispatcher>) -> Self {
        self.policy_mut().dispatcher = Some(dispatcher);
        self
    }

    /// Lets its output decide what follows: when it has completed, `expand` makes nodes of the output, and those run as a
    /// graph inside the node, as branches of its execution. The node settles when they have.
    ///
    /// - Running the graph again makes the same nodes, since the output is recorded, so their ids are the same and they are
    ///   resumed. `expand` must not look at anything but the output.
    /// - Dependents are handed the output of this node and then those of its branches, in their order, under
    ///   `KEY/BRANCH`.
    /// - When a branch does not complete, or there is no valid graph, the node is
    ///   [`Unexpanded`](crate::NodeOutcome::Unexpanded).
    /// - The limit is that of the whole graph, and the options of the graph apply inside.
    /// - A panic of `expand` counts as an error of it.
    ///
    /// ```
    /// use loom_graph_executor::GraphNode;
    ///
    /// let split = GraphNode::new("split", "list-files").expand(|output| {
    ///     let files = std::str::from_utf8(output)?.lines();
    ///     Ok(files.map(|file| GraphNode::new(file, "index-file")).collect())
    /// });
    /// let merge = GraphNode::new("merge", "merge-indexes").after(["split"]);
    /// ```
    #[must_use]
    pub fn expand(
        mut self,
        expand: impl Fn(&Bytes) -> Result<Vec<Self>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.policy_mut().expand = Some(Arc::new(expand));
        self
    }

    fn policy_mut(&mut self) -> &mut Policy {
        self.policy.get_or_insert_default()
    }
}

impl PartialEq for Policy {
    /// Code is equal to itself alone.
    fn eq(&self, other: &Self) -> bool {
        fn same<T: ?Sized>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
            match (a, b) {
                (Some(a), Some(b)) => std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b)),
                (None, None) => true,
                _ => false,
            }
        }
        self.retry == other.retry
            && self.timeout == other.timeout
            && same(self.dispatcher.as_ref(), other.dispatcher.as_ref())
            && same(self.expand.as_ref(), other.expand.as_ref())
    }
}

impl Eq for Policy {}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("retry", &self.retry)
            .field("timeout", &self.timeout)
            .field("dispatcher", &self.dispatcher)
            .field("expand", &self.expand.is_some())
            .finish()
    }
}
