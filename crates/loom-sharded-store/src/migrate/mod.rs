//! Moving one execution to its new shard ahead of time.

mod copy;
mod error;

use std::time::Instant;

use loom_shard_plan::ShardId;
use loom_spi::{
    Delete, ExecutionId, LogHead, Operation, PlanEpoch, RecordSummary, StoreError, StoreErrorKind,
};
use tracing::Instrument as _;

use crate::ShardedStore;
use crate::compare::{Relation, compare};
use crate::core::{Core, restarting};
use crate::delete::{is_conflict, is_not_found};
use crate::relocate::Relocated;
use crate::resolve::on_the_way;
use crate::routing::{Route, Sides};
use crate::shard::Side;
use copy::Copied;
pub use error::MigrateError;

const MIGRATE: Operation = Operation::Migrate;
/// How often a move starts again because a copy went away under it.
const ATTEMPTS: usize = 4;

impl ShardedStore {
    /// Moves an execution of a migrating bucket from the source to the destination now, instead of waiting
    /// until it is deleted there.
    ///
    /// Where every shard offers [`Relocation`](loom_spi::Relocation), anything moves, live executions and
    /// records without a log too, while it is used: it is sealed on the source, imported on the destination in
    /// one step, and retired on the source. A writer that meets the seal finishes the move and goes on. The
    /// highest fence token goes along, and the name of its holder; the rest of its lease does not. A crash at any
    /// point leaves a record that is served and a move that any process finishes.
    ///
    /// Elsewhere it is copied and then deleted, with a narrower promise. It copies its lineage and its log, compares what has arrived with what is there, and only then removes
    /// the source's, provided that it is still as long as what was copied. A crash at any point leaves at
    /// least one whole copy, and the destination's is the one that is served; calling it again finishes
    /// the move. Several movers may work on the same execution.
    ///
    /// Moves what cannot change meanwhile: an execution that is closed, or one that has nothing but its
    /// first event and was never fenced. The caller has to know that *no other process* starts, fences or
    /// deletes it, or records branches of it, until the move is done; within this process they wait for each
    /// other. The highest fence token of a closed execution goes along, so that whoever was fenced out stays
    /// out. Its leases do not.
    ///
    /// # Errors
    /// [`MigrateError`] says what is in the way and what to do about it.
    ///
    /// # Cancel safety
    /// Dropping the call is like a crash: each step is done or not, none is torn, and the last one sent
    /// may still take effect. Call it again before an execution that was not started yet is.
    pub async fn migrate_execution(&self, id: &ExecutionId) -> Result<Migrated, MigrateError> {
        self.core.migrate_seen(id, None).await
    }
}

impl Core {
    /// Moves one execution; what was seen of it on the source says so under the plan of `epoch` alone.
    pub(crate) async fn migrate_seen(
        &self,
        id: &ExecutionId,
        seen: Option<(Option<PlanEpoch>, RecordSummary)>,
    ) -> Result<Migrated, MigrateError> {
        let hash = id.route_hash();
        let moved: Result<Result<Migrated, MigrateError>, StoreError> =
            restarting!(self, |routing| match routing.route(hash) {
                Route::Settled(side) => match self.is_there(id, side).await {
                    Ok(true) => Ok(Ok(Migrated::Settled { on: side.id() })),
                    Ok(false) => Ok(Err(not_found(id).into())),
                    Err(error) => Err(error),
                },
                Route::Migrating(sides) => {
                    let of_this_plan = seen.as_ref().filter(|(epoch, _)| *epoch == routing.epoch());
                    let seen = of_this_plan.map(|(_, record)| record.clone());
                    match Box::pin(self.migrate(sides, id, seen)).await {
                        Err(MigrateError::Store(error)) => Err(error),
                        answer => Ok(answer),
                    }
                }
            });
        moved?
    }
}

/// What [`ShardedStore::migrate_execution`] found or did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Migrated {
    /// It was moved, or what an earlier move had left on the source was removed.
    Moved {
        /// Where it was.
        from: ShardId,
        /// Where it is.
        to: ShardId,
        /// How many events it has there.
        events: u64,
    },
    /// It was on the destination already.
    AlreadyThere {
        /// Where it is.
        on: ShardId,
    },
    /// Its bucket is not migrating: it has nowhere to go.
    Settled {
        /// Where it is.
        on: ShardId,
    },
}

impl Core {
    async fn is_there(&self, id: &ExecutionId, side: Side<'_>) -> Result<bool, StoreError> {
        if self.offers.relocation {
            return Ok(side.inspect(id).await?.is_some());
        }
        Ok(self.look(MIGRATE, id, side).await?.is_some())
    }

    /// The whole record, by sealing it.
    async fn migrate_record(
        &self,
        sides: Sides<'_>,
        id: &ExecutionId,
        seen: Option<RecordSummary>,
    ) -> Result<Migrated, MigrateError> {
        let (from, to) = (sides.source.id(), sides.destination.id());
        if let Relocated::Moved(events) = self.relocate_seen(sides, id, seen).await? {
            return Ok(Migrated::Moved { from, to, events });
        }
        match sides.destination.inspect(id).await? {
            Some(record) if record.sealed => {
                // Sealed by a move in the other direction, which was called off.
                sides.destination.unseal(id).await?;
                Ok(Migrated::AlreadyThere { on: to })
            }
            Some(_) => Ok(Migrated::AlreadyThere { on: to }),
            None => Err(not_found(id).into()),
        }
    }

    async fn migrate(
        &self,
        sides: Sides<'_>,
        id: &ExecutionId,
        seen: Option<RecordSummary>,
    ) -> Result<Migrated, MigrateError> {
        if self.offers.relocation {
            return self.migrate_record(sides, id, seen).await;
        }
        let (from, to) = (sides.source.id().get(), sides.destination.id().get());
        let span = tracing::debug_span!("loom.move", execution = %id, from, to);
        self.migrate_log(sides, id).instrument(span).await
    }

    /// The log and what belongs to it, by copying.
    async fn migrate_log(
        &self,
        sides: Sides<'_>,
        id: &ExecutionId,
    ) -> Result<Migrated, MigrateError> {
        let begun = Instant::now();
        let _alone = self.moves.alone(id).await;
        self.cache.remove(id);
        let Sides {
            source,
            destination,
            ..
        } = sides;
        let (from, to) = (source.id(), destination.id());
        for _ in 0..ATTEMPTS {
            let on_source = self.look(MIGRATE, id, source).await?;
            let on_destination = self.look(MIGRATE, id, destination).await?;
            let Some(head) = on_source else {
                return self.finish_move(sides, id, on_destination).await;
            };
            if head.sealed {
                let error = StoreError::new(MIGRATE, StoreErrorKind::Sealed);
                return Err(source.blame()(error.with_execution(id)).into());
            }
            let copied = match on_destination {
                None => self.copy(sides, id, head).await?,
                Some(there)
                    if self
                        .left_on_destination(MIGRATE, id, sides, &head, &there)
                        .await? =>
                {
                    self.remove(destination, id, there).await?;
                    continue;
                }
                Some(_) => Copied::ByAnother,
            };
            if copied == Copied::Gone {
                continue;
            }
            match compare(MIGRATE, id, source, destination).await? {
                Relation::Leftover => {}
                Relation::Gone => continue,
                Relation::Different(reason) => {
                    self.counters.both_sides_differ.count();
                    return Err(MigrateError::Differs {
                        id: id.clone(),
                        from,
                        to,
                        reason,
                    });
                }
            }
            // Once more: a branch may have been recorded since the first time.
            self.copy_lineage(sides, id).await?;
            if !self.remove(source, id, head).await? {
                if copied == Copied::ByUs {
                    // The source's has more. Unless the copy has grown too, which is for people to decide.
                    self.remove(destination, id, head).await?;
                }
                break;
            }
            self.forget_on_source(sides, id).await?;
            self.cache.insert(id, sides, destination);
            self.counters
                .count_move(head.next_sequence, begun.elapsed());
            return Ok(Migrated::Moved {
                from,
                to,
                events: head.next_sequence,
            });
        }
        Err(MigrateError::Changed {
            id: id.clone(),
            shard: from,
        })
    }

    /// Removes a copy, if it still is as long as it was; says no if it is not.
    async fn remove(
        &self,
        side: Side<'_>,
        id: &ExecutionId,
        head: LogHead,
    ) -> Result<bool, StoreError> {
        let removal = Delete::new(id.clone()).with_expected(head.next_sequence);
        match side.delete(removal).await {
            Ok(_) => Ok(true),
            Err(error) if is_not_found(&error) => Ok(true),
            Err(error) if is_conflict(&error) => Ok(false),
            Err(error) => Err(on_the_way(MIGRATE, id, error)),
        }
    }

    /// The source has no log. It may have lineage, which belongs to the log on the destination if there is one,
    /// and moves by itself if there is none.
    async fn finish_move(
        &self,
        sides: Sides<'_>,
        id: &ExecutionId,
        on_destination: Option<LogHead>,
    ) -> Result<Migrated, MigrateError> {
        let Sides {
            source,
            destination,
            ..
        } = sides;
        let (from, to) = (source.id(), destination.id());
        let lineage = self.has_lineage(source, id).await?;
        self.move_lineage(sides, id).await?;
        match on_destination {
            Some(_) => Ok(Migrated::AlreadyThere { on: to }),
            None if lineage => Ok(Migrated::Moved {
                from,
                to,
                events: 0,
            }),
            // It may have moved between the two looks.
            None if self.look(MIGRATE, id, destination).await?.is_some() => {
                Ok(Migrated::AlreadyThere { on: to })
            }
            None => Err(not_found(id).into()),
        }
    }
}

fn not_found(id: &ExecutionId) -> StoreError {
    StoreError::new(MIGRATE, StoreErrorKind::NotFound).with_execution(id)
}
