//! What a mutant remembers in order to be wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::task::Poll;

use loom_spi::{
    Event, ExecutionId, FenceToken, LogHead, ParentLink, PlanEpoch, ReadPage, RecordSummary,
    ShardLocation,
};

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
    pub(super) moves: MoveNotes,
}

/// What a mutant remembers of moves.
#[derive(Debug, Default)]
pub(super) struct MoveNotes {
    /// Who acquired last, by name.
    pub(super) holders: BTreeMap<ExecutionId, String>,
    pub(super) sealing: BTreeSet<ExecutionId>,
    pub(super) sealed_once: BTreeSet<ExecutionId>,
    /// How long logs were that were retired.
    pub(super) retired: BTreeMap<ExecutionId, u64>,
    pub(super) summaries: BTreeMap<ExecutionId, Option<RecordSummary>>,
    /// How many branches were on both sides of a merge.
    pub(super) twice: BTreeMap<ExecutionId, u64>,
    pub(super) imported: BTreeSet<ExecutionId>,
    /// Children that lost their parents on the way.
    pub(super) orphans: BTreeSet<ExecutionId>,
    /// Holders that came with an import over a log.
    pub(super) replaced: BTreeMap<ExecutionId, Option<String>>,
    /// How far imports got.
    pub(super) staged: BTreeMap<ExecutionId, u64>,
    /// The first parts of imports.
    pub(super) parts: BTreeMap<ExecutionId, (Option<LogHead>, Vec<Event>)>,
    /// Imports whose parts are taken to be lost.
    pub(super) dropped: BTreeSet<ExecutionId>,
    pub(super) marks: BTreeSet<ExecutionId>,
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
