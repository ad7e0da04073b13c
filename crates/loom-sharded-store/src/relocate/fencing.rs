//! Fences and leases, where records can be sealed.

use loom_spi::{
    AcquireFence, ExecutionId, FenceToken, Operation, ReleaseLease, RenewLease, Require,
    StoreError, StoreErrorKind,
};

use super::change::{Changeable, ROUNDS, unsettled};
use crate::core::Core;
use crate::resolve::on_the_way;
use crate::routing::Sides;
use crate::rules::Rule;
use crate::shard::Side;

const ACQUIRE: Operation = Operation::AcquireFence;

impl Core {
    /// On the side that has the log, and only if the record is still there: a fence on a side that it has left
    /// would hold nobody out. Without a log, on the side that has a record; without one, on the destination.
    pub(crate) async fn acquire_relocating(
        &self,
        sides: Sides<'_>,
        request: &AcquireFence,
    ) -> Result<FenceToken, StoreError> {
        let id = &request.id;
        let require = if self.rules.keep(Rule::RequireRecord) {
            Require::Exists
        } else {
            request.require
        };
        let present = request.clone().with_require(require);
        for _ in 0..ROUNDS {
            let sides_to_ask: &[Side<'_>] = match self.changeable(ACQUIRE, id, sides).await? {
                Changeable::Log(side, _) => &[side],
                Changeable::NoLog => &[sides.destination, sides.source],
            };
            let logged = sides_to_ask.len() == 1;
            let mut blocked = false;
            for side in sides_to_ask {
                let answer = side.acquire(present.clone()).await;
                match answer.as_ref().map_err(StoreError::kind) {
                    Err(StoreErrorKind::NotFound) => {}
                    Err(StoreErrorKind::Sealed) => {
                        self.unblock(ACQUIRE, id, sides).await?;
                        blocked = true;
                        break;
                    }
                    _ => return answer,
                }
            }
            if blocked || logged {
                // It has moved, or was deleted.
                continue;
            }
            let answer = sides.destination.acquire(request.clone()).await;
            match answer.as_ref().map_err(StoreError::kind) {
                Err(StoreErrorKind::Sealed) => self.unblock(ACQUIRE, id, sides).await?,
                _ => return answer,
            }
        }
        Err(unsettled(ACQUIRE, sides, id))
    }

    pub(crate) async fn renew_relocating(
        &self,
        sides: Sides<'_>,
        request: &RenewLease,
    ) -> Result<(), StoreError> {
        let operation = Operation::RenewLease;
        for _ in 0..ROUNDS {
            let side = self.fenced_side(operation, &request.id, sides).await?;
            let answer = side.renew(request.clone()).await;
            if !self
                .moved_away(operation, &request.id, sides, side, &answer)
                .await?
            {
                return answer;
            }
        }
        Err(unsettled(operation, sides, &request.id))
    }

    pub(crate) async fn release_relocating(
        &self,
        sides: Sides<'_>,
        request: &ReleaseLease,
    ) -> Result<(), StoreError> {
        let operation = Operation::ReleaseLease;
        for _ in 0..ROUNDS {
            let side = self.fenced_side(operation, &request.id, sides).await?;
            let answer = side.release(request.clone()).await;
            if !self
                .moved_away(operation, &request.id, sides, side, &answer)
                .await?
            {
                return answer;
            }
        }
        Err(unsettled(operation, sides, &request.id))
    }

    /// The side with the record; the destination when there is none.
    async fn fenced_side<'a>(
        &self,
        operation: Operation,
        id: &ExecutionId,
        sides: Sides<'a>,
    ) -> Result<Side<'a>, StoreError> {
        if let Changeable::Log(side, _) = self.changeable(operation, id, sides).await? {
            return Ok(side);
        }
        let on_source = sides.source.inspect(id).await;
        let on_source = on_source.map_err(|error| on_the_way(operation, id, error))?;
        Ok(match on_source {
            Some(record) if !record.sealed => sides.source,
            _ => sides.destination,
        })
    }

    /// Whether the record has moved under a change of its lease, which then starts again.
    async fn moved_away(
        &self,
        operation: Operation,
        id: &ExecutionId,
        sides: Sides<'_>,
        side: Side<'_>,
        answer: &Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        match answer.as_ref().map_err(StoreError::kind) {
            Err(StoreErrorKind::Sealed) => {
                self.unblock(operation, id, sides).await?;
                Ok(true)
            }
            Err(StoreErrorKind::NotFound) => Ok(side.id() == sides.source.id()),
            _ => Ok(false),
        }
    }
}
