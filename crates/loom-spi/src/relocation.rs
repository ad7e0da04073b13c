//! Moving one record from shard to shard, live or not.

use async_trait::async_trait;

use crate::request::request;
use crate::{Branch, Event, ExecutionId, FenceToken, ListCursor, LogHead, RouteFilter, StoreError};

/// Moves single records safely. What a shard knows of an id is one *record*: its log, its fence and its
/// lineage edges, each of which may be absent. The record exists if any part does.
///
/// A move is `seal` on the source, [`read`](crate::EventStore::read) of its pages, `import` on the
/// destination, `retire` on the source. Every step may be repeated, by several movers at once.
#[async_trait]
pub trait Relocation: Send + Sync {
    /// Refuses appends, deletes, fence acquisitions and new lineage from now on; reads go on. Sealing a
    /// sealed record again returns the same answer.
    ///
    /// # Errors
    /// `NotFound` when there is no record, `StalePlan`, `ShardBehind`, `Unavailable`.
    ///
    /// # Cancel safety
    /// Never torn. A dropped call may still take effect.
    async fn seal(&self, request: Seal) -> Result<SealedRecord, StoreError>;

    /// Receives a record, in one part or several. It becomes visible in one step, with the part that
    /// completes it, however large the log is. A record that is already here, or of which a prefix is
    /// being imported, is a no-op.
    ///
    /// # Errors
    /// `RecordConflict` when a different record is here under the id, `DeletedHere` when the execution was
    /// deleted here in this epoch, `Sealed` when a sealed leftover is in the way, `InvalidArgument` when
    /// the part does not fit what was staged, `StalePlan`, `ShardBehind`, `Unavailable`.
    ///
    /// # Cancel safety
    /// Never torn. A dropped call may still take effect.
    async fn import(&self, request: Import) -> Result<Imported, StoreError>;

    /// Removes a sealed record whole. Does nothing when there is none.
    ///
    /// # Errors
    /// `NotSealed` when the record is not sealed, `StalePlan`, `ShardBehind`, `Unavailable`.
    ///
    /// # Cancel safety
    /// Never torn. A dropped call may still take effect.
    async fn retire(&self, request: Retire) -> Result<(), StoreError>;

    /// Makes a sealed record writable again. Does nothing when it is not sealed.
    ///
    /// # Errors
    /// `NotFound` when there is no record, `StalePlan`, `ShardBehind`, `Unavailable`.
    ///
    /// # Cancel safety
    /// Never torn. A dropped call may still take effect.
    async fn unseal(&self, request: Unseal) -> Result<(), StoreError>;

    /// Lists a page of records in list order, those without a log included: what a drain looks at.
    ///
    /// # Errors
    /// `InvalidArgument` when the limit is 0, `StalePlan`, `ShardBehind`, `Unavailable`, `Corrupt`.
    ///
    /// # Cancel safety
    /// Reads change nothing.
    async fn records(&self, request: Records) -> Result<RecordPage, StoreError>;
}

request! {
    /// Asks to seal a record.
    Seal {
        /// The execution.
        id: ExecutionId,
    }
    optional {}
}

/// A record that can no longer change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SealedRecord {
    /// The log, if the record has one.
    pub head: Option<LogHead>,
    /// The highest fence token, if it was ever fenced.
    pub fence: Option<FenceToken>,
    /// Its branches, in the order recorded.
    pub branches: Vec<Branch>,
}

impl SealedRecord {
    /// For implementers of stores.
    #[must_use]
    pub fn new(head: Option<LogHead>, fence: Option<FenceToken>, branches: Vec<Branch>) -> Self {
        Self {
            head,
            fence,
            branches,
        }
    }
}

request! {
    /// Delivers a record, or a part of its log. The parts of one log arrive in order; the record becomes
    /// visible when as many events have arrived as `sealed` says there are.
    Import {
        /// The execution.
        id: ExecutionId,
        /// What [`Relocation::seal`] returned on the source.
        sealed: SealedRecord,
        /// The next events of the log; none when the record has no log.
        events: Vec<Event>,
    }
    optional {}
}

/// What a part of an import did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Imported {
    /// More parts are needed, from this sequence on.
    Staged {
        /// The first sequence of the next part.
        next_sequence: u64,
    },
    /// The record is complete and visible.
    Visible,
    /// It was there before.
    AlreadyThere,
}

request! {
    /// Asks to remove a sealed record.
    Retire {
        /// The execution.
        id: ExecutionId,
    }
    optional {}
}

request! {
    /// Asks to make a sealed record writable again.
    Unseal {
        /// The execution.
        id: ExecutionId,
    }
    optional {}
}

request! {
    /// Lists records in list order.
    Records {
        /// The most records wanted, at least 1.
        limit: usize,
    }
    optional {
        /// Where to go on; `None` starts at the beginning.
        cursor: Option<ListCursor> = None, with_cursor(impl Into<Option<ListCursor>>),
        /// Only records whose hash matches.
        route: Option<RouteFilter> = None, with_route(impl Into<Option<RouteFilter>>),
    }
}

/// Some records, in list order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordPage {
    /// In list order, each id once.
    pub records: Vec<RecordSummary>,
    /// Where to go on; `None` when this was the last page.
    pub next: Option<ListCursor>,
}

impl RecordPage {
    /// For implementers of stores.
    #[must_use]
    pub fn new(records: Vec<RecordSummary>, next: Option<ListCursor>) -> Self {
        Self { records, next }
    }
}

/// One record in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordSummary {
    /// Its id.
    pub id: ExecutionId,
    /// Its log, if it has one.
    pub head: Option<LogHead>,
    /// Whether it was ever fenced.
    pub fenced: bool,
    /// How many branches it has.
    pub branches: u64,
    /// Whether it is sealed.
    pub sealed: bool,
}

impl RecordSummary {
    /// For implementers of stores.
    #[must_use]
    pub fn new(
        id: ExecutionId,
        head: Option<LogHead>,
        fenced: bool,
        branches: u64,
        sealed: bool,
    ) -> Self {
        Self {
            id,
            head,
            fenced,
            branches,
            sealed,
        }
    }
}
