//! Requests and answers of [`EventStore`](crate::EventStore).
//!
//! Each request is a struct, so that a wrapper passes it on whole and a field added later reaches the
//! innermost store.

use std::fmt;

use crate::{Event, ExecutionId, FenceToken, NewEvent, RouteFilter, Timestamp};

/// Declares a request with its constructor and the setters of its optional fields.
macro_rules! request {
    (
        $(#[$meta:meta])*
        $name:ident {
            $($(#[$field_meta:meta])* $field:ident: $ty:ty,)*
        }
        optional {
            $($(#[$opt_meta:meta])* $opt:ident: $opt_ty:ty = $default:expr, $setter:ident($arg:ty),)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $ty,)*
            $($(#[$opt_meta])* pub $opt: $opt_ty,)*
            /// The plan under which the request is made; `None` outside any plan.
            pub epoch: Option<$crate::PlanEpoch>,
        }

        impl $name {
            /// A request with every optional part left out.
            #[must_use]
            pub fn new($($field: $ty),*) -> Self {
                Self { $($field,)* $($opt: $default,)* epoch: None }
            }

            $(
                #[doc = concat!("Sets [`", stringify!($opt), "`](Self::", stringify!($opt), ").")]
                #[must_use]
                pub fn $setter(mut self, $opt: $arg) -> Self {
                    self.$opt = $opt.into();
                    self
                }
            )*

            /// Sets the plan under which the request is made.
            #[must_use]
            pub fn with_epoch(mut self, epoch: impl Into<Option<$crate::PlanEpoch>>) -> Self {
                self.epoch = epoch.into();
                self
            }
        }
    };
}
pub(crate) use request;

request! {
    /// Adds events to the end of a log, all or none.
    Append {
        /// The execution.
        id: ExecutionId,
        /// The sequence that the first event will get: the length of the log as the caller knows it. 0
        /// creates the execution.
        expected: u64,
        /// At least one.
        events: Vec<NewEvent>,
    }
    optional {
        /// Proves that the writer has not been replaced.
        fence: Option<FenceToken> = None, with_fence(impl Into<Option<FenceToken>>),
    }
}

/// What an append did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// The sequence that the next append has to expect.
    pub next_sequence: u64,
}

impl Appended {
    /// For implementers of stores.
    #[must_use]
    pub fn new(next_sequence: u64) -> Self {
        Self { next_sequence }
    }
}

request! {
    /// Reads events of one log, in order.
    Read {
        /// The execution.
        id: ExecutionId,
        /// The first sequence wanted.
        from: u64,
        /// The most events wanted, at least 1. A store may return fewer, but never none while there
        /// are some.
        limit: usize,
    }
    optional {}
}

/// A stretch of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadPage {
    /// Contiguous, from the sequence that was asked for. Empty when the log has none there yet.
    pub events: Vec<Event>,
    /// The state of the whole log at the moment of the read.
    pub head: LogHead,
}

impl ReadPage {
    /// For implementers of stores.
    #[must_use]
    pub fn new(events: Vec<Event>, head: LogHead) -> Self {
        Self { events, head }
    }
}

request! {
    /// Looks at one log without reading its events.
    Head {
        /// The execution.
        id: ExecutionId,
    }
    optional {}
}

/// The state of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogHead {
    /// How many events the log has, at least 1; the sequence that the next one will get.
    pub next_sequence: u64,
    /// Whether a terminal event closed it.
    pub state: ExecutionState,
    /// Whether it is sealed, because it is being moved.
    pub sealed: bool,
    /// When the first event was recorded.
    pub created_at: Timestamp,
    /// When the last event was recorded: for a closed execution, when it closed.
    pub updated_at: Timestamp,
}

impl LogHead {
    /// An unsealed log: for implementers of stores.
    #[must_use]
    pub fn new(
        next_sequence: u64,
        state: ExecutionState,
        created_at: Timestamp,
        updated_at: Timestamp,
    ) -> Self {
        Self {
            next_sequence,
            state,
            sealed: false,
            created_at,
            updated_at,
        }
    }

    /// Sets [`sealed`](Self::sealed).
    #[must_use]
    pub fn with_sealed(mut self, sealed: bool) -> Self {
        self.sealed = sealed;
        self
    }

    /// Whether a terminal event closed it.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state == ExecutionState::Closed
    }
}

/// Whether an execution can still change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExecutionState {
    /// Events can be appended.
    Open,
    /// The last event is terminal.
    Closed,
}

request! {
    /// Lists executions in *list order*: `(index_key, id bytes)`, the same in every store.
    List {
        /// The most executions wanted, at least 1. A store may return fewer.
        limit: usize,
    }
    optional {
        /// Where to go on; `None` starts at the beginning.
        cursor: Option<ListCursor> = None, with_cursor(impl Into<Option<ListCursor>>),
        /// Only executions whose hash matches.
        route: Option<RouteFilter> = None, with_route(impl Into<Option<RouteFilter>>),
        /// Only open or only closed ones.
        state: Option<ExecutionState> = None, with_state(impl Into<Option<ExecutionState>>),
    }
}

/// Where a listing goes on: after an execution, whether that one still exists or not.
///
/// Since the list order follows from the id alone, a cursor of one store is valid in every other:
/// that is how listings of many shards are merged.
#[derive(Clone, PartialEq, Eq)]
pub struct ListCursor {
    index_key: i64,
    id: ExecutionId,
}

impl ListCursor {
    /// Goes on after `id`.
    #[must_use]
    pub fn after(id: &ExecutionId) -> Self {
        Self {
            index_key: id.route_hash().index_key(),
            id: id.clone(),
        }
    }

    /// The position in list order, after which the listing goes on: for implementers of stores.
    #[must_use]
    pub fn position(&self) -> (i64, &ExecutionId) {
        (self.index_key, &self.id)
    }
}

impl fmt::Debug for ListCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ListCursor(after {:?})", self.id)
    }
}

/// Some executions, in list order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListPage {
    /// In list order, each id once.
    pub executions: Vec<ExecutionSummary>,
    /// Where to go on; `None` when this was the last page. A page may be empty and still have a
    /// next one.
    pub next: Option<ListCursor>,
}

impl ListPage {
    /// For implementers of stores.
    #[must_use]
    pub fn new(executions: Vec<ExecutionSummary>, next: Option<ListCursor>) -> Self {
        Self { executions, next }
    }
}

/// One execution in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecutionSummary {
    /// Its id.
    pub id: ExecutionId,
    /// The state of its log.
    pub head: LogHead,
}

impl ExecutionSummary {
    /// For implementers of stores.
    #[must_use]
    pub fn new(id: ExecutionId, head: LogHead) -> Self {
        Self { id, head }
    }
}

request! {
    /// Removes a log. The execution's fence stays, so that a writer that was replaced long ago cannot
    /// start it anew, and so does its lineage, which [`forget`](crate::BranchRegistry::forget) removes.
    Delete {
        /// The execution.
        id: ExecutionId,
    }
    optional {
        /// Delete only if the next sequence still is this one.
        expected: Option<u64> = None, with_expected(impl Into<Option<u64>>),
        /// Remember, until the store's plan changes, that the execution was deleted here, so that a late
        /// [import](crate::Relocation::import) does not bring it back. For executions that are being moved.
        mark: bool = false, with_mark(bool),
    }
}

/// What a delete did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deleted {
    /// How many events were removed.
    pub events: u64,
}

impl Deleted {
    /// For implementers of stores.
    #[must_use]
    pub fn new(events: u64) -> Self {
        Self { events }
    }
}
