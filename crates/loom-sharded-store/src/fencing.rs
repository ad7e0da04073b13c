//! Fences and leases.

use async_trait::async_trait;
use loom_spi::{
    AcquireFence, ExecutionId, FenceToken, Fencing, Operation, ReleaseLease, RenewLease, Require,
    StoreError, StoreErrorKind,
};

use crate::core::{Core, restarting};
use crate::delete::is_not_found;
use crate::resolve::{Resolution, on_the_way};
use crate::routing::{Route, Sides};
use crate::shard::Side;

/// How often an acquisition looks again because the execution moved under it.
const ATTEMPTS: usize = 4;

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Fencing for Core {
    async fn acquire_fence(&self, request: AcquireFence) -> Result<FenceToken, StoreError> {
        let hash = request.id.route_hash();
        restarting!(self, |routing| match routing.route(hash) {
            Route::Settled(side) => side.acquire(request.clone()).await,
            Route::Migrating(sides) => Box::pin(self.acquire_migrating(sides, &request)).await,
        })
    }

    async fn renew_lease(&self, request: RenewLease) -> Result<(), StoreError> {
        let hash = request.id.route_hash();
        restarting!(self, |routing| match routing.route(hash) {
            Route::Settled(side) => side.renew(request.clone()).await,
            Route::Migrating(sides) => Box::pin(self.renew_migrating(sides, &request)).await,
        })
    }

    async fn release_lease(&self, request: ReleaseLease) -> Result<(), StoreError> {
        let hash = request.id.route_hash();
        restarting!(self, |routing| match routing.route(hash) {
            Route::Settled(side) => side.release(request.clone()).await,
            Route::Migrating(sides) => Box::pin(self.release_migrating(sides, &request)).await,
        })
    }
}

impl Core {
    /// Where the record is, and only if it is still there: a fence that was taken on a side that the
    /// execution has left would hold nobody out.
    async fn acquire_migrating(
        &self,
        sides: Sides<'_>,
        request: &AcquireFence,
    ) -> Result<FenceToken, StoreError> {
        if self.offers.relocation {
            return self.acquire_relocating(sides, request).await;
        }
        let id = &request.id;
        let _alone = self.moves.alone(id).await;
        let present = request.clone().with_require(Require::Exists);
        for _ in 0..ATTEMPTS {
            let side = match self.resolve(Operation::AcquireFence, id, sides).await? {
                Resolution::Destination(side, _) | Resolution::Source(side, _) => side,
                Resolution::Nowhere(_) => break,
            };
            match self.acquire_above(sides, side, present.clone()).await {
                Err(error) if is_not_found(&error) => {}
                answer => return answer,
            }
        }
        // It comes before the execution: on the side that has a fence or lineage of it already, and otherwise
        // where it will be created.
        let [first, second] = self
            .fenced_first(Operation::AcquireFence, sides, id)
            .await?;
        for side in [first, second] {
            let answer = self.acquire_above(sides, side, present.clone()).await;
            if answer.is_ok() && side.id() == sides.source.id() {
                // Whoever has created it on the destination since knows nothing of this token.
                let created = self
                    .look(Operation::AcquireFence, id, sides.destination)
                    .await?;
                if created.is_some() {
                    return self.acquire_above(sides, sides.destination, present).await;
                }
            }
            match answer {
                Err(error) if is_not_found(&error) => {}
                answer => return answer,
            }
        }
        self.acquire_above(sides, sides.destination, request.clone())
            .await
    }

    /// Makes the highest token of a side at least `floor`, which somebody else holds.
    pub(crate) async fn acquire_at_least(
        &self,
        side: Side<'_>,
        id: &ExecutionId,
        floor: Option<FenceToken>,
    ) -> Result<(), StoreError> {
        let request = AcquireFence::new(id.clone())
            .with_floor(floor)
            .with_take_over(true);
        side.acquire(request).await.map(drop)
    }

    /// Acquires on one side, above every token that the other has handed out.
    async fn acquire_above(
        &self,
        sides: Sides<'_>,
        side: Side<'_>,
        mut request: AcquireFence,
    ) -> Result<FenceToken, StoreError> {
        let other = sides.other(side);
        let seen = self
            .fence_on(Operation::AcquireFence, other, &request.id)
            .await?;
        let floor = seen.map(|seen| FenceToken(seen.0.saturating_add(1)));
        request.floor = request.floor.max(floor);
        side.acquire(request).await
    }

    /// A lease is on the shard that gave it, also when the execution has started on the other one since: that
    /// one has seen the token, but knows nothing of its holder.
    async fn renew_migrating(
        &self,
        sides: Sides<'_>,
        request: &RenewLease,
    ) -> Result<(), StoreError> {
        if self.offers.relocation {
            return self.renew_relocating(sides, request).await;
        }
        let id = &request.id;
        let _no_move = self.moves.shared(id).await;
        let [first, second] = self.fenced_first(Operation::RenewLease, sides, id).await?;
        let answer = first.renew(request.clone()).await;
        match answer.as_ref().map_err(StoreError::kind) {
            Err(StoreErrorKind::InvalidArgument { .. })
                if second.renew(request.clone()).await.is_ok() =>
            {
                Ok(())
            }
            _ => answer,
        }
    }

    async fn release_migrating(
        &self,
        sides: Sides<'_>,
        request: &ReleaseLease,
    ) -> Result<(), StoreError> {
        if self.offers.relocation {
            return self.release_relocating(sides, request).await;
        }
        let id = &request.id;
        let _no_move = self.moves.shared(id).await;
        let [first, second] = self
            .fenced_first(Operation::ReleaseLease, sides, id)
            .await?;
        first.release(request.clone()).await?;
        match second.release(request.clone()).await {
            // Of an earlier token, or none: that is over anyway.
            Err(error)
                if matches!(
                    error.kind(),
                    StoreErrorKind::NotFound | StoreErrorKind::Fenced { .. }
                ) =>
            {
                Ok(())
            }
            answer => answer,
        }
    }

    /// Both sides, the one with the higher token first; the destination where there is nothing to choose.
    async fn fenced_first<'a>(
        &self,
        operation: Operation,
        sides: Sides<'a>,
        id: &ExecutionId,
    ) -> Result<[Side<'a>; 2], StoreError> {
        let Sides {
            source,
            destination,
            ..
        } = sides;
        let on_source = self.fence_on(operation, source, id).await?;
        let on_destination = self.fence_on(operation, destination, id).await?;
        Ok(if on_source > on_destination {
            [source, destination]
        } else {
            [destination, source]
        })
    }

    /// The highest token that a shard has seen for an execution, if it was ever fenced there.
    ///
    /// Nothing hands a token out that low, so the release does nothing but tell.
    pub(crate) async fn fence_on(
        &self,
        operation: Operation,
        side: Side<'_>,
        id: &ExecutionId,
    ) -> Result<Option<FenceToken>, StoreError> {
        if !self.offers.fencing {
            return Ok(None);
        }
        let probe = FenceToken(0);
        match side.release(ReleaseLease::new(id.clone(), probe)).await {
            Ok(()) => Ok(Some(probe)),
            Err(error) => match error.kind() {
                StoreErrorKind::NotFound => Ok(None),
                StoreErrorKind::Fenced { current, .. } => Ok(Some(*current)),
                _ => Err(on_the_way(operation, id, error)),
            },
        }
    }
}

impl Side<'_> {
    pub(crate) async fn acquire(self, mut request: AcquireFence) -> Result<FenceToken, StoreError> {
        self.stamp(&mut request.epoch);
        let fencing = self.fencing(Operation::AcquireFence)?;
        fencing.acquire_fence(request).await.map_err(self.blame())
    }

    pub(crate) async fn renew(self, mut request: RenewLease) -> Result<(), StoreError> {
        self.stamp(&mut request.epoch);
        let fencing = self.fencing(Operation::RenewLease)?;
        fencing.renew_lease(request).await.map_err(self.blame())
    }

    pub(crate) async fn release(self, mut request: ReleaseLease) -> Result<(), StoreError> {
        self.stamp(&mut request.epoch);
        let fencing = self.fencing(Operation::ReleaseLease)?;
        fencing.release_lease(request).await.map_err(self.blame())
    }
}
