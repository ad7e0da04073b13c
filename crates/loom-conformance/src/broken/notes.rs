//! What a mutant remembers in order to be wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::task::Poll;

use loom_spi::{ExecutionId, FenceToken, LogHead, ParentLink, PlanEpoch, ReadPage, ShardLocation};

#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Tokens that were handed out last.
    pub(super) tokens: BTreeMap<ExecutionId, FenceToken>,
    pub(super) deleted: BTreeSet<ExecutionId>,
    /// Where a terminal event would be.
    pub(super) ends: BTreeSet<(ExecutionId, u64)>,
    pub(super) heads: BTreeMap<ExecutionId, Option<LogHead>>,
    pub(super) pages: BTreeMap<ExecutionId, ReadPage>,
    /// How many rows come before a listing goes on after an execution.
    pub(super) offsets: BTreeMap<ExecutionId, usize>,
    pub(super) leased: BTreeSet<ExecutionId>,
    pub(super) acquisitions: u64,
    pub(super) links: BTreeMap<ExecutionId, ParentLink>,
    pub(super) locations: Vec<ShardLocation>,
    pub(super) appended: bool,
    /// The plan under which a head was looked at last.
    pub(super) looks: BTreeMap<ExecutionId, Option<PlanEpoch>>,
}

/// Lets others run.
pub(super) async fn pause() {
    for _ in 0..3 {
        let mut paused = false;
        poll_fn(|cx| {
            if paused {
                return Poll::Ready(());
            }
            paused = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}
