//! Coming to one plan with the shards, while operations run.

use std::sync::Arc;

use loom_shard_plan::{ShardId, ShardPlan};
use loom_spi::{Operation, PlanEpoch, StoreError, StoreErrorKind};
use tracing::Instrument as _;

use crate::core::Core;
use crate::ledger::{Attempt, publishable};
use crate::planner::{Planner, Unused};
use crate::routing::{Route, Routing};
use crate::rules::Rule;
use crate::shard::Shard;
use crate::{OpenError, PlanChangeError};

/// How often one operation starts again before its caller is told: each time some plan has been published
/// meanwhile.
const MOST: u32 = 32;

/// How often an operation has started again.
#[derive(Debug, Default)]
pub(crate) struct Restarts(u32);

/// Whether an operation changes nothing, so that it may be repeated whatever became of it.
fn only_reads(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Read
            | Operation::Head
            | Operation::List
            | Operation::Inspect
            | Operation::Records
            | Operation::Children
            | Operation::Parent
    )
}

/// Whether a difference of plans, or a move that a plan called off, could be behind an error.
pub(crate) fn concerns_plans(error: &StoreError) -> bool {
    matches!(
        error.kind(),
        StoreErrorKind::StalePlan { .. }
            | StoreErrorKind::ShardBehind { .. }
            | StoreErrorKind::Unavailable { .. }
            | StoreErrorKind::Sealed
    )
}

impl Core {
    /// Whether an operation under `routing` may meet a shard that is under another plan.
    #[inline]
    pub(crate) fn may_restart(&self, routing: &Routing) -> bool {
        self.offers.ledgers && routing.epoch().is_some()
    }

    /// Removes what made an operation under plan `seen` fail, if that was a difference of plans: then it may
    /// start again. Otherwise the error stands.
    pub(crate) async fn converge(
        &self,
        restarts: &mut Restarts,
        seen: Option<PlanEpoch>,
        error: StoreError,
    ) -> Result<(), StoreError> {
        let (Some(seen), true) = (seen, self.offers.ledgers) else {
            return Err(error);
        };
        let Some(shard) = error.shard().map(ShardId) else {
            return Err(error);
        };
        let remedy = match error.kind() {
            StoreErrorKind::StalePlan { .. } => {
                self.counters.stale_plans.count();
                Remedy::Follow
            }
            StoreErrorKind::ShardBehind { .. } => Remedy::Raise,
            StoreErrorKind::Unavailable { outcome_known, .. } => Remedy::AskOthers {
                may_repeat: *outcome_known || only_reads(error.operation()),
            },
            StoreErrorKind::Sealed => {
                return self.unseal_settled(restarts, seen, error).await;
            }
            _ => return Err(error),
        };
        if restarts.0 >= MOST {
            return Err(error);
        }
        restarts.0 += 1;
        let span = tracing::debug_span!(
            "loom.converge",
            shard = shard.get(),
            epoch = seen.epoch,
            remedy = remedy.name()
        );
        match self.apply(remedy, seen, shard).instrument(span).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(error),
            Err(cause) => Err(not_converged(error, cause)),
        }
    }

    /// Unseals what a settled bucket holds sealed: the move that sealed it was called off.
    async fn unseal_settled(
        &self,
        restarts: &mut Restarts,
        seen: PlanEpoch,
        error: StoreError,
    ) -> Result<(), StoreError> {
        if restarts.0 >= MOST {
            return Err(error);
        }
        restarts.0 += 1;
        let routing = self.current.load_full();
        if routing.epoch() != Some(seen) {
            return Ok(());
        }
        let Some(id) = error.execution() else {
            return Err(error);
        };
        match routing.route(id.route_hash()) {
            Route::Settled(side) if self.offers.relocation && self.rules.keep(Rule::Unseal) => {
                self.counters.sealed_waits.count();
                match side.unseal(id).await {
                    // A newer plan, or retired meanwhile: starting again finds out.
                    Err(cause)
                        if !matches!(
                            cause.kind(),
                            StoreErrorKind::NotFound
                                | StoreErrorKind::StalePlan { .. }
                                | StoreErrorKind::ShardBehind { .. }
                        ) =>
                    {
                        Err(error.with_source(cause))
                    }
                    _ => Ok(()),
                }
            }
            _ => Err(error),
        }
    }

    /// Says whether the operation may start again.
    async fn apply(
        &self,
        remedy: Remedy,
        seen: PlanEpoch,
        shard: ShardId,
    ) -> Result<bool, PlanChangeError> {
        let shard = match remedy {
            Remedy::Follow | Remedy::Raise => shard,
            Remedy::AskOthers { .. } => match self.ahead_of(seen, shard).await {
                Some(ahead) => ahead,
                None => return Ok(false),
            },
        };
        let may_repeat = !matches!(remedy, Remedy::AskOthers { may_repeat: false });
        let mut planner = self.planner.lock().await;
        if self.current.load().epoch() != Some(seen) {
            // Another operation was faster.
            return Ok(may_repeat);
        }
        let Some(shard) = planner.known.get(&shard).cloned() else {
            return Ok(false);
        };
        match remedy {
            Remedy::Raise if self.rules.keep(Rule::RaiseBehind) => {
                self.raise(&planner, seen, &shard).await
            }
            Remedy::Raise => Ok(false),
            Remedy::Follow | Remedy::AskOthers { .. } => {
                Ok(self.follow(&mut planner, seen, &shard).await? && may_repeat)
            }
        }
    }

    /// A shard, other than the one that does not answer, that is under a newer plan than `seen`: the silent
    /// one may have left the plan. Takes no lock, since it may be asked for by many operations at once.
    async fn ahead_of(&self, seen: PlanEpoch, silent: ShardId) -> Option<ShardId> {
        let routing = self.current.load_full();
        if routing.epoch() != Some(seen) {
            return Some(silent);
        }
        let others = routing.sides().filter(|side| side.id() != silent);
        for other in others.map(|side| side.shard().clone()) {
            // One that is silent too says nothing about the plan.
            if let Ok(Some(epoch)) = other.epoch().await
                && epoch.epoch > seen.epoch
            {
                return Some(other.id);
            }
        }
        None
    }

    /// Follows the newest plan that a shard has, and says whether there was a newer one.
    pub(crate) async fn follow_newest(&self) -> Result<bool, StoreError> {
        let mut planner = self.planner.lock().await;
        let before = self.current.load().epoch();
        match self.catch_up(&mut planner).await {
            Ok(()) => Ok(self.current.load().epoch() != before),
            Err(PlanChangeError::Store(error)) => Err(error),
            Err(cause) => {
                let reason = "a newer plan was published and cannot be followed".to_owned();
                let kind = StoreErrorKind::Unavailable {
                    reason,
                    outcome_known: true,
                };
                Err(StoreError::new(Operation::CurrentPlan, kind).with_source(cause))
            }
        }
    }

    /// Adopts the newer plan of a shard. Says no when it has none.
    pub(crate) async fn follow(
        &self,
        planner: &mut Planner,
        seen: PlanEpoch,
        shard: &Shard,
    ) -> Result<bool, PlanChangeError> {
        match shard.plan().await? {
            Some(plan) if plan.epoch() > seen.epoch => {
                let next = plan.epoch() == seen.epoch + 1;
                if !next && !self.rules.keep(Rule::FollowAnyNewer) {
                    return Ok(false);
                }
                self.install(planner, plan).await?;
                self.counters.newer_plans.count();
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Brings a shard that is one epoch behind, or that joins, up to the present plan.
    async fn raise(
        &self,
        planner: &Planner,
        seen: PlanEpoch,
        shard: &Shard,
    ) -> Result<bool, PlanChangeError> {
        let routing = self.current.load_full();
        let Some(plan) = routing.plan() else {
            return Ok(false);
        };
        let current = shard.epoch().await?;
        match current {
            // Somebody has raised it; if it is ahead by now, the next attempt will find out.
            Some(current) if current.epoch >= seen.epoch => return Ok(true),
            Some(current) if current.epoch + 1 < seen.epoch => {
                let shard = shard.id;
                let current = Some(current);
                return Err(PlanChangeError::FarBehind {
                    shard,
                    current,
                    expected: seen,
                });
            }
            _ => planner.verify(shard).await?,
        }
        if shard.publish(&publishable(plan), current).await? == Attempt::Taken {
            self.counters.shards_raised.count();
        }
        Ok(true)
    }

    /// Makes `plan` the one that operations run under. Operations of the old one run on where shards check
    /// epochs, since those refuse them; elsewhere this waits until they are over.
    pub(crate) async fn install(
        &self,
        planner: &mut Planner,
        plan: Arc<ShardPlan>,
    ) -> Result<(), OpenError> {
        planner.connect_missing(&plan, Unused::Refused).await?;
        let now = self.current.load_full();
        let epoch = plan.epoch();
        let next = Arc::new(Routing::planned(plan, &planner.known, Some(&now))?);
        if self.offers.ledgers {
            self.gate.replace(&next);
        } else {
            self.gate.exchange(&now, &next).await;
        }
        self.current.store(next);
        tracing::event!(name: "loom.plan_adopted", tracing::Level::INFO, epoch);
        Ok(())
    }
}

/// What an operation met, and why it could not be helped. Which plan a shard is under is no concern of callers: to
/// them, a shard that does not answer is not available, and nothing was done.
fn not_converged(error: StoreError, cause: PlanChangeError) -> StoreError {
    let unreachable = match &cause {
        PlanChangeError::Store(cause) | PlanChangeError::Shards(OpenError::Store(cause)) => {
            matches!(cause.kind(), StoreErrorKind::Unavailable { .. })
        }
        PlanChangeError::Shards(OpenError::Connect { .. }) => true,
        _ => false,
    };
    if !unreachable || matches!(error.kind(), StoreErrorKind::Unavailable { .. }) {
        return error.with_source(cause);
    }
    let kind = StoreErrorKind::Unavailable {
        reason: "it and this node are under different plans, and the newer one could not be fetched or passed on"
            .to_owned(),
        outcome_known: true,
    };
    let outer = StoreError::new(error.operation(), kind);
    let outer = match error.execution() {
        Some(id) => outer.with_execution(id),
        None => outer,
    };
    let outer = match error.shard() {
        Some(shard) => outer.with_shard(shard),
        None => outer,
    };
    outer.with_source(cause)
}

#[derive(Clone, Copy, Debug)]
enum Remedy {
    /// The shard has a newer plan.
    Follow,
    /// The shard has an older plan.
    Raise,
    /// The shard does not answer.
    AskOthers { may_repeat: bool },
}

impl Remedy {
    fn name(self) -> &'static str {
        match self {
            Self::Follow => "follow",
            Self::Raise => "raise",
            Self::AskOthers { .. } => "ask others",
        }
    }
}
