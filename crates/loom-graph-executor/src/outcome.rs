//! What became of a graph.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use loom_spi::{DispatchError, ExecutionId, ExecutionOutcome, FailureKind};

use crate::{attempt_id, timed_out};

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
    /// How many attempts it took: those that an earlier run of the graph recorded, too. 0 when it was not begun.
    pub attempts: u32,
    /// How many of those ended without completing, each an execution of its own: see [`last_execution`](Self::last_execution).
    pub(crate) closed: u32,
    /// What became of the nodes that its output asked for: see [`GraphNode::expand`](crate::GraphNode::expand).
    pub branches: Vec<NodeResult>,
}

impl NodeResult {
    /// The execution of the last attempt, whose log says how the node ended. The same as
    /// [`execution`](Self::execution) unless the node was tried again.
    #[must_use]
    pub fn last_execution(&self) -> ExecutionId {
        attempt_id(&self.execution, self.closed + 1)
    }
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
    /// It took longer than it may, and was cancelled because of that.
    TimedOut {
        /// How long it might have taken.
        after: Duration,
    },
    /// It ran to its end, but not all nodes did that its output asked for, or they make no graph: see
    /// [`GraphNode::expand`](crate::GraphNode::expand).
    Unexpanded {
        /// What is wrong, or which of them did not complete.
        reason: String,
    },
    /// It was not run, because the graph had been stopped.
    NotBegun {
        /// Why it was.
        reason: String,
    },
    /// It was not run, because a node that it waits for did not complete.
    Skipped {
        /// The first such node, in the order in which they are declared.
        upstream: String,
    },
    /// It could not be run, or its outcome could not be learnt. Running the graph again may succeed.
    Error(Box<DispatchError>),
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
            Ok(ExecutionOutcome::Cancelled { reason }) => match timed_out(&reason) {
                Some(after) => Self::TimedOut { after },
                None => Self::Cancelled { reason },
            },
            Ok(other) => Self::Failed {
                message: format!("it ended in a way that this version does not know: {other:?}"),
            },
            Err(error) => Self::Error(Box::new(error)),
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
            Self::TimedOut { after } => write!(f, "timed out after {after:?}"),
            Self::Unexpanded { reason } => write!(f, "not expanded: {reason}"),
            Self::NotBegun { reason } => write!(f, "not begun: {reason}"),
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
    /// An attempt has ended without completing, and the node waits for the next one.
    Retrying {
        /// Which one, counted from 0.
        index: usize,
        /// Its key.
        key: &'a str,
        /// The attempt that has ended, counted from 1.
        attempt: u32,
        /// How it ended.
        outcome: &'a NodeOutcome,
        /// How long it waits. Not at all where an earlier run of the graph has begun the next attempt.
        delay: Duration,
        /// The execution of the next attempt.
        next: &'a ExecutionId,
    },
    /// An attempt has taken longer than it may, and is being cancelled.
    TimedOut {
        /// Which one, counted from 0.
        index: usize,
        /// Its key.
        key: &'a str,
    },
    /// A node has completed and runs the nodes that its output asked for.
    Expanded {
        /// Which one, counted from 0.
        index: usize,
        /// Its key.
        key: &'a str,
        /// How many those are.
        branches: usize,
    },
    /// The graph is being stopped: what runs is cancelled.
    Stopping {
        /// Why.
        reason: &'a str,
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
