//! Why an execution was not moved.

use loom_shard_plan::ShardId;
use loom_spi::{ExecutionId, FenceToken, StoreError};

/// Why an execution was not moved. Whatever the reason, it is served as before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// It can still change.
    #[error(
        "cannot migrate execution `{id}` from shard {shard}: it is open and has {events} events, and one that is appended during the move would be lost; move it once it has closed, or let its bucket drain by itself"
    )]
    Live {
        /// The execution.
        id: ExecutionId,
        /// Where it is.
        shard: ShardId,
        /// How many events it has.
        events: u64,
    },
    /// It was not started, but somebody holds its fence and is about to.
    #[error(
        "cannot migrate execution `{id}` from shard {shard}: a worker holds its fence (token {token}) and may start it during the move; move it once it has closed, or let its bucket drain by itself"
    )]
    Held {
        /// The execution.
        id: ExecutionId,
        /// Where it is.
        shard: ShardId,
        /// The highest token.
        token: FenceToken,
    },
    /// It does not fit one append of the destination, and half of it must never be visible there.
    #[error(
        "cannot migrate execution `{id}` from shard {shard}: its {events} events do not fit into one append of the destination ({reason}), and a part of a log must never be visible; let its bucket drain by itself"
    )]
    TooLarge {
        /// The execution.
        id: ExecutionId,
        /// Where it is.
        shard: ShardId,
        /// How many events it has.
        events: u64,
        /// Which limit it is over.
        reason: String,
    },
    /// The destination holds another log under the same id.
    #[error(
        "cannot migrate execution `{id}` from shard {from} to shard {to}: there is a different log under this id on each of them ({reason}); the one on shard {to} is served, and somebody has to decide what becomes of the other"
    )]
    Differs {
        /// The execution.
        id: ExecutionId,
        /// The source.
        from: ShardId,
        /// The destination.
        to: ShardId,
        /// Where they differ.
        reason: String,
    },
    /// Somebody started or deleted it during the move.
    #[error(
        "cannot migrate execution `{id}` from shard {shard}: it was started or deleted by another process during the move; look at it and decide anew"
    )]
    Changed {
        /// The execution.
        id: ExecutionId,
        /// The source.
        shard: ShardId,
    },
    /// A shard refused or could not be reached; `NotFound` when the execution does not exist.
    #[error(transparent)]
    Store(#[from] StoreError),
}
