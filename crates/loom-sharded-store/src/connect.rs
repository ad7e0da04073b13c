//! Reaching shards that join while the process runs.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use loom_shard_plan::ShardId;
use loom_spi::{BoxError, EventStore};

/// Connects to a shard that a newer plan names and that was not given when the store was opened.
///
/// ```
/// use std::sync::Arc;
/// use loom_shard_plan::ShardId;
/// use loom_sharded_store::Connect;
/// use loom_spi::{BoxError, EventStore};
/// use loom_store_memory::MemoryStore;
///
/// /// A real one opens what is at `location`.
/// #[derive(Debug)]
/// struct Fresh;
///
/// #[async_trait::async_trait]
/// impl Connect for Fresh {
///     async fn connect(
///         &self,
///         shard: ShardId,
///         location: Option<&str>,
///     ) -> Result<Arc<dyn EventStore>, BoxError> {
///         let location = location.ok_or_else(|| format!("nobody said where shard {shard} is"))?;
///         assert!(location.starts_with("memory:"));
///         Ok(Arc::new(MemoryStore::new()))
///     }
/// }
/// ```
#[async_trait]
pub trait Connect: Debug + Send + Sync + 'static {
    /// Opens the store of `shard`. `location` is what the shards' directory says about it, if there is one
    /// and it does.
    ///
    /// # Errors
    /// Whatever keeps the store from being opened; the plan is then not adopted, and the operation that
    /// needed it fails.
    ///
    /// # Cancel safety
    /// The call may be dropped and repeated.
    async fn connect(
        &self,
        shard: ShardId,
        location: Option<&str>,
    ) -> Result<Arc<dyn EventStore>, BoxError>;
}
