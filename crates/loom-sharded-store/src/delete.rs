//! Deleting.

use loom_spi::{Delete, Deleted, ExecutionId, LogHead, Operation, StoreError, StoreErrorKind};

use crate::compare::{Relation, compare};
use crate::core::{Core, restarting};
use crate::routing::{Route, Sides};
use crate::shard::Side;

/// How often a delete starts again because a copy went away under it.
const ATTEMPTS: usize = 4;

impl Core {
    pub(crate) async fn delete(&self, request: Delete) -> Result<Deleted, StoreError> {
        let hash = request.id.route_hash();
        restarting!(self, |routing| match routing.route(hash) {
            Route::Settled(side) => side.delete(request.clone()).await,
            Route::Migrating(sides) => Box::pin(self.delete_migrating(sides, &request)).await,
        })
    }

    /// Removes both copies. What a move left behind goes first: if it stayed, the execution would be back
    /// as soon as the other copy is gone.
    async fn delete_migrating(
        &self,
        sides: Sides<'_>,
        request: &Delete,
    ) -> Result<Deleted, StoreError> {
        if self.offers.relocation {
            return self.delete_relocating(sides, request).await;
        }
        let id = &request.id;
        let _no_move = self.moves.alone(id).await;
        self.cache.remove(id);
        let Sides {
            source,
            destination,
            ..
        } = sides;
        for _ in 0..ATTEMPTS {
            let on_destination = self.look(Operation::Delete, id, destination).await?;
            let on_source = self.look(Operation::Delete, id, source).await?;
            match (on_destination, on_source) {
                (Some(_), None) => return destination.delete(request.clone()).await,
                // Another process may have moved it between the two looks, or does so now.
                (None, None) => return destination.delete(request.clone()).await,
                (None, Some(_)) => match source.delete(request.clone()).await {
                    Err(error) if is_not_found(&error) => {}
                    answer => return answer,
                },
                (Some(there), Some(here)) => {
                    let kept_on_source = self
                        .left_on_destination(Operation::Delete, id, sides, &here, &there)
                        .await?;
                    let [left, kept] = if kept_on_source {
                        [(destination, there), (source, here)]
                    } else {
                        [(source, here), (destination, there)]
                    };
                    let stays = request
                        .expected
                        .is_some_and(|next| next != kept.1.next_sequence);
                    // Where it stays, the copy that counts refuses before anything is removed.
                    if stays || self.remove_leftover(id, left, kept.0).await? {
                        return kept.0.delete(request.clone()).await;
                    }
                }
            }
        }
        Err(unsettled(sides, id))
    }

    /// Removes what a move left behind; says no when a copy went away or grew meanwhile.
    async fn remove_leftover(
        &self,
        id: &ExecutionId,
        (left, head): (Side<'_>, LogHead),
        kept: Side<'_>,
    ) -> Result<bool, StoreError> {
        match compare(Operation::Delete, id, left, kept).await? {
            Relation::Leftover => {}
            Relation::Gone => return Ok(false),
            Relation::Different(reason) => {
                self.counters.both_sides_differ.count();
                let kind = StoreErrorKind::RecordConflict { reason };
                let error = StoreError::new(Operation::Delete, kind);
                return Err(left.blame()(error.with_execution(id)));
            }
        }
        let leftover = Delete::new(id.clone()).with_expected(head.next_sequence);
        match left.delete(leftover).await {
            Ok(_) => Ok(true),
            Err(error) if is_not_found(&error) => Ok(true),
            Err(error) if is_conflict(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn unsettled(sides: Sides<'_>, id: &ExecutionId) -> StoreError {
    let reason = format!(
        "another process moves it from shard {} to shard {} meanwhile: try again",
        sides.source.id(),
        sides.destination.id()
    );
    let outcome_known = true;
    let kind = StoreErrorKind::Unavailable {
        reason,
        outcome_known,
    };
    let error = StoreError::new(Operation::Delete, kind).with_execution(id);
    sides.destination.blame()(error)
}

pub(crate) fn is_conflict(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::SequenceConflict { .. })
}

pub(crate) fn is_not_found(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::NotFound)
}
