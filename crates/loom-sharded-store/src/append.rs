//! Appending and creating.

use loom_spi::{Append, Appended, ExecutionId, Operation, RecordState, StoreError, StoreErrorKind};

use crate::core::{Core, restarting};
use crate::resolve::Resolution;
use crate::routing::{Route, Sides};

impl Core {
    pub(crate) async fn append(&self, request: Append) -> Result<Appended, StoreError> {
        self.offers.check(&request).map_err(refused(&request.id))?;
        let hash = request.id.route_hash();
        restarting!(self, |routing| match routing.route(hash) {
            Route::Settled(side) if !self.may_restart(&routing) => {
                return side.append(request).await;
            }
            Route::Settled(side) => side.append(request.clone()).await,
            Route::Migrating(sides) =>
                Box::pin(self.append_migrating(sides, request.clone())).await,
        })
    }

    async fn append_migrating(
        &self,
        sides: Sides<'_>,
        request: Append,
    ) -> Result<Appended, StoreError> {
        let _no_move = self.moves.shared(&request.id).await;
        if request.expected == 0 {
            return self.create(sides, request).await;
        }
        self.ask(Operation::Append, &request.id, sides, doubtful, |side| {
            side.append(request.clone())
        })
        .await
    }

    /// Creates on the destination, never on the source: not even through the cache, which may be out of
    /// date.
    async fn create(&self, sides: Sides<'_>, request: Append) -> Result<Appended, StoreError> {
        let id = &request.id;
        let resolution = self.resolve(Operation::Append, id, sides).await?;
        let on_source = match resolution {
            Resolution::Destination(side, _) => return side.append(request).await,
            Resolution::Source(_, head) => Some(head),
            Resolution::Nowhere(_) => None,
        };
        let sealed = on_source.is_some_and(|head| head.sealed);
        // A fence that was taken on the source before the execution exists holds on the destination too.
        let fence = if sealed {
            None
        } else {
            self.fence_on(Operation::Append, sides.source, id).await?
        };
        // The source decides as if it were asked, but is not: it could have lost the log meanwhile, and
        // would then create it.
        let mut judged = request;
        judged.epoch = None;
        RecordState::new()
            .with_head(on_source)
            .with_fence(fence)
            .with_sealed(sealed)
            .admit_append(&judged, &self.offers.limits)
            .map_err(|kind| sides.source.blame()(refused(&judged.id)(kind)))?;
        let id = judged.id.clone();
        let created = sides.destination.append(judged).await?;
        self.cache.insert(&id, sides, sides.destination);
        Ok(created)
    }
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
