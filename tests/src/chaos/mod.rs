//! What the processes of the chaos test tell its judge: a line before each operation, and one after it.
//!
//! A process that was killed has said of each operation that it was about to begin, so that the judge knows which
//! ones may or may not have happened.

mod payload;

use serde::{Deserialize, Serialize};

pub use payload::{KIND, event, event_tags, tag_of};

/// How many processes work on executions of their own at a time.
pub const SLOTS: u64 = 3;
/// How many operations such a process has under way.
pub const LANES: u64 = 3;
/// How many executions each lane has.
pub const OWN: u64 = 10;
/// How many executions everybody appends to.
pub const SHARED: u64 = 5;
/// How many executions everybody appends to and deletes.
pub const SHORT_LIVED: u64 = 4;

/// One line of a process.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Line {
    /// Which of the operations that the process has under way.
    pub lane: u64,
    /// By the machine's monotonic clock, which all processes share: nanoseconds.
    pub at: u64,
    /// What it says.
    pub says: Says,
}

/// What a line says.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Says {
    /// An operation is about to begin.
    Begin(Op),
    /// It has ended.
    End {
        /// The epoch of the plan that the process is under now.
        epoch: u64,
        /// What came of it.
        outcome: Outcome,
    },
}

/// An operation on the store.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum Op {
    /// Appends `events` events, which [`event`] makes of `tag`.
    Append {
        /// The execution.
        id: String,
        /// How long its log should be.
        expected: u64,
        /// The fence token.
        token: Option<u64>,
        /// Occurs once in all runs of all processes.
        tag: String,
        /// How many.
        events: u64,
        /// Whether the last one closes the execution.
        terminal: bool,
    },
    /// Reads a whole log.
    Read {
        /// The execution.
        id: String,
    },
    /// Looks at a log.
    Head {
        /// The execution.
        id: String,
    },
    /// Removes a log.
    Delete {
        /// The execution.
        id: String,
        /// How long its log should be.
        expected: Option<u64>,
    },
    /// Takes a fence.
    Acquire {
        /// The execution.
        id: String,
    },
    /// Records a branch.
    Edge {
        /// The parent.
        parent: String,
        /// The branch.
        child: String,
    },
    /// Lists branches.
    Children {
        /// The parent.
        parent: String,
    },
    /// Asks where an execution branched off.
    Parent {
        /// The branch.
        child: String,
    },
    /// Removes the edges to all branches.
    Forget {
        /// The parent.
        parent: String,
    },
    /// Lists all executions, and reports those with a prefix.
    List {
        /// The prefix.
        prefix: String,
    },
    /// Moves an execution if its bucket migrates.
    Move {
        /// The execution.
        id: String,
    },
    /// Moves everything that may move, live executions too.
    Drain,
    /// Waits, with everything that the process remembers, until it is told to go on.
    Pause,
}

/// What came of an operation.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum Outcome {
    /// It is done, and there is nothing to say.
    Done,
    /// The length of the log after an append.
    Next(u64),
    /// A whole log: the tags of its events.
    Log {
        /// In order.
        tags: Vec<String>,
        /// Whether it is closed.
        closed: bool,
    },
    /// The state of a log.
    Head {
        /// Its length.
        next: u64,
        /// Whether it is closed.
        closed: bool,
    },
    /// It does not exist.
    Gone,
    /// The log has another length.
    Conflict {
        /// Its length.
        actual: u64,
    },
    /// Somebody has a higher token.
    Fenced {
        /// The highest one.
        current: u64,
    },
    /// It is closed.
    Closed {
        /// Its length.
        next: u64,
    },
    /// A token was handed out.
    Token(u64),
    /// So many events or edges were removed.
    Removed(u64),
    /// The branches in order.
    Children(Vec<String>),
    /// The parent.
    Parent(Option<String>),
    /// Id, length and whether it is closed, in list order.
    Listed(Vec<(String, u64, bool)>),
    /// Anything that no caller should see.
    Error(String),
}

/// An execution that only one lane at a time writes.
#[must_use]
pub fn own_id(slot: u64, lane: u64, number: u64) -> String {
    format!("{}{number}", own_prefix(slot, lane))
}

/// What all executions of a lane begin with.
#[must_use]
pub fn own_prefix(slot: u64, lane: u64) -> String {
    format!("own-{slot}-{lane}-")
}

/// An execution that everybody appends to and nobody deletes.
#[must_use]
pub fn shared_id(number: u64) -> String {
    format!("shared-{number}")
}

/// An execution that everybody appends to and deletes.
#[must_use]
pub fn short_lived_id(number: u64) -> String {
    format!("short-{number}")
}

/// A branch of an execution; the parent is known from it.
#[must_use]
pub fn child_id(parent: &str, number: u64) -> String {
    format!("{parent}+{number}")
}

/// The parent of which [`child_id`] made this one.
#[must_use]
pub fn parent_of(child: &str) -> Option<&str> {
    child.split_once('+').map(|(parent, _)| parent)
}

impl Op {
    /// The execution that it is about; for a branch, the parent that it would be of.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Append { id, .. }
            | Self::Read { id }
            | Self::Head { id }
            | Self::Delete { id, .. }
            | Self::Acquire { id }
            | Self::Move { id } => Some(id),
            Self::Edge { parent, .. } | Self::Children { parent } | Self::Forget { parent } => {
                Some(parent)
            }
            Self::Parent { child } => parent_of(child),
            Self::List { .. } | Self::Drain | Self::Pause => None,
        }
    }
}
