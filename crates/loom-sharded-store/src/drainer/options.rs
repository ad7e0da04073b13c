//! What a drain is asked, and what it answers.

use std::num::{NonZeroU32, NonZeroUsize};

use loom_spi::ExecutionId;

use super::share::Share;
use crate::Settled;
#[cfg(doc)]
use crate::ShardedStore;

/// How many stuck executions and failures a report names.
const NAMED: usize = 100;

/// How a [drain](ShardedStore::drain) goes about its work.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DrainOptions {
    /// Whether live executions are moved too. Default no: they drain when they close.
    pub live: bool,
    /// The most moves begun in a second, so that callers are not held up. Default no bound.
    pub rate: Option<NonZeroU32>,
    /// The share of the time in which moves are under way; the rest of it belongs to callers. Default all of it.
    pub share: Option<Share>,
    /// How many moves are under way at a time, and how many buckets are looked at. Default 64. Together with a rate or
    /// a share this bounds what a drain costs everybody else: a move is three writes and takes about as long as they
    /// do.
    pub at_once: NonZeroUsize,
    /// Whether the buckets that are empty afterwards are settled. Default yes.
    pub settle: bool,
}

impl Default for DrainOptions {
    fn default() -> Self {
        Self {
            live: false,
            rate: None,
            share: None,
            at_once: NonZeroUsize::MIN.saturating_add(63),
            settle: true,
        }
    }
}

impl DrainOptions {
    /// Closed executions only, as fast as it goes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`live`](Self::live).
    #[must_use]
    pub fn with_live(mut self, live: bool) -> Self {
        self.live = live;
        self
    }

    /// Sets [`rate`](Self::rate).
    #[must_use]
    pub fn with_rate(mut self, rate: impl Into<Option<NonZeroU32>>) -> Self {
        self.rate = rate.into();
        self
    }

    /// Sets [`share`](Self::share).
    #[must_use]
    pub fn with_share(mut self, share: impl Into<Option<Share>>) -> Self {
        self.share = share.into();
        self
    }

    /// Sets [`at_once`](Self::at_once).
    #[must_use]
    pub fn with_at_once(mut self, at_once: NonZeroUsize) -> Self {
        self.at_once = at_once;
        self
    }

    /// Sets [`settle`](Self::settle).
    #[must_use]
    pub fn with_settle(mut self, settle: bool) -> Self {
        self.settle = settle;
        self
    }
}

/// What a [drain](ShardedStore::drain) has done so far.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Drained {
    /// Executions, and records without a log, that were moved.
    pub moved: u64,
    /// Live executions that were left, because they were not asked for.
    pub live: u64,
    /// Executions that could not be moved.
    pub stuck: u64,
    /// Migrating buckets that were looked at.
    pub buckets_seen: u64,
    /// Migrating buckets that were left because a shard could not be reached.
    pub failed_buckets: u64,
    /// The first hundred of what stuck, and of the failures: which execution, if it is about one, and why.
    pub reasons: Vec<(Option<ExecutionId>, String)>,
    /// What was settled afterwards; `None` before, and when it was not asked for.
    pub settled: Option<Settled>,
}

impl Drained {
    pub(super) fn stick(&mut self, id: ExecutionId, reason: String) {
        self.stuck += 1;
        self.name(Some(id), reason);
    }

    pub(super) fn name(&mut self, id: Option<ExecutionId>, reason: String) {
        if self.reasons.len() < NAMED {
            self.reasons.push((id, reason));
        }
    }
}
