//! Lineage: which execution branched off which.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::request::request;
use crate::{ExecutionId, Require, StoreError};

/// Records which executions are branches of which. Edges are data of their own, not events in a log
/// that several executions would share. Usable alone, or as a capability of a store.
///
/// # Contract
/// - Recording an edge again is a no-op.
/// - An execution has at most one parent, under one label.
/// - [`children`](Self::children) is complete and in the order recorded: it holds each edge whose
///   recording was acknowledged before the call.
/// - Parent and child need not exist as logs.
/// - In a store, edges are part of the parent's record.
#[async_trait]
pub trait BranchRegistry: Debug + Send + Sync {
    /// Records that `child` is a branch of `parent`.
    ///
    /// # Errors
    /// `LineageConflict` when the child has another parent or another label, `InvalidArgument` when the
    /// label is over 255 bytes or parent and child are the same, `NotFound` when [`Require::Exists`] is not
    /// met by the parent, `Sealed`, `StalePlan`, `ShardBehind`, `Unavailable`.
    ///
    /// # Cancel safety
    /// Never torn. A dropped call may still take effect; it may be repeated.
    async fn record_lineage(&self, request: RecordLineage) -> Result<(), StoreError>;

    /// The branches of an execution, in the order recorded; none when it has none.
    ///
    /// # Errors
    /// `StalePlan`, `ShardBehind`, `Unavailable`, `Corrupt`.
    ///
    /// # Cancel safety
    /// Reads change nothing.
    async fn children(&self, request: Children) -> Result<Vec<Branch>, StoreError>;

    /// Where an execution branched off; `None` when it is no branch.
    ///
    /// # Errors
    /// `StalePlan`, `ShardBehind`, `Unavailable`, `Corrupt`.
    ///
    /// # Cancel safety
    /// Reads change nothing.
    async fn parent(&self, request: Parent) -> Result<Option<ParentLink>, StoreError>;

    /// Removes the edges from `parent` to its branches, and says how many there were.
    ///
    /// # Errors
    /// `Sealed`, `StalePlan`, `ShardBehind`, `Unavailable`.
    ///
    /// # Cancel safety
    /// Never torn. A dropped call may still take effect; it may be repeated.
    async fn forget(&self, request: Forget) -> Result<u64, StoreError>;
}

request! {
    /// Records one edge.
    RecordLineage {
        /// Where it branches off.
        parent: ExecutionId,
        /// The branch.
        child: ExecutionId,
        /// What the parent calls it: the key of a graph's node, for instance. 0 to 255 bytes.
        label: String,
    }
    optional {
        /// What must be there of the parent.
        require: Require = Require::Nothing, with_require(Require),
    }
}

request! {
    /// Asks for the branches of an execution.
    Children {
        /// The execution.
        parent: ExecutionId,
    }
    optional {}
}

request! {
    /// Asks where an execution branched off.
    Parent {
        /// The branch.
        child: ExecutionId,
    }
    optional {}
}

request! {
    /// Asks to remove the edges to an execution's branches.
    Forget {
        /// The execution.
        parent: ExecutionId,
    }
    optional {
        /// Remember, until the store's plan changes, that they were removed here, so that a late
        /// [import](crate::Relocation::import) does not bring them back.
        mark: bool = false, with_mark(bool),
    }
}

/// An edge, seen from the parent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Branch {
    /// The branch.
    pub child: ExecutionId,
    /// What the parent calls it.
    pub label: String,
}

impl Branch {
    /// Names an edge.
    #[must_use]
    pub fn new(child: ExecutionId, label: impl Into<String>) -> Self {
        Self {
            child,
            label: label.into(),
        }
    }
}

/// An edge, seen from the child.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParentLink {
    /// Where it branched off.
    pub parent: ExecutionId,
    /// What the parent calls it.
    pub label: String,
}

impl ParentLink {
    /// Names an edge.
    #[must_use]
    pub fn new(parent: ExecutionId, label: impl Into<String>) -> Self {
        Self {
            parent,
            label: label.into(),
        }
    }
}

impl RecordLineage {
    /// Checks what can be said without looking at the registry: for implementers.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::StoreErrorKind::InvalidArgument) when the label is over 255 bytes, or
    /// parent and child are the same.
    pub fn check(&self) -> Result<(), crate::StoreErrorKind> {
        let reason = if self.parent == self.child {
            "an execution cannot be its own branch".to_owned()
        } else if self.label.len() > 255 {
            format!(
                "the label has {} bytes: expected at most 255",
                self.label.len()
            )
        } else {
            return Ok(());
        };
        Err(crate::StoreErrorKind::InvalidArgument { reason })
    }
}
