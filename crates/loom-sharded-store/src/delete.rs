//! Deleting.

use loom_spi::{Delete, Deleted, LogHead, Operation, StoreError, StoreErrorKind};

use crate::compare::{Relation, compare};
use crate::core::{Core, restarting};
use crate::routing::{Route, Sides};

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
                (Some(kept), Some(left)) => {
                    if request
                        .expected
                        .is_some_and(|expected| expected != kept.next_sequence)
                    {
                        // Refused there, by the copy that counts, before anything is removed.
                        return destination.delete(request.clone()).await;
                    }
                    if self.remove_leftover(sides, request, left).await? {
                        return destination.delete(request.clone()).await;
                    }
                }
            }
        }
        Err(StoreError::new(
            Operation::Delete,
            StoreErrorKind::Unavailable {
                reason: format!(
                    "it is being moved from shard {} to shard {} over and over",
                    source.id(),
                    destination.id()
                ),
                outcome_known: true,
            },
        )
        .with_execution(id)
        .with_shard(destination.id().get()))
    }

    /// Removes what a move left on the source; says no when a copy went away meanwhile.
    async fn remove_leftover(
        &self,
        sides: Sides<'_>,
        request: &Delete,
        left: LogHead,
    ) -> Result<bool, StoreError> {
        let id = &request.id;
        let Sides {
            source,
            destination,
            ..
        } = sides;
        match compare(Operation::Delete, id, source, destination).await? {
            Relation::Leftover => {}
            Relation::Gone => return Ok(false),
            Relation::Different(reason) => {
                self.counters.both_sides_differ.count();
                let kind = StoreErrorKind::RecordConflict { reason };
                let error = StoreError::new(Operation::Delete, kind);
                return Err(error.with_execution(id).with_shard(source.id().get()));
            }
        }
        let leftover = Delete::new(id.clone()).with_expected(left.next_sequence);
        match source.delete(leftover).await {
            Ok(_) => Ok(true),
            Err(error) if is_not_found(&error) => Ok(true),
            Err(error) if matches!(error.kind(), StoreErrorKind::SequenceConflict { .. }) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

pub(crate) fn is_not_found(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::NotFound)
}
