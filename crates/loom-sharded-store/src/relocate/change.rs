//! Finding the side on which a record may be changed.

use loom_spi::{ExecutionId, LogHead, Operation, StoreError, StoreErrorKind};

use super::unseal;
use crate::core::Core;
use crate::resolve::Resolution;
use crate::routing::Sides;
use crate::rules::Rule;
use crate::shard::Side;

/// How often an operation looks again because the record moves under it. Within one plan a record moves once,
/// so that more than a few are a sign of something else.
pub(crate) const ROUNDS: usize = 32;

/// Where a log may be changed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Changeable<'a> {
    /// On this side, where it is not sealed.
    Log(Side<'a>, LogHead),
    /// There is no log on either side.
    NoLog,
}

impl Core {
    /// Finds the log; finishes a move that was begun, and unseals what a move that was called off has left
    /// sealed.
    pub(super) async fn changeable<'a>(
        &self,
        operation: Operation,
        id: &ExecutionId,
        sides: Sides<'a>,
    ) -> Result<Changeable<'a>, StoreError> {
        for _ in 0..ROUNDS {
            let resolution = self.resolve(operation, id, sides).await?;
            match resolution {
                Resolution::Nowhere(_) => return Ok(Changeable::NoLog),
                Resolution::Destination(side, head) | Resolution::Source(side, head)
                    if !head.sealed =>
                {
                    return Ok(Changeable::Log(side, head));
                }
                _ => self.counters.sealed_waits.count(),
            }
            match resolution {
                Resolution::Source(..) if self.rules.keep(Rule::FinishMove) => {
                    self.complete_move(operation, sides, id).await?;
                }
                Resolution::Source(side, _) => unseal(operation, side, id).await?,
                Resolution::Destination(side, _) if self.rules.keep(Rule::Unseal) => {
                    unseal(operation, side, id).await?;
                }
                Resolution::Destination(side, head) => return Ok(Changeable::Log(side, head)),
                Resolution::Nowhere(_) => return Ok(Changeable::NoLog),
            }
        }
        Err(unsettled(operation, sides, id))
    }

    /// Takes a record without a log to the destination, where the log is about to be created.
    pub(super) async fn bring_record(
        &self,
        operation: Operation,
        id: &ExecutionId,
        sides: Sides<'_>,
    ) -> Result<(), StoreError> {
        if self.rules.keep(Rule::BringRecord) {
            self.complete_move(operation, sides, id).await?;
        }
        Ok(())
    }

    /// What a sealed side in the way of a change without a log means: a move that was begun is finished, and
    /// what nobody moves is unsealed.
    pub(super) async fn unblock(
        &self,
        operation: Operation,
        id: &ExecutionId,
        sides: Sides<'_>,
    ) -> Result<(), StoreError> {
        self.counters.sealed_waits.count();
        let on_source = sides.source.inspect(id).await;
        let on_source =
            on_source.map_err(|error| crate::resolve::on_the_way(operation, id, error))?;
        match on_source {
            // Whether it is sealed or counts: what is sealed on the destination then is a leftover, which moving
            // removes.
            Some(_) => self.complete_move(operation, sides, id).await.map(drop),
            None => unseal(operation, sides.destination, id).await,
        }
    }
}

/// The record was changed under the operation again and again.
pub(crate) fn unsettled(operation: Operation, sides: Sides<'_>, id: &ExecutionId) -> StoreError {
    let reason = format!(
        "other processes move it between shard {} and shard {} all the time: try again",
        sides.source.id(),
        sides.destination.id()
    );
    let kind = StoreErrorKind::Unavailable {
        reason,
        outcome_known: true,
    };
    let error = StoreError::new(operation, kind).with_execution(id);
    sides.destination.blame()(error)
}
