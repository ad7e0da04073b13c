//! Moving one execution to its new shard ahead of time.

use loom_shard_plan::ShardId;
use loom_spi::{
    Append, Delete, Event, ExecutionId, FenceToken, Limits, LogHead, NewEvent, Operation,
    StoreError, StoreErrorKind,
};

use crate::ShardedStore;
use crate::compare::{Relation, compare, page};
use crate::core::{Core, restarting};
use crate::delete::is_not_found;
use crate::resolve::on_the_way;
use crate::routing::{Route, Sides};
use crate::shard::Side;

const MIGRATE: Operation = Operation::Migrate;
/// How many events are read at a time.
const PAGE: usize = 1024;
/// How often a move starts again because a copy went away under it.
const ATTEMPTS: usize = 4;

impl ShardedStore {
    /// Moves an execution of a migrating bucket from the source to the destination now, instead of waiting
    /// until it is deleted there.
    ///
    /// Copies its lineage and its log, compares what has arrived with what is there, and only then removes
    /// the source's, provided that it is still as long as what was copied. A crash at any point leaves at
    /// least one whole copy, and the destination's is the one that is served; calling it again finishes
    /// the move. Several movers may work on the same execution.
    ///
    /// Moves what cannot change meanwhile: an execution that is closed, or one that has nothing but its
    /// first event and was never fenced. Of the latter the caller has to know that *no other process* starts
    /// or deletes it during the move; within this process they wait for each other. The highest fence token
    /// of a closed execution goes along, so that whoever was fenced out stays out. Its leases do not.
    ///
    /// # Errors
    /// [`MigrateError`] says what is in the way and what to do about it.
    ///
    /// # Cancel safety
    /// Dropping the call is like a crash: each step is done or not, none is torn, and the last one sent
    /// may still take effect. Call it again before an execution that was not started yet is.
    pub async fn migrate_execution(&self, id: &ExecutionId) -> Result<Migrated, MigrateError> {
        let hash = id.route_hash();
        let moved: Result<Result<Migrated, MigrateError>, StoreError> =
            restarting!(self.core, |routing| match routing.route(hash) {
                Route::Settled(side) => match self.core.look(MIGRATE, id, side).await {
                    Ok(Some(_)) => Ok(Ok(Migrated::Settled { on: side.id() })),
                    Ok(None) => Ok(Err(not_found(id).into())),
                    Err(error) => Err(error),
                },
                Route::Migrating(sides) => match Box::pin(self.core.migrate(sides, id)).await {
                    // A newer plan decides anew where it belongs.
                    Err(MigrateError::Store(error)) => Err(error),
                    answer => Ok(answer),
                },
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

/// Why an execution was not moved. Whatever the reason, it is served as before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// It can still change.
    #[error(
        "cannot migrate execution `{id}` from shard {shard}: it is open and has {events} events, and one that is appended during the move would be lost; move it once it has closed, or let its bucket drain by itself"
    )]
    Live {
        /// The execution.
        id: ExecutionId,
        /// Where it is.
        shard: ShardId,
        /// How many events it has.
        events: u64,
    },
    /// It was not started, but somebody holds its fence and is about to.
    #[error(
        "cannot migrate execution `{id}` from shard {shard}: a worker holds its fence (token {token}) and may start it during the move; move it once it has closed, or let its bucket drain by itself"
    )]
    Held {
        /// The execution.
        id: ExecutionId,
        /// Where it is.
        shard: ShardId,
        /// The highest token.
        token: FenceToken,
    },
    /// It does not fit one append of the destination, and half of it must never be visible there.
    #[error(
        "cannot migrate execution `{id}` from shard {shard}: its {events} events do not fit into one append of the destination ({reason}), and a part of a log must never be visible; let its bucket drain by itself"
    )]
    TooLarge {
        /// The execution.
        id: ExecutionId,
        /// Where it is.
        shard: ShardId,
        /// How many events it has.
        events: u64,
        /// Which limit it is over.
        reason: String,
    },
    /// The destination holds another log under the same id.
    #[error(
        "cannot migrate execution `{id}` from shard {from} to shard {to}: there is a different log under this id on each of them ({reason}); the one on shard {to} is served, and somebody has to decide what becomes of the other"
    )]
    Differs {
        /// The execution.
        id: ExecutionId,
        /// The source.
        from: ShardId,
        /// The destination.
        to: ShardId,
        /// Where they differ.
        reason: String,
    },
    /// Somebody started or deleted it during the move.
    #[error(
        "cannot migrate execution `{id}` from shard {shard}: it was started or deleted by another process during the move; look at it and decide anew"
    )]
    Changed {
        /// The execution.
        id: ExecutionId,
        /// The source.
        shard: ShardId,
    },
    /// A shard refused or could not be reached; `NotFound` when the execution does not exist.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Core {
    async fn migrate(&self, sides: Sides<'_>, id: &ExecutionId) -> Result<Migrated, MigrateError> {
        let _alone = self.moves.alone(id).await;
        self.cache.remove(id);
        let Sides {
            source,
            destination,
            ..
        } = sides;
        for _ in 0..ATTEMPTS {
            let on_source = self.look(MIGRATE, id, source).await?;
            let on_destination = self.look(MIGRATE, id, destination).await?;
            let Some(head) = on_source else {
                return self.finish_move(sides, id, on_destination).await;
            };
            if head.sealed {
                let error = StoreError::new(MIGRATE, StoreErrorKind::Sealed);
                return Err(error
                    .with_execution(id)
                    .with_shard(source.id().get())
                    .into());
            }
            let copied = match on_destination {
                Some(_) => Copied::ByAnother,
                None => self.copy(sides, id, head).await?,
            };
            if copied == Copied::Gone {
                continue;
            }
            match compare(MIGRATE, id, source, destination).await? {
                Relation::Leftover => {}
                Relation::Gone => continue,
                Relation::Different(reason) => {
                    self.counters.both_sides_differ.count();
                    let (from, to) = (source.id(), destination.id());
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
            self.remove_source(sides, id, head, copied).await?;
            self.forget_on_source(sides, id).await?;
            self.cache.insert(id, sides, destination);
            self.counters.moved.count();
            return Ok(Migrated::Moved {
                from: source.id(),
                to: destination.id(),
                events: head.next_sequence,
            });
        }
        Err(MigrateError::Changed {
            id: id.clone(),
            shard: source.id(),
        })
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

    /// Copies lineage and log, the log in one append.
    async fn copy(
        &self,
        sides: Sides<'_>,
        id: &ExecutionId,
        head: LogHead,
    ) -> Result<Copied, MigrateError> {
        let Sides {
            source,
            destination,
            ..
        } = sides;
        let fence = self.fence_on(MIGRATE, source, id).await?;
        self.admit_move(id, source, head, fence)?;
        let limits = destination.store().capabilities().limits;
        let too_large = |reason: String| MigrateError::TooLarge {
            id: id.clone(),
            shard: source.id(),
            events: head.next_sequence,
            reason,
        };
        let events = match read_all(id, source, head, limits).await? {
            Whole::Events(events) => events,
            Whole::Gone => return Ok(Copied::Gone),
            Whole::TooLarge(reason) => return Err(too_large(reason)),
        };
        self.copy_lineage(sides, id).await?;
        // At least what the source has seen, and enough for the destination to take it.
        let there = self.fence_on(MIGRATE, destination, id).await?;
        let copy = Append::new(id.clone(), 0, events).with_fence(fence.max(there));
        if let Err(StoreErrorKind::InvalidArgument { reason }) = limits.check(&copy) {
            return Err(too_large(reason));
        }
        match destination.append(copy).await {
            Ok(_) => Ok(Copied::ByUs),
            // Somebody else was faster; whether it is the same log is for the comparison to say.
            Err(error)
                if matches!(
                    error.kind(),
                    StoreErrorKind::SequenceConflict { .. }
                        | StoreErrorKind::Closed { .. }
                        | StoreErrorKind::Fenced { .. }
                ) =>
            {
                Ok(Copied::ByAnother)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Refuses what could change during the move.
    fn admit_move(
        &self,
        id: &ExecutionId,
        source: Side<'_>,
        head: LogHead,
        fence: Option<FenceToken>,
    ) -> Result<(), MigrateError> {
        let (id, shard) = (id.clone(), source.id());
        match fence {
            _ if head.is_closed() => Ok(()),
            _ if head.next_sequence > 1 => Err(MigrateError::Live {
                id,
                shard,
                events: head.next_sequence,
            }),
            Some(token) => Err(MigrateError::Held { id, shard, token }),
            None => Ok(()),
        }
    }

    /// Removes the source's log if it still is as long as what was copied. If it is not, and the copy is ours,
    /// the copy goes again: the source's is the one that has more.
    async fn remove_source(
        &self,
        sides: Sides<'_>,
        id: &ExecutionId,
        head: LogHead,
        copied: Copied,
    ) -> Result<(), MigrateError> {
        let exactly = || Delete::new(id.clone()).with_expected(head.next_sequence);
        let error = match sides.source.delete(exactly()).await {
            Ok(_) => return Ok(()),
            Err(error) if is_not_found(&error) => return Ok(()),
            Err(error) => error,
        };
        if !matches!(error.kind(), StoreErrorKind::SequenceConflict { .. }) {
            return Err(on_the_way(MIGRATE, id, error).into());
        }
        if copied == Copied::ByUs {
            match sides.destination.delete(exactly()).await {
                Err(error)
                    if !is_not_found(&error)
                        && !matches!(error.kind(), StoreErrorKind::SequenceConflict { .. }) =>
                {
                    return Err(on_the_way(MIGRATE, id, error).into());
                }
                // Gone, or longer by now: then both sides have been written to, which is for people to decide.
                _ => {}
            }
        }
        let (id, shard) = (id.clone(), sides.source.id());
        Err(MigrateError::Changed { id, shard })
    }
}

/// Whose copy is on the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copied {
    ByUs,
    ByAnother,
    /// None: the source's log went away.
    Gone,
}

fn not_found(id: &ExecutionId) -> StoreError {
    StoreError::new(MIGRATE, StoreErrorKind::NotFound).with_execution(id)
}

/// A log as it has to be appended elsewhere.
enum Whole {
    Events(Vec<NewEvent>),
    Gone,
    TooLarge(String),
}

/// Reads a whole log, as long as it fits into one append.
async fn read_all(
    id: &ExecutionId,
    side: Side<'_>,
    head: LogHead,
    limits: Limits,
) -> Result<Whole, StoreError> {
    if usize::try_from(head.next_sequence).is_ok_and(|events| events > limits.max_append_events) {
        let most = limits.max_append_events;
        return Ok(Whole::TooLarge(format!("it takes at most {most} events")));
    }
    let mut events: Vec<NewEvent> = Vec::new();
    let mut bytes = 0_usize;
    while (events.len() as u64) < head.next_sequence {
        let from = events.len() as u64;
        let Some(page) = page(MIGRATE, id, side, from, PAGE).await? else {
            return Ok(Whole::Gone);
        };
        if page.is_empty() {
            // Shorter than a moment ago: it was deleted and started anew.
            return Ok(Whole::Gone);
        }
        bytes += page
            .iter()
            .map(|event| event.kind.len() + event.payload.len())
            .sum::<usize>();
        if bytes > limits.max_append_bytes {
            let most = limits.max_append_bytes;
            return Ok(Whole::TooLarge(format!("it takes at most {most} bytes")));
        }
        events.extend(page.into_iter().map(unnumbered));
    }
    Ok(Whole::Events(events))
}

/// The event without its place, which the append gives it again.
fn unnumbered(event: Event) -> NewEvent {
    let new = NewEvent::new(event.kind, event.payload).recorded_at(event.recorded_at);
    if event.terminal { new.terminal() } else { new }
}
