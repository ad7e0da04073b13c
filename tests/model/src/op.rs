//! What the nodes of a scenario do.

/// One operation of a node's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Appends `event` at sequence 0.
    Create {
        event: u8,
        fenced: bool,
    },
    /// Appends `event` at sequence `at`.
    Append {
        at: u32,
        event: u8,
        fenced: bool,
    },
    Read,
    Delete,
    /// Acquires a fence; fenced appends that follow present its token.
    Acquire,
    /// Records an edge to a child.
    Edge(u8),
    /// Forgets all edges.
    Forget,
    Children,
    /// Moves the record.
    Move,
    /// Lists all executions.
    List,
    /// Publishes a plan.
    Publish(u8),
    /// Waits for a plan of at least that epoch, and takes it.
    Follow(u8),
}

/// An operation, and the execution that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) op: Op,
    pub(crate) id: usize,
}

impl Op {
    /// On the execution that most scenarios are about.
    pub(crate) fn x(self) -> Step {
        Step { op: self, id: 0 }
    }

    /// On the other one.
    pub(crate) fn y(self) -> Step {
        Step { op: self, id: 1 }
    }

    /// The sequence at which it appends.
    pub(crate) fn expected(self) -> Option<u32> {
        match self {
            Self::Create { .. } => Some(0),
            Self::Append { at, .. } => Some(at),
            _ => None,
        }
    }
}

/// What an operation tells its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    NotFound,
    Conflict,
    Fenced,
    Log(crate::seq::Seq),
    Edges(crate::seq::Seq),
    List([crate::seq::Seq; crate::plan::IDS]),
    /// A process without a plan is refused, or a publisher has lost or may not go on.
    Refused,
    /// It cannot be done, whatever is tried.
    Stuck(&'static str),
}
