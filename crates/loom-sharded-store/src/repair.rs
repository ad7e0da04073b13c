//! Bringing a shard that was restored from a backup back into its deployment.

mod report;
mod verdict;

use std::sync::Arc;

use loom_shard_plan::{Placement, ShardId, ShardPlan};
use loom_spi::{
    Children, ExecutionId, ListCursor, Operation, PlanEpoch, Records, StoreError, StoreErrorKind,
};

use self::verdict::Verdict;
use crate::core::Core;
use crate::ledger::{Attempt, publishable};
use crate::relocate::Relocated;
use crate::routing::{Routing, Sides};
use crate::shard::{Shard, Side};
use crate::{MigrateError, OpenError, PlanChangeError, ShardedStore};
pub use report::{Repaired, RepairedRecord, Treatment};

/// Records that are looked at together.
const PAGE: usize = 256;

impl ShardedStore {
    /// Begins to repair a shard that was restored from a backup, which has old records and an old plan. Nodes
    /// refuse a shard that is more than one epoch behind, so that nothing is written to it before this is done.
    ///
    /// A shard that the plan does not name, since it was [given up](crate::Abandonment) and came back, is emptied:
    /// what is nowhere else goes to where it belongs.
    ///
    /// Verifies that the store is the shard that it should be. Changes nothing: see [`Repair`].
    ///
    /// # Errors
    /// [`RepairError`].
    ///
    /// # Cancel safety
    /// Nothing is changed, except that a newer plan may have been adopted.
    pub async fn repair(&self, shard: impl Into<ShardId>) -> Result<Repair, RepairError> {
        let id = shard.into();
        self.refresh().await?;
        let planner = self.core.planner.lock().await;
        let shard = planner.known.get(&id).cloned();
        let shard = shard.ok_or(OpenError::MissingShard { shard: id })?;
        if !self.core.offers.relocation {
            let kind = StoreErrorKind::Unsupported {
                capability: "a plan ledger and relocation, which a repair needs of every shard",
            };
            return Err(StoreError::new(Operation::Migrate, kind)
                .with_shard(id.get())
                .into());
        }
        planner.verify(&shard).await?;
        let routing = self.core.current.load_full();
        let plan = routing.plan().cloned().ok_or(PlanChangeError::Unplanned)?;
        Ok(Repair {
            core: Arc::clone(&self.core),
            routing,
            plan,
            shard,
        })
    }
}

/// The repair of one shard under the present plan.
///
/// [`examine`](Self::examine) says what there is to do and changes nothing; [`run`](Self::run) does it. Every
/// record that the shard holds is compared with the deployment as it is now:
///
/// - The plan places it elsewhere, and it is there: what the shard holds is a stale copy, and is removed. If its log has
///   events that the other one has not, it is left alone and reported: somebody has to decide.
/// - The plan places it elsewhere, and it is not there: it is moved there. It may have been deleted since the
///   backup was made; then it is back.
/// - The plan places it here, and nothing says that there is more of it: it stays, and is unsealed if it was
///   being moved when the backup was made.
/// - The plan places it here or on another shard, and the other one has it too: the other one counts if it is
///   not sealed or has more events; otherwise this one. On a shard that is at most one epoch behind this is left
///   to the moves that other processes make there meanwhile.
///
/// What nobody can know: what was appended after the backup was made is gone, and fence tokens that were
/// handed out since may be handed out again. [`Repaired::buckets`] are the buckets in which that may have
/// happened, [`Repaired::gone`] executions that other shards know of and that are not there any more.
#[derive(Debug)]
pub struct Repair {
    core: Arc<Core>,
    routing: Arc<Routing>,
    plan: Arc<ShardPlan>,
    shard: Shard,
}

impl Repair {
    /// Says what [`run`](Self::run) would do. `progress` is told after every page of records.
    ///
    /// # Errors
    /// [`RepairError::Store`] when a shard cannot be asked.
    ///
    /// # Cancel safety
    /// Reads change nothing.
    pub async fn examine(
        &self,
        mut progress: impl FnMut(&Repaired) + Send,
    ) -> Result<Repaired, RepairError> {
        let under = self.shard.epoch().await?;
        let mut report = self.report(under);
        self.pass(under, false, &mut report, &mut progress).await?;
        self.missed_by_others(under, &mut report, &mut progress)
            .await?;
        Ok(report)
    }

    /// Cleans the shard, and then raises it to the present plan, from which moment on nodes use it. A shard that
    /// is only one epoch behind is raised first, since nodes do not wait for this one to do it.
    ///
    /// All there is to know is in the shards: interrupted at any point, another repair goes on.
    ///
    /// # Errors
    /// [`RepairError`]; what was done stays done.
    ///
    /// # Cancel safety
    /// As a crash: nothing is lost, and repairing again goes on.
    pub async fn run(
        &self,
        mut progress: impl FnMut(&Repaired) + Send,
    ) -> Result<Repaired, RepairError> {
        let mut under = self.shard.epoch().await?;
        let mut report = self.report(under);
        self.missed_by_others(under, &mut report, &mut progress)
            .await?;
        let member = self.plan.shard(self.shard.id).is_some();
        let quarantined = under.is_none_or(|under| under.epoch + 1 < self.plan.epoch());
        if member && !quarantined {
            self.raise(under).await?;
            under = self.routing.epoch();
        }
        self.pass(under, true, &mut report, &mut progress).await?;
        if member && quarantined {
            self.raise(under).await?;
        }
        Ok(report)
    }

    fn report(&self, under: Option<PlanEpoch>) -> Repaired {
        let shard = self.shard.id;
        let buckets = (0..).zip(self.plan.placements());
        let buckets = buckets.filter(|(_, placement)| placement.names(shard));
        Repaired::new(
            shard,
            under,
            self.plan.epoch(),
            buckets.map(|(bucket, _)| bucket).collect(),
        )
    }

    async fn raise(&self, under: Option<PlanEpoch>) -> Result<(), RepairError> {
        let plan = publishable(&self.plan);
        match under {
            Some(under) if under == plan.epoch => return Ok(()),
            Some(current) if current.epoch >= plan.epoch.epoch => {
                let current = Some(current);
                return Err(PlanChangeError::Lost { current }.into());
            }
            _ => {}
        }
        match self.shard.publish(&plan, under).await? {
            Attempt::Taken => Ok(()),
            Attempt::Conflict(current) => Err(PlanChangeError::Lost { current }.into()),
        }
    }

    /// Looks at everything that the shard holds, and treats it if asked.
    async fn pass(
        &self,
        under: Option<PlanEpoch>,
        treat: bool,
        report: &mut Repaired,
        progress: &mut (impl FnMut(&Repaired) + Send),
    ) -> Result<(), RepairError> {
        let here = Side::new(&self.shard, &under);
        let mut cursor: Option<ListCursor> = None;
        loop {
            let request = Records::new(PAGE).with_cursor(cursor.take());
            let page = here.records(request).await?;
            for record in page.records {
                let mut verdict = if self.is_being_moved(under, &record.id) {
                    Verdict::Keep
                } else {
                    verdict::judge(&self.routing, here, &record).await?
                };
                if treat {
                    verdict = self.treat(here, &record.id, verdict).await?;
                }
                report.count(record.id, verdict);
            }
            progress(report);
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Whether nodes may be moving a record at this moment, since its bucket migrates from or to this shard and they
    /// use the shard: then all that is to be done is theirs, by the rules of moves, and a repair that stepped in
    /// between their steps could take the last copy away.
    fn is_being_moved(&self, under: Option<PlanEpoch>, id: &ExecutionId) -> bool {
        let used = under.is_some_and(|under| under.epoch + 1 >= self.plan.epoch());
        let placement = self.routing.placement(id.route_hash());
        used && placement.source().is_some() && placement.names(self.shard.id)
    }

    async fn treat(
        &self,
        here: Side<'_>,
        id: &ExecutionId,
        verdict: Verdict,
    ) -> Result<Verdict, RepairError> {
        match &verdict {
            Verdict::Keep | Verdict::Differs { .. } => {}
            Verdict::Unseal => unless_gone(here.unseal(id).await)?,
            Verdict::Stale { .. } => {
                unless_gone(here.seal(id).await.map(drop))?;
                here.retire(id).await?;
            }
            Verdict::Misplaced { to } => {
                let Some(destination) = self.routing.sides().find(|side| side.id() == *to) else {
                    return Err(OpenError::MissingShard { shard: *to }.into());
                };
                // Each of them under its own plan. What this says about where it is means nothing to a cache.
                let sides = Sides {
                    source: here,
                    destination,
                    since: 0,
                };
                match self.core.relocate(sides, id).await {
                    Ok(Relocated::Moved(_)) => {}
                    // Deleted there under this plan, or another repair was faster.
                    Ok(Relocated::NothingThere) => return Ok(Verdict::Stale { counts: *to }),
                    Err(MigrateError::Differs { reason, .. }) => {
                        return Ok(Verdict::Differs { on: *to, reason });
                    }
                    Err(MigrateError::Store(error)) => return Err(error.into()),
                    Err(error) => return Err(RepairError::Move(error)),
                }
            }
        }
        Ok(verdict)
    }

    /// Finds executions that the lineage of other shards names, that belong to this one, and that are not there.
    async fn missed_by_others(
        &self,
        under: Option<PlanEpoch>,
        report: &mut Repaired,
        progress: &mut (impl FnMut(&Repaired) + Send),
    ) -> Result<(), RepairError> {
        for other in self
            .routing
            .sides()
            .filter(|side| side.id() != self.shard.id)
        {
            let mut cursor: Option<ListCursor> = None;
            loop {
                let request = Records::new(PAGE).with_cursor(cursor.take());
                let page = other.records(request).await?;
                for record in page.records.iter().filter(|record| record.branches > 0) {
                    let children = Children::new(record.id.clone());
                    for branch in other.children(children).await? {
                        if self.is_missing(under, &branch.child).await? {
                            report.miss(branch.child);
                        }
                    }
                }
                progress(report);
                match page.next {
                    Some(next) => cursor = Some(next),
                    None => break,
                }
            }
        }
        Ok(())
    }

    /// Whether an execution belongs to this shard and is neither here nor on the other side of its bucket.
    async fn is_missing(
        &self,
        under: Option<PlanEpoch>,
        id: &ExecutionId,
    ) -> Result<bool, RepairError> {
        let placement = self.routing.placement(id.route_hash());
        if !placement.names(self.shard.id) {
            return Ok(false);
        }
        if Side::new(&self.shard, &under).inspect(id).await?.is_some() {
            return Ok(false);
        }
        let sides = match placement {
            Placement::Settled(_) => Vec::new(),
            Placement::Migrating { from, to } => vec![from, to],
        };
        for side in self.routing.sides() {
            if side.id() != self.shard.id
                && sides.contains(&side.id())
                && side.inspect(id).await?.is_some()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Another repair at the same time may have been faster.
fn unless_gone(done: Result<(), StoreError>) -> Result<(), StoreError> {
    match done {
        Err(error) if matches!(error.kind(), StoreErrorKind::NotFound) => Ok(()),
        done => done,
    }
}

/// Why a shard was not repaired, or not to the end. What was done stays done, and repairing again goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// The plan cannot be read, or another one was published meanwhile.
    #[error(transparent)]
    Plan(#[from] PlanChangeError),
    /// The store does not have that shard.
    #[error(transparent)]
    Shards(#[from] OpenError),
    /// An execution could not be moved to where it belongs.
    #[error("the repair stopped")]
    Move(#[source] MigrateError),
    /// A shard refused or could not be reached.
    #[error(transparent)]
    Store(#[from] StoreError),
}
