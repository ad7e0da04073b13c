//! Deleting, where records can be sealed.

use loom_spi::{Delete, Deleted, ExecutionId, Operation, StoreError, StoreErrorKind};

use super::change::{Changeable, ROUNDS, unsettled};
use crate::core::Core;
use crate::resolve::on_the_way;
use crate::routing::Sides;
use crate::rules::Rule;

const DELETE: Operation = Operation::Delete;

impl Core {
    /// Removes the copy that counts, and before it what a move has left on the other side: if that stayed, the
    /// execution would be back. The mark keeps a slow mover from bringing it back.
    pub(crate) async fn delete_relocating(
        &self,
        sides: Sides<'_>,
        request: &Delete,
    ) -> Result<Deleted, StoreError> {
        let id = &request.id;
        self.cache.remove(id);
        for _ in 0..ROUNDS {
            let side = match self.changeable(DELETE, id, sides).await? {
                Changeable::Log(side, _) => side,
                Changeable::NoLog => sides.destination,
            };
            self.clear_other(DELETE, id, sides, side.id() == sides.source.id())
                .await?;
            let marking = self.rules.keep(Rule::DeleteMarks);
            let answer = side.delete(request.clone().with_mark(marking)).await;
            match answer.as_ref().map_err(StoreError::kind) {
                Err(StoreErrorKind::Sealed) if side.id() == sides.destination.id() => {
                    self.unblock(DELETE, id, sides).await?;
                }
                Err(StoreErrorKind::Sealed) => {}
                // It has left the source.
                Err(StoreErrorKind::NotFound) if side.id() == sides.source.id() => {}
                _ => {
                    self.cache.remove(id);
                    return answer;
                }
            }
        }
        Err(unsettled(DELETE, sides, id))
    }

    /// Removes what a move has left on the side that does not count, if there is anything.
    pub(super) async fn clear_other(
        &self,
        operation: Operation,
        id: &ExecutionId,
        sides: Sides<'_>,
        source_counts: bool,
    ) -> Result<(), StoreError> {
        if !self.rules.keep(Rule::DeleteLeftover) {
            return Ok(());
        }
        let other = if source_counts {
            sides.destination
        } else {
            sides.source
        };
        let left = other.inspect(id).await;
        let left = left.map_err(|error| on_the_way(operation, id, error))?;
        match left {
            None => Ok(()),
            // Sealed here, whole there: finishing the move removes it, after a comparison. Not sealed: it belongs
            // to the other copy, or contradicts it, which finishing the move says.
            Some(_) if !source_counts => self.complete_move(operation, sides, id).await.map(drop),
            Some(record) if record.sealed => match other.retire(id).await {
                Err(error) if matches!(error.kind(), StoreErrorKind::NotSealed) => Ok(()),
                answer => answer.map_err(|error| on_the_way(operation, id, error)),
            },
            Some(_) => Ok(()),
        }
    }
}
