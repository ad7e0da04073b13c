//! The event store.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    Append, Appended, Capabilities, Delete, Deleted, Head, List, ListPage, LogHead, Read, ReadPage,
    StoreError,
};

/// An append-only log per execution: the contract for implementers. Callers find more in
/// [`EventStoreExt`](crate::EventStoreExt).
///
/// # Contract
///
/// Everything here is tested by the `loom-conformance` suites; a store that passes them keeps it.
///
/// - **Atomic and durable.** An append stores all its events or none, and when it returns `Ok` they
///   survive whatever the store promises to survive.
/// - **Contiguous.** The sequences of a log are 0, 1, 2, … without gaps or repeats. Of two appends that
///   expect the same sequence one wins.
/// - **Closed is for ever.** After a terminal event nothing is appended.
/// - **Read your writes.** What was acknowledged before a call began is visible to it.
/// - **Unreachable is not absent.** What cannot be reached is
///   [`Unavailable`](crate::StoreErrorKind::Unavailable), never `NotFound` and never `None`.
/// - **Order of checks.** Where several refusals apply, an append reports the first of: invalid argument,
///   plan epoch, sealed, fenced, closed, sequence. [`RecordState`](crate::RecordState) implements it.
/// - **Cancel safety.** Dropping the future of any method leaves the store consistent: the operation
///   took effect as a whole or not at all, but it may still take effect after the drop.
///
/// A store that offers [`PlanLedger`](crate::PlanLedger) checks the `epoch` of every request in the
/// transaction of the operation ([`PlanEpoch::admit`](crate::PlanEpoch::admit)); others ignore it.
///
/// Errors carry the operation and the execution; wrappers add the shard.
#[async_trait]
pub trait EventStore: Debug + Send + Sync + 'static {
    /// Adds events to the end of a log, or creates it when `expected` is 0.
    ///
    /// # Errors
    /// `InvalidArgument` (no events, or over the [`Limits`](crate::Limits)), `StalePlan`, `ShardBehind`,
    /// `Sealed`, `Fenced`, `Closed`, `SequenceConflict`, `Unavailable`. When the outcome is unknown the
    /// caller reads the tail before it tries again.
    ///
    /// # Cancel safety
    /// Never torn. A dropped append may still take effect, as if its answer had been lost.
    async fn append(&self, request: Append) -> Result<Appended, StoreError>;

    /// Reads events in order, and the state of the log at the same moment.
    ///
    /// # Errors
    /// `NotFound` when the execution does not exist (an execution that has no event at `from` yet is
    /// an empty page), `InvalidArgument` when the limit is 0, `StalePlan`, `ShardBehind`, `Unavailable`,
    /// `Corrupt`.
    ///
    /// # Cancel safety
    /// Reads change nothing.
    async fn read(&self, request: Read) -> Result<ReadPage, StoreError>;

    /// Looks at a log with one indexed point-read; `None` when the execution does not exist.
    ///
    /// # Errors
    /// `StalePlan`, `ShardBehind`, `Unavailable`, `Corrupt`.
    ///
    /// # Cancel safety
    /// Reads change nothing.
    async fn head(&self, request: Head) -> Result<Option<LogHead>, StoreError>;

    /// Lists a page of executions in list order. Executions that exist during the whole listing
    /// are returned exactly once over its pages.
    ///
    /// # Errors
    /// `InvalidArgument` when the limit is 0, `StalePlan`, `ShardBehind`, `Unavailable`, `Corrupt`.
    ///
    /// # Cancel safety
    /// Reads change nothing.
    async fn list(&self, request: List) -> Result<ListPage, StoreError>;

    /// Removes a log; the fence and the lineage of the execution stay.
    ///
    /// # Errors
    /// `NotFound`, `Sealed` (only `retire` removes a sealed record), `SequenceConflict` when the log has
    /// another length than expected, `StalePlan`, `ShardBehind`, `Unavailable`.
    ///
    /// # Cancel safety
    /// Never torn. A dropped delete may still take effect.
    async fn delete(&self, request: Delete) -> Result<Deleted, StoreError>;

    /// What the store offers beyond this trait.
    ///
    /// Cheap, and the same for the life of the store. A wrapper must not pass on a capability of the store
    /// it wraps as it is: calls would lead around the wrapper.
    fn capabilities(&self) -> Capabilities<'_>;
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: EventStore + ?Sized> EventStore for Arc<S> {
    async fn append(&self, request: Append) -> Result<Appended, StoreError> {
        (**self).append(request).await
    }

    async fn read(&self, request: Read) -> Result<ReadPage, StoreError> {
        (**self).read(request).await
    }

    async fn head(&self, request: Head) -> Result<Option<LogHead>, StoreError> {
        (**self).head(request).await
    }

    async fn list(&self, request: List) -> Result<ListPage, StoreError> {
        (**self).list(request).await
    }

    async fn delete(&self, request: Delete) -> Result<Deleted, StoreError> {
        (**self).delete(request).await
    }

    fn capabilities(&self) -> Capabilities<'_> {
        (**self).capabilities()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_usable_as_a_trait_object_across_threads() {
        fn assert<T: ?Sized + EventStore>() {}
        assert::<dyn EventStore>();
        assert::<Arc<dyn EventStore>>();
    }
}
