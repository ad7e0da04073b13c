//! Keeps moves and the operations that they would race with apart, within this process.

use loom_spi::ExecutionId;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// How many locks there are.
const STRIPES: usize = 256;

/// A lock per stripe of ids, for executions of migrating buckets alone. What changes one copy shares it;
/// what changes both copies has it alone. Reads need none: a move never takes a copy away before the other
/// one is complete.
#[derive(Debug)]
pub(crate) struct Moves(Box<[RwLock<()>]>);

impl Moves {
    pub(crate) fn new() -> Self {
        Self((0..STRIPES).map(|_| RwLock::default()).collect())
    }

    /// For what changes one copy.
    pub(crate) async fn shared(&self, id: &ExecutionId) -> RwLockReadGuard<'_, ()> {
        self.0[stripe(id)].read().await
    }

    /// For what changes both copies.
    pub(crate) async fn alone(&self, id: &ExecutionId) -> RwLockWriteGuard<'_, ()> {
        self.0[stripe(id)].write().await
    }
}

/// By the high bits: the executions of one bucket agree in the low ones.
fn stripe(id: &ExecutionId) -> usize {
    // Eight bits are left.
    (id.route_hash().0 >> 56) as usize % STRIPES
}
