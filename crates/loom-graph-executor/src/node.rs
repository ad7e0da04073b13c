//! Nodes of a graph.

use bytes::Bytes;

/// One branch of a graph: it becomes an execution of its own.
///
/// ```
/// use loom_graph_executor::GraphNode;
///
/// let report = GraphNode::new("report", "write-report")
///     .with_input(r#"{"to":"on-call"}"#)
///     .after(["metrics", "logs"]);
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
}

impl GraphNode {
    /// A node without input that waits for nothing.
    pub fn new(key: impl Into<String>, flow: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            flow: flow.into(),
            input: Bytes::new(),
            after: Vec::new(),
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
}
