//! What the writer keeps in memory between transactions.

use std::mem;

use ahash::AHashMap;
use loom_spi::{ExecutionId, PlanEpoch};

use crate::record::Record;

/// Copies of what is stored. They are only used inside a transaction, after a look at `data_version` has
/// shown that no other connection committed since; otherwise, and after a rollback, they are forgotten.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Of the commit by another connection that was seen last.
    pub(super) data_version: Option<i64>,
    /// Which plan the store is under; the outer option is `None` when that is not known.
    pub(super) plan: Option<Option<PlanEpoch>>,
    /// The number of the next log.
    pub(super) next_log: Option<i64>,
    /// Whether there are logs whose events have to be reclaimed; `None` when that is not known.
    pub(super) garbage: Option<bool>,
    pub(super) records: RecentRecords,
}

impl Memory {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The records that were written most recently: at least the last [`GENERATION`], at most twice as many. Two
/// generations approximate an LRU without a list to maintain.
#[derive(Debug, Default)]
pub(super) struct RecentRecords {
    young: AHashMap<ExecutionId, Record>,
    old: AHashMap<ExecutionId, Record>,
}

/// Of about 300 bytes each.
const GENERATION: usize = 4_096;

impl RecentRecords {
    pub(super) fn get(&self, id: &ExecutionId) -> Option<&Record> {
        self.young.get(id).or_else(|| self.old.get(id))
    }

    pub(super) fn insert(&mut self, id: ExecutionId, record: Record) {
        if self.young.len() >= GENERATION && !self.young.contains_key(&id) {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(id, record);
    }

    pub(super) fn remove(&mut self, id: &ExecutionId) {
        self.young.remove(id);
        self.old.remove(id);
    }
}
