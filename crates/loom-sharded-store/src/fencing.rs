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
        let id = &request.id;
        let _no_move = self.moves.shared(id).await;
        let present = || request.clone().with_require(Require::Exists);
        let mut moved = None;
        for _ in 0..ATTEMPTS {
            let answer = match self.resolve(Operation::AcquireFence, id, sides).await? {
                Resolution::Source(source, _) => source.acquire(present()).await,
                Resolution::Destination(..) => self.acquire_on_destination(sides, present()).await,
                Resolution::Nowhere(_) => return self.acquire_ahead(sides, request).await,
            };
            match answer {
                Err(error) if is_not_found(&error) => moved = Some(error),
                answer => return answer,
            }
        }
        match moved {
            Some(error) => Err(error),
            None => self.acquire_ahead(sides, request).await,
        }
    }

    /// A fence that comes before the execution: on the side that has a fence or lineage of it already, and
    /// otherwise where it will be created.
    async fn acquire_ahead(
        &self,
        sides: Sides<'_>,
        request: &AcquireFence,
    ) -> Result<FenceToken, StoreError> {
        let present = || request.clone().with_require(Require::Exists);
        match self.acquire_on_destination(sides, present()).await {
            Err(error) if is_not_found(&error) => {}
            answer => return answer,
        }
        match sides.source.acquire(present()).await {
            Err(error) if is_not_found(&error) => {}
            answer => return answer,
        }
        self.acquire_on_destination(sides, request.clone()).await
    }

    /// Above every token that the source has handed out.
    async fn acquire_on_destination(
        &self,
        sides: Sides<'_>,
        mut request: AcquireFence,
    ) -> Result<FenceToken, StoreError> {
        let id = &request.id;
        let seen = self
            .fence_on(Operation::AcquireFence, sides.source, id)
            .await?;
        let floor = seen.map(|seen| FenceToken(seen.0.saturating_add(1)));
        request.floor = request.floor.max(floor);
        sides.destination.acquire(request).await
    }

    /// A lease stays on the shard that gave it, also when the execution starts on the other one.
    async fn renew_migrating(
        &self,
        sides: Sides<'_>,
        request: &RenewLease,
    ) -> Result<(), StoreError> {
        let _no_move = self.moves.shared(&request.id).await;
        let side = self
            .resolve(Operation::RenewLease, &request.id, sides)
            .await?
            .side();
        let answer = side.renew(request.clone()).await;
        if answer.as_ref().is_err_and(may_be_elsewhere) {
            let other = sides.other(side).renew(request.clone()).await;
            return if other.is_ok() { other } else { answer };
        }
        answer
    }

    async fn release_migrating(
        &self,
        sides: Sides<'_>,
        request: &ReleaseLease,
    ) -> Result<(), StoreError> {
        let _no_move = self.moves.shared(&request.id).await;
        let side = self
            .resolve(Operation::ReleaseLease, &request.id, sides)
            .await?
            .side();
        let answer = side.release(request.clone()).await;
        let other = sides.other(side).release(request.clone()).await;
        match answer {
            // The lease, if there is one, is on whichever side knows the token.
            Err(error) if may_be_elsewhere(&error) && other.is_ok() => Ok(()),
            answer => answer,
        }
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

/// Whether the other side may know the lease.
fn may_be_elsewhere(error: &StoreError) -> bool {
    matches!(
        error.kind(),
        StoreErrorKind::NotFound | StoreErrorKind::InvalidArgument { .. }
    )
}

impl Side<'_> {
    async fn acquire(self, mut request: AcquireFence) -> Result<FenceToken, StoreError> {
        self.stamp(&mut request.epoch);
        let fencing = self.fencing(Operation::AcquireFence)?;
        fencing.acquire_fence(request).await.map_err(self.blame())
    }

    async fn renew(self, mut request: RenewLease) -> Result<(), StoreError> {
        self.stamp(&mut request.epoch);
        let fencing = self.fencing(Operation::RenewLease)?;
        fencing.renew_lease(request).await.map_err(self.blame())
    }

    async fn release(self, mut request: ReleaseLease) -> Result<(), StoreError> {
        self.stamp(&mut request.epoch);
        let fencing = self.fencing(Operation::ReleaseLease)?;
        fencing.release_lease(request).await.map_err(self.blame())
    }
}
