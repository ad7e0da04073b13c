//! Appending and creating, where records can be sealed.

use loom_spi::{Append, Appended, LogHead, Operation, RecordState, StoreError, StoreErrorKind};

use super::change::{Changeable, ROUNDS, unsettled};
use crate::core::Core;
use crate::resolve::on_the_way;
use crate::routing::Sides;
use crate::rules::Rule;
use crate::shard::Side;

const APPEND: Operation = Operation::Append;

impl Core {
    pub(crate) async fn append_relocating(
        &self,
        sides: Sides<'_>,
        request: Append,
    ) -> Result<Appended, StoreError> {
        let id = &request.id;
        let creates = request.expected == 0 && self.rules.keep(Rule::CreateOnDestination);
        if !creates && let Some(side) = self.cache.get(id, sides) {
            let answer = side.append(request.clone()).await;
            if !self.rules.keep(Rule::CacheIsHint) || !doubtful(&answer) {
                self.counters.cache_hits.count();
                return answer;
            }
            self.cache.remove(id);
        }
        for _ in 0..ROUNDS {
            let side = match self.changeable(APPEND, id, sides).await? {
                Changeable::Log(side, head) if creates && side.id() == sides.source.id() => {
                    match self.refuse_creation(side, &request, head).await? {
                        Some(refusal) => return Err(refusal),
                        None => continue,
                    }
                }
                Changeable::Log(side, _) => side,
                Changeable::NoLog => {
                    self.bring_record(APPEND, id, sides).await?;
                    sides.destination
                }
            };
            let answer = side.append(request.clone()).await;
            match answer.as_ref().map_err(StoreError::kind) {
                Ok(_) => {
                    self.cache.insert(id, sides, side);
                    return answer;
                }
                // A move has begun, or one that was called off left this.
                Err(StoreErrorKind::Sealed) if side.id() == sides.destination.id() => {
                    self.cache.remove(id);
                    self.unblock(APPEND, id, sides).await?;
                }
                Err(StoreErrorKind::Sealed) => self.cache.remove(id),
                // It has left the source; the destination knows better.
                Err(StoreErrorKind::SequenceConflict { actual: 0, .. })
                    if side.id() == sides.source.id() =>
                {
                    self.cache.remove(id);
                }
                Err(_) => return answer,
            }
        }
        Err(unsettled(APPEND, sides, id))
    }

    /// Refuses to create what is on the source, as the source would; nothing when it is not there any more. The
    /// source is not asked to append: it could have lost the log meanwhile, and would create it.
    async fn refuse_creation(
        &self,
        source: Side<'_>,
        request: &Append,
        head: LogHead,
    ) -> Result<Option<StoreError>, StoreError> {
        let id = &request.id;
        let record = source.inspect(id).await;
        let record = record.map_err(|error| on_the_way(APPEND, id, error))?;
        let Some(record) = record.filter(|record| record.head.is_some() && !record.sealed) else {
            return Ok(None);
        };
        let state = RecordState::new()
            .with_head(record.head.or(Some(head)))
            .with_fence(record.fence);
        let request = request.clone().with_epoch(None);
        let refusal = state.admit_append(&request, &self.offers.limits).err();
        Ok(refusal.map(|kind| source.blame()(StoreError::new(APPEND, kind).with_execution(id))))
    }
}

/// Whether a move could be the reason for the answer of a cached side.
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
