//! Appending and creating.

use loom_spi::{
    Append, Appended, ExecutionId, LogHead, Operation, RecordState, StoreError, StoreErrorKind,
};

use crate::core::{Core, restarting};
use crate::resolve::{Resolution, on_the_way};
use crate::routing::{Route, Sides};

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
        let no_move = self.moves.shared(&request.id).await;
        if request.expected > 0 {
            return self.append_to_existing(sides, &request).await;
        }
        if let Some(created) = self.create(sides, &request).await? {
            return Ok(created);
        }
        drop(no_move);
        let _alone = self.moves.alone(&request.id).await;
        self.move_lineage(sides, &request.id)
            .await
            .map_err(|error| on_the_way(Operation::Append, &request.id, error))?;
        match self.create(sides, &request).await? {
            Some(created) => Ok(created),
            // Another process records branches without pause; the next attempt moves them.
            None => Err(unsettled_lineage(sides, &request.id)),
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

    /// Creates on the destination, never on the source: not even through the cache, which may be out of
    /// date. `None` when the source holds lineage of the execution, which has to move first: a record is on
    /// one side.
    async fn create(
        &self,
        sides: Sides<'_>,
        request: &Append,
    ) -> Result<Option<Appended>, StoreError> {
        let id = &request.id;
        let on_source = match self.resolve(Operation::Append, id, sides).await? {
            Resolution::Destination(side, _) => {
                return side.append(request.clone()).await.map(Some);
            }
            Resolution::Source(_, head) => Some(head),
            Resolution::Nowhere(_) => None,
        };
        self.admit_by_source(sides, request, on_source).await?;
        let lineage = self.has_lineage(sides.source, id).await;
        if lineage.map_err(|error| on_the_way(Operation::Append, id, error))? {
            return Ok(None);
        }
        let created = sides.destination.append(request.clone()).await?;
        self.cache.insert(id, sides, sides.destination);
        Ok(Some(created))
    }

    /// Decides about an append as the source would, without asking it: it could have lost the log meanwhile,
    /// and would then create it. A fence that was taken there before the execution exists holds on the
    /// destination too.
    async fn admit_by_source(
        &self,
        sides: Sides<'_>,
        request: &Append,
        head: Option<LogHead>,
    ) -> Result<(), StoreError> {
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
            .map_err(|kind| sides.source.blame()(refused(id)(kind)))
    }
}

fn unsettled_lineage(sides: Sides<'_>, id: &ExecutionId) -> StoreError {
    let reason = format!(
        "branches of it are being recorded on shard {} while it is created: try again",
        sides.source.id()
    );
    let outcome_known = true;
    let kind = StoreErrorKind::Unavailable {
        reason,
        outcome_known,
    };
    sides.source.blame()(refused(id)(kind))
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
