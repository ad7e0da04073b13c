//! Moving one record from shard to shard, live or not.

use async_trait::async_trait;

use crate::StoreError;
use crate::relocation_requests::{
    Import, Imported, Inspect, RecordPage, RecordSummary, Records, Retire, Seal, SealedRecord,
    Unseal,
};

/// Moves single records safely. What a shard knows of an id is one *record*: its log, its fence and its
/// lineage edges, each of which may be absent. The record exists if any part does.
///
/// A move is [`seal`](Self::seal) on the source, [`read`](crate::EventStore::read) of its pages,
/// [`import`](Self::import) on the destination, [`retire`](Self::retire) on the source. Every step may be
/// repeated, by several movers at once, and a crash between any two leaves a record that can be served and a
/// move that anybody can finish.
///
/// # Contract
/// - A sealed record never changes, except by `unseal` and `retire`. Appends, deletes, acquisitions, renewals
///   and releases of leases, recordings and removals of lineage are refused as `Sealed`; reads, look-ups,
///   listings, children and parents go on, and say that the log is sealed.
/// - An import is invisible until it is complete, to every method but another import.
/// - Moved events are byte-identical, their times included. The highest fence token and the name of its
///   holder travel; the time left of a lease does not, so that the holder renews it at the new place.
/// - Moving is by record: the edges of a parent go with it, in the order recorded.
#[async_trait]
pub trait Relocation: Send + Sync {
    /// Looks at one record, also at one that has no log; `None` when there is none: one indexed point-read.
    ///
    /// # Errors
    /// `StalePlan`, `ShardBehind`, `Unavailable`, `Corrupt`.
    ///
    /// # Cancel safety
    /// Reads change nothing.
    async fn inspect(&self, request: Inspect) -> Result<Option<RecordSummary>, StoreError>;

    /// Makes a record unchangeable, and returns what has to move beside the events. Sealing a sealed record
    /// again returns the same answer.
    ///
    /// # Errors
    /// `NotFound` when there is no record, `StalePlan`, `ShardBehind`, `Unavailable`.
    ///
    /// # Cancel safety
    /// Never torn. A dropped call may still take effect.
    async fn seal(&self, request: Seal) -> Result<SealedRecord, StoreError>;

    /// Receives a record, in one part or several. It becomes visible in one step, with the part that
    /// completes it, however large the log is. The limits for appends are not applied: the events were
    /// admitted once.
    ///
    /// - The parts of a log arrive in order, from event 0 on. What has been staged already, by this mover or
    ///   another, is skipped: the answer says where to go on.
    /// - Where the record here has no log, the import is merged into it: the highest fence token of the two
    ///   counts, and the branches of the import come before those that only are here.
    /// - Where a log is here that starts with the imported one, the parts are compared with it and the log
    ///   and lineage stay as they are, since they came with that log and may have been forgotten since; the fence is
    ///   raised to the import's.
    /// - Where a log is here and the import has none, the log stays, and fence and lineage are merged as above.
    /// - What was staged and never completed is dropped when the store's plan changes.
    ///
    /// # Errors
    /// `RecordConflict` when a different log is here under the id, `DeletedHere` when the record was deleted or
    /// forgotten here under this plan by a request that left a mark, `Sealed` when a sealed leftover is in the
    /// way, `LineageConflict` when a child of the record has another parent here, `InvalidArgument` when the
    /// part leaves a gap or does not fit the sealed head, `StalePlan`, `ShardBehind`, `Unavailable`. Nothing
    /// is changed then.
    ///
    /// # Cancel safety
    /// Never torn. A dropped call may still take effect.
    async fn import(&self, request: Import) -> Result<Imported, StoreError>;

    /// Removes a sealed record whole: log, fence and lineage. Does nothing when there is none. Leaves no mark.
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
