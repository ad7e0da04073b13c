//! Why a graph is refused.

use std::fmt;

use crate::{GraphDifference, InvalidNodeKey};

/// Why a graph was refused. Nothing was dispatched and nothing recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// No node could ever run.
    #[error("the limit is 0: expected at least 1 node at a time")]
    ZeroLimit,
    /// A node could never be tried.
    #[error("node `{node}` may be tried 0 times: expected at least 1 attempt")]
    ZeroAttempts {
        /// The node.
        node: String,
    },
    /// Time has to pass for a node, and nothing says when it has.
    #[error(
        "node `{node}` has a timeout, or waits between attempts, and the graph has no timer: give the options one, or a backoff of zero"
    )]
    NoTimer {
        /// The node.
        node: String,
    },
    /// It is not the graph that was run before.
    #[error(
        "the graph is another one than is recorded for it: {difference}; run it under another parent"
    )]
    Changed {
        /// In what it differs.
        #[source]
        difference: GraphDifference,
    },
    /// There are more nodes than can be counted.
    #[error("the graph has {nodes} nodes: expected at most {}", u32::MAX)]
    TooManyNodes {
        /// How many there are.
        nodes: usize,
    },
    /// A key cannot be recorded.
    #[error("the key {key:?} of node {index} is not valid")]
    InvalidKey {
        /// Which node, counted from 0.
        index: usize,
        /// Its key.
        key: String,
        /// What is wrong with it.
        #[source]
        source: InvalidNodeKey,
    },
    /// Two nodes have the same key.
    #[error("nodes {first} and {second} have the same key `{key}`: expected each key once")]
    DuplicateKey {
        /// The key.
        key: String,
        /// The first node that has it, counted from 0.
        first: usize,
        /// The second one.
        second: usize,
    },
    /// A node waits for one that is not in the graph.
    #[error("node `{node}` comes after `{after}`, which is no node of the graph")]
    UnknownUpstream {
        /// The node.
        node: String,
        /// What it waits for.
        after: String,
    },
    /// A node names the same upstream twice.
    #[error("node `{node}` comes after `{after}` twice: expected each upstream once")]
    RepeatedUpstream {
        /// The node.
        node: String,
        /// What it waits for.
        after: String,
    },
    /// Nodes wait for each other.
    #[error("nodes wait for each other and could never start: {}", Ring(nodes))]
    Cycle {
        /// The nodes of one cycle: each comes after the one that follows it here, and the last after the first.
        nodes: Vec<String>,
    },
}

struct Ring<'a>(&'a [String]);

impl fmt::Display for Ring<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in self.0 {
            write!(f, "`{node}` after ")?;
        }
        match self.0.first() {
            Some(node) => write!(f, "`{node}`"),
            None => Ok(()),
        }
    }
}
