//! What a repair found and did.

use loom_shard_plan::{BucketSet, ShardId};
use loom_spi::{ExecutionId, PlanEpoch};

use super::verdict::Verdict;

/// How many records, and how many missing executions, a report names.
const NAMED: usize = 100;

/// What a [repair](super::Repair) found, or did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// The shard.
    pub shard: ShardId,
    /// The plan that it was under.
    pub was_under: Option<PlanEpoch>,
    /// The epoch of the present plan.
    pub epoch: u64,
    /// How many records it holds.
    pub records: u64,
    /// Those that stay as they are.
    pub kept: u64,
    /// Those that a move had sealed when the backup was made, and that are writable again.
    pub unsealed: u64,
    /// Stale copies that were removed.
    pub removed: u64,
    /// Those that were moved to where the plan places them.
    pub moved: u64,
    /// Those that differ from what another shard has, so that somebody has to decide: nothing was done.
    pub differing: u64,
    /// The first hundred of those that do not stay as they are.
    pub treated: Vec<RepairedRecord>,
    /// How many executions the lineage of other shards names that belong to this one and are not there: they
    /// were lost, or deleted, or never started.
    pub gone: u64,
    /// The first hundred of them.
    pub gone_named: Vec<ExecutionId>,
    /// The buckets that the plan places here, wholly or on one side: what was appended in them after the backup
    /// was made may be gone.
    pub buckets: BucketSet,
}

/// One record that does not stay as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairedRecord {
    /// The execution.
    pub id: ExecutionId,
    /// What becomes of it.
    pub treatment: Treatment,
}

/// What becomes of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Treatment {
    /// It becomes writable again.
    Unsealed,
    /// It is removed: this shard has what counts.
    Removed {
        /// The shard.
        counts: ShardId,
    },
    /// It is moved to this shard.
    Moved {
        /// The shard.
        to: ShardId,
    },
    /// Nothing: another log is on this shard.
    Differs {
        /// The shard.
        on: ShardId,
        /// Where they differ.
        reason: String,
    },
}

impl Repaired {
    pub(super) fn new(
        shard: ShardId,
        was_under: Option<PlanEpoch>,
        epoch: u64,
        buckets: BucketSet,
    ) -> Self {
        Self {
            shard,
            was_under,
            epoch,
            records: 0,
            kept: 0,
            unsealed: 0,
            removed: 0,
            moved: 0,
            differing: 0,
            treated: Vec::new(),
            gone: 0,
            gone_named: Vec::new(),
            buckets,
        }
    }

    pub(super) fn count(&mut self, id: ExecutionId, verdict: Verdict) {
        self.records += 1;
        let (counter, treatment) = match verdict {
            Verdict::Keep => {
                self.kept += 1;
                return;
            }
            Verdict::Unseal => (&mut self.unsealed, Treatment::Unsealed),
            Verdict::Stale { counts } => (&mut self.removed, Treatment::Removed { counts }),
            Verdict::Misplaced { to } => (&mut self.moved, Treatment::Moved { to }),
            Verdict::Differs { on, reason } => {
                (&mut self.differing, Treatment::Differs { on, reason })
            }
        };
        *counter += 1;
        if self.treated.len() < NAMED {
            self.treated.push(RepairedRecord { id, treatment });
        }
    }

    pub(super) fn miss(&mut self, id: ExecutionId) {
        self.gone += 1;
        if self.gone_named.len() < NAMED {
            self.gone_named.push(id);
        }
    }
}
