//! Appending and creating.

use loom_spi::{
    Append, Appended, ExecutionId, FenceToken, LogHead, Operation, RecordState, StoreError,
    StoreErrorKind,
};

use crate::core::{Core, restarting};
use crate::resolve::{Resolution, on_the_way};
use crate::routing::{Route, Sides};
use crate::shard::Side;

impl Core {
    /// Refuses what some shard would accept and another would not.
    #[inline]
    pub(crate) fn check_limits(&self, request: &Append) -> Result<(), StoreError> {
        self.offers.check(request).map_err(refused(&request.id))
    }

    pub(crate) async fn append(&self, request: Append) -> Result<Appended, StoreError> {
        let hash = request.id.route_hash();
        restarting!(self, |routing| match routing.route(hash) {
            Route::Settled(side) => side.append(request.clone()).await,
            Route::Migrating(sides) => self.append_migrating(sides, request.clone()).await,
        })
    }

    async fn append_migrating(
        &self,
        sides: Sides<'_>,
        request: Append,
    ) -> Result<Appended, StoreError> {
        if self.offers.relocation {
            return Box::pin(self.append_relocating(sides, request)).await;
        }
        let no_move = self.moves.shared(&request.id).await;
        if request.expected > 0 {
            return self.append_to_existing(sides, &request).await;
        }
        match self.admit_creation(sides, &request).await? {
            Admission::There(side) => return side.append(request).await,
            Admission::Free {
                fence,
                lineage: false,
            } => {
                return self.create(sides, request, fence, false).await;
            }
            Admission::Free { lineage: true, .. } => {}
        }
        // Lineage that has to move first is moved while nobody in this process works on it.
        drop(no_move);
        let _alone = self.moves.alone(&request.id).await;
        match self.admit_creation(sides, &request).await? {
            Admission::There(side) => side.append(request).await,
            Admission::Free { fence, lineage } => self.create(sides, request, fence, lineage).await,
        }
    }

    async fn append_to_existing(
        &self,
        sides: Sides<'_>,
        request: &Append,
    ) -> Result<Appended, StoreError> {
        let answer = self
            .ask(Operation::Append, &request.id, sides, doubtful, |side| {
                side.append(request.clone())
            })
            .await;
        if let Err(StoreErrorKind::SequenceConflict { actual: 0, .. }) =
            answer.as_ref().map_err(StoreError::kind)
        {
            // There is no log, so that the fence to report first may be the one on the source.
            self.admit_by_source(sides, request, None).await?;
        }
        answer
    }

    /// Decides whether an execution may be created on the destination, or is there already.
    async fn admit_creation<'a>(
        &self,
        sides: Sides<'a>,
        request: &Append,
    ) -> Result<Admission<'a>, StoreError> {
        let id = &request.id;
        let on_source = match self.resolve(Operation::Append, id, sides).await? {
            Resolution::Destination(side, _) => return Ok(Admission::There(side)),
            Resolution::Source(_, head) => Some(head),
            Resolution::Nowhere(_) => None,
        };
        let fence = self.admit_by_source(sides, request, on_source).await?;
        let lineage = self.has_lineage(sides.source, id).await;
        let lineage = lineage.map_err(|error| on_the_way(Operation::Append, id, error))?;
        Ok(Admission::Free { fence, lineage })
    }

    /// Creates on the destination, never on the source: not even through the cache, which may be out of
    /// date. A record is on one side, so that what the source has of it comes along.
    async fn create(
        &self,
        sides: Sides<'_>,
        request: Append,
        fence: Option<FenceToken>,
        lineage: bool,
    ) -> Result<Appended, StoreError> {
        let id = request.id.clone();
        if lineage {
            let copied = self.copy_lineage(sides, &id).await;
            copied.map_err(|error| on_the_way(Operation::Append, &id, error))?;
        }
        let created = sides.destination.append(request).await?;
        self.cache.insert(&id, sides, sides.destination);
        if lineage || fence.is_some() {
            // There was a record on the source, so that somebody may have worked on it until now.
            let caught_up = self.catch_up_with_source(sides, &id, lineage).await;
            caught_up.map_err(|error| created_in_part(&id, error))?;
        }
        Ok(created)
    }

    /// Takes over what was added to the record on the source before the log was on the destination. Whoever
    /// adds something there looks for the log afterwards, and whoever creates the log looks there afterwards, so
    /// that one of the two notices. When both do, a token may be fenced out that was handed out a moment ago:
    /// its holder acquires again.
    async fn catch_up_with_source(
        &self,
        sides: Sides<'_>,
        id: &ExecutionId,
        lineage: bool,
    ) -> Result<(), StoreError> {
        if lineage {
            self.move_lineage(sides, id).await?;
        }
        let there = self.fence_on(Operation::Append, sides.source, id).await?;
        let here = self
            .fence_on(Operation::Append, sides.destination, id)
            .await?;
        if there > here {
            self.acquire_at_least(sides.destination, id, there).await?;
        }
        Ok(())
    }

    /// Decides about an append as the source would, without asking it: it could have lost the log meanwhile,
    /// and would then create it. A fence that was taken there before the execution exists holds on the
    /// destination too; returns it.
    async fn admit_by_source(
        &self,
        sides: Sides<'_>,
        request: &Append,
        head: Option<LogHead>,
    ) -> Result<Option<FenceToken>, StoreError> {
        let id = &request.id;
        let sealed = head.is_some_and(|head| head.sealed);
        let mut fence = None;
        if !sealed {
            fence = self.fence_on(Operation::Append, sides.source, id).await?;
        }
        if fence.is_some_and(|fence| request.fence < Some(fence)) {
            // It will be refused; the highest token is to be named.
            fence = fence.max(
                self.fence_on(Operation::Append, sides.destination, id)
                    .await?,
            );
        }
        let state = RecordState::new()
            .with_head(head)
            .with_fence(fence)
            .with_sealed(sealed);
        let request = request.clone().with_epoch(None);
        state
            .admit_append(&request, &self.offers.limits)
            .map_err(|kind| sides.source.blame()(refused(id)(kind)))?;
        Ok(fence)
    }
}

/// What is to become of a creation that nothing speaks against.
enum Admission<'a> {
    /// The execution is on the destination, which decides.
    There(Side<'a>),
    /// It is nowhere. What the source has of it: a fence, lineage.
    Free {
        fence: Option<FenceToken>,
        lineage: bool,
    },
}

/// The log is there, but what has to come along with it may not be.
fn created_in_part(id: &ExecutionId, error: StoreError) -> StoreError {
    let kind = StoreErrorKind::Unavailable {
        reason:
            "the fence and the lineage on the other side of its bucket could not be looked at again"
                .to_owned(),
        outcome_known: false,
    };
    let outer = refused(id)(kind);
    let outer = match error.shard() {
        Some(shard) => outer.with_shard(shard),
        None => outer,
    };
    outer.with_source(error)
}

/// Whether a move could be the reason for the answer.
fn doubtful(answer: &Result<Appended, StoreError>) -> bool {
    answer.as_ref().is_err_and(|error| {
        matches!(
            error.kind(),
            StoreErrorKind::SequenceConflict { .. }
                | StoreErrorKind::Sealed
                | StoreErrorKind::NotFound
        )
    })
}

fn refused(id: &ExecutionId) -> impl FnOnce(StoreErrorKind) -> StoreError + '_ {
    move |kind| StoreError::new(Operation::Append, kind).with_execution(id)
}
