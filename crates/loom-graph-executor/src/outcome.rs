//! What became of a graph.

use std::fmt;

use bytes::Bytes;
use loom_spi::{DispatchError, ExecutionId, ExecutionOutcome, FailureKind};

/// What became of a graph whose branches have all settled.
#[derive(Debug)]
#[non_exhaustive]
pub struct GraphOutcome {
    /// The execution of which the nodes are branches.
    pub parent: ExecutionId,
    /// One for each node, in the order of the nodes.
    pub nodes: Vec<NodeResult>,
}

impl GraphOutcome {
    /// Whether every node ran to its end.
    #[must_use]
    pub fn all_completed(&self) -> bool {
        self.nodes.iter().all(|node| node.outcome.is_completed())
    }
}

/// What became of one node.
#[derive(Debug)]
#[non_exhaustive]
pub struct NodeResult {
    /// Its key.
    pub key: String,
    /// Its execution. It has a log unless the node was skipped or could not be run.
    pub execution: ExecutionId,
    /// How it ended.
    pub outcome: NodeOutcome,
}

/// How a node ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum NodeOutcome {
    /// It ran to its end.
    Completed {
        /// What it returned.
        output: Bytes,
    },
    /// Its code returned an error.
    Failed {
        /// In the words of the code that failed.
        message: String,
    },
    /// Its code panicked, or the dispatcher did.
    Panicked {
        /// What the panic said.
        message: String,
    },
    /// It was cancelled.
    Cancelled {
        /// Why.
        reason: String,
    },
    /// It was not run, because a node that it waits for did not complete.
    Skipped {
        /// The first such node, in the order in which they are declared.
        upstream: String,
    },
    /// It could not be run, or its outcome could not be learnt. Running the graph again may succeed.
    Error(DispatchError),
}

impl NodeOutcome {
    /// Whether it ran to its end.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        matches!(self, Self::Completed { .. })
    }
}

impl From<Result<ExecutionOutcome, DispatchError>> for NodeOutcome {
    fn from(result: Result<ExecutionOutcome, DispatchError>) -> Self {
        match result {
            Ok(ExecutionOutcome::Completed { output }) => Self::Completed { output },
            Ok(ExecutionOutcome::Failed(failure)) => match failure.kind {
                FailureKind::Panicked => Self::Panicked {
                    message: failure.message,
                },
                _ => Self::Failed {
                    message: failure.message,
                },
            },
            Ok(ExecutionOutcome::Cancelled { reason }) => Self::Cancelled { reason },
            Ok(other) => Self::Failed {
                message: format!("it ended in a way that this version does not know: {other:?}"),
            },
            Err(error) => Self::Error(error),
        }
    }
}

impl fmt::Display for NodeOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed { .. } => f.write_str("completed"),
            Self::Failed { message } => write!(f, "failed: {message}"),
            Self::Panicked { message } => write!(f, "panicked: {message}"),
            Self::Cancelled { reason } => write!(f, "cancelled: {reason}"),
            Self::Skipped { upstream } => write!(f, "skipped: `{upstream}` did not complete"),
            Self::Error(error) => write!(f, "not run to its end: {error}"),
        }
    }
}

/// What happens to the nodes of a graph while it runs.
#[derive(Debug)]
#[non_exhaustive]
pub enum GraphEvent<'a> {
    /// A node is about to be dispatched, or joined if it runs already.
    Started {
        /// Which one, counted from 0.
        index: usize,
        /// Its key.
        key: &'a str,
        /// Its execution.
        execution: &'a ExecutionId,
    },
    /// A node has ended, or was skipped. Each node settles once.
    Settled {
        /// Which one, counted from 0.
        index: usize,
        /// What became of it.
        result: &'a NodeResult,
        /// How many nodes have settled, this one included.
        settled: usize,
        /// How many nodes the graph has.
        total: usize,
    },
}
