//! Lineage, where records can be sealed.

use loom_spi::{
    Forget, Operation, RecordLineage, RecordSummary, Require, StoreError, StoreErrorKind,
};

use super::change::{Changeable, ROUNDS, unsettled};
use crate::core::Core;
use crate::resolve::on_the_way;
use crate::routing::Sides;
use crate::rules::Rule;

const RECORD: Operation = Operation::RecordLineage;
const FORGET: Operation = Operation::Forget;

impl Core {
    /// Where the parent's record is, and only if it is still there; without one, on the destination.
    pub(crate) async fn record_relocating(
        &self,
        sides: Sides<'_>,
        request: &RecordLineage,
    ) -> Result<(), StoreError> {
        let parent = &request.parent;
        for _ in 0..ROUNDS {
            let (side, logged) = match self.changeable(RECORD, parent, sides).await? {
                Changeable::Log(side, _) => (side, true),
                Changeable::NoLog => {
                    self.bring_record(RECORD, parent, sides).await?;
                    (sides.destination, false)
                }
            };
            let mut attempt = request.clone();
            if logged && self.rules.keep(Rule::RequireRecord) {
                attempt.require = Require::Exists;
            }
            let answer = side.record_lineage(attempt).await;
            match answer.as_ref().map_err(StoreError::kind) {
                Err(StoreErrorKind::Sealed) => self.unblock(RECORD, parent, sides).await?,
                Err(StoreErrorKind::NotFound) if logged => {}
                _ => return answer,
            }
        }
        Err(unsettled(RECORD, sides, parent))
    }

    /// Removes the edges, and before them what a move has left of them on the other side.
    pub(crate) async fn forget_relocating(
        &self,
        sides: Sides<'_>,
        request: &Forget,
    ) -> Result<u64, StoreError> {
        let parent = &request.parent;
        for _ in 0..ROUNDS {
            let on_source = sides.source.inspect(parent).await;
            let on_source = on_source.map_err(|error| on_the_way(FORGET, parent, error))?;
            let source_counts = match on_source {
                Some(RecordSummary { sealed: true, .. }) => {
                    self.complete_move(FORGET, sides, parent).await?;
                    continue;
                }
                Some(_) => true,
                None => false,
            };
            self.clear_other(FORGET, parent, sides, source_counts)
                .await?;
            let side = if source_counts {
                sides.source
            } else {
                sides.destination
            };
            let marking = !source_counts && self.rules.keep(Rule::ForgetMarks);
            let answer = side.forget(request.clone().with_mark(marking)).await;
            match answer.as_ref().map_err(StoreError::kind) {
                Err(StoreErrorKind::Sealed) => self.unblock(FORGET, parent, sides).await?,
                // Nothing to forget where there was a record a moment ago: it may have moved.
                Ok(0) if source_counts => {
                    let left = sides.source.inspect(parent).await;
                    if left
                        .map_err(|error| on_the_way(FORGET, parent, error))?
                        .is_some()
                    {
                        return answer;
                    }
                }
                _ => return answer,
            }
        }
        Err(unsettled(FORGET, sides, parent))
    }
}
