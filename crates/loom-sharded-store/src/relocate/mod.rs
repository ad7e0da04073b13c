//! Moving one record, live or not, between shards that can seal it.

mod append;
mod change;
mod delete;
mod fencing;
mod lineage;
mod read;
mod side;

use std::time::Instant;

use loom_shard_plan::ShardId;
use loom_spi::{
    Event, ExecutionId, Import, Imported, Operation, Read, RecordSummary, SealedRecord, StoreError,
    StoreErrorKind,
};
use tracing::Instrument as _;

use crate::compare::{Relation, compare};
use crate::core::Core;
use crate::migrate::MigrateError;
use crate::resolve::on_the_way;
use crate::routing::Sides;
use crate::rules::Rule;
use crate::shard::Side;

pub(crate) use change::{ROUNDS, unsettled};

const MIGRATE: Operation = Operation::Migrate;
/// How often a move starts again because others work on the same record.
const ATTEMPTS: usize = 16;
/// The most events of one part.
const PART_EVENTS: usize = 1024;
/// How many events are read before it is known how large they are.
const FIRST: usize = 32;
/// About how many bytes of events one part has, unless a single event has more.
const PART_BYTES: usize = 4 << 20;

/// What a move came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relocated {
    /// The record is on the destination now, with this many events.
    Moved(u64),
    /// There was nothing on the source.
    NothingThere,
}

/// Why one attempt did not end the move.
enum Pause {
    /// Others have changed the record on one of the sides: look again.
    Again,
    /// The destination says that it was deleted there, under this plan.
    Deleted,
    Failed(MigrateError),
}

impl From<StoreError> for Pause {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl Core {
    /// Seal on the source, import on the destination, retire on the source. May be repeated after a crash at
    /// any point, by several nodes at once.
    pub(crate) async fn relocate(
        &self,
        sides: Sides<'_>,
        id: &ExecutionId,
    ) -> Result<Relocated, MigrateError> {
        self.relocate_seen(sides, id, None).await
    }

    /// The same for a record that was seen on the source, under this plan, a moment ago: as long as it was not
    /// sealed, that says no less than a look that somebody else overtakes.
    pub(crate) async fn relocate_seen(
        &self,
        sides: Sides<'_>,
        id: &ExecutionId,
        seen: Option<RecordSummary>,
    ) -> Result<Relocated, MigrateError> {
        let (from, to) = (sides.source.id().get(), sides.destination.id().get());
        let span = tracing::debug_span!("loom.move", execution = %id, from, to);
        let seen = seen.filter(|record| !record.sealed);
        self.relocate_alone(sides, id, seen).instrument(span).await
    }

    async fn relocate_alone(
        &self,
        sides: Sides<'_>,
        id: &ExecutionId,
        mut seen: Option<RecordSummary>,
    ) -> Result<Relocated, MigrateError> {
        let begun = Instant::now();
        // Not needed for safety: nodes do not wait for each other, tasks of one node need not copy twice.
        let _alone = self.moves.alone(id).await;
        let mut deleted = false;
        for _ in 0..ATTEMPTS {
            let record = match seen.take() {
                Some(record) => record,
                None => match sides.source.inspect(id).await? {
                    Some(record) => record,
                    None => return Ok(Relocated::NothingThere),
                },
            };
            match self.relocate_record(sides, id, &record).await {
                Ok(events) => {
                    if events > 0 {
                        self.cache.insert(id, sides, sides.destination);
                    } else {
                        self.cache.remove(id);
                    }
                    self.counters.count_move(events, begun.elapsed());
                    return Ok(Relocated::Moved(events));
                }
                Err(Pause::Again) => {}
                // A delete removes what is on the source before it leaves its mark, and nothing new comes there in
                // the same epoch: what is there all the same came back from a backup, and stays deleted.
                Err(Pause::Deleted) if deleted => match sides.source.retire(id).await {
                    Ok(()) => return Ok(Relocated::NothingThere),
                    Err(error) if is(&error, &StoreErrorKind::NotSealed) => {}
                    Err(error) => return Err(error.into()),
                },
                Err(Pause::Deleted) => deleted = true,
                Err(Pause::Failed(error)) => return Err(error),
            }
        }
        Err(MigrateError::Changed {
            id: id.clone(),
            shard: sides.source.id(),
        })
    }

    async fn relocate_record(
        &self,
        sides: Sides<'_>,
        id: &ExecutionId,
        record: &RecordSummary,
    ) -> Result<u64, Pause> {
        let source = sides.source;
        if !record.sealed {
            self.clear_destination(sides, id, record).await?;
        }
        let sealed = match source.seal(id).await {
            Ok(sealed) => sealed,
            Err(error) if is(&error, &StoreErrorKind::NotFound) => return Err(Pause::Again),
            Err(error) => return Err(error.into()),
        };
        if !self.rules.keep(Rule::RetireLast) {
            source.retire(id).await?;
        }
        match self.import_all(sides, id, &sealed).await {
            Err(Pause::Failed(MigrateError::Differs { .. })) if !record.sealed => {
                // Nobody moves it; it stays what it was.
                source.unseal(id).await?;
                return Err(Pause::Failed(self.differs(
                    sides,
                    id,
                    "its log grew during the move",
                )));
            }
            imported => imported?,
        }
        match source.retire(id).await {
            Ok(()) => {}
            Err(error) if is(&error, &StoreErrorKind::NotSealed) => return Err(Pause::Again),
            Err(error) => return Err(error.into()),
        }
        Ok(sealed.events())
    }

    /// Removes what a move that was called off has left on the destination, before the source is sealed: so
    /// that both sides are never sealed at once, and nobody has to guess which of them is the newer one.
    async fn clear_destination(
        &self,
        sides: Sides<'_>,
        id: &ExecutionId,
        record: &RecordSummary,
    ) -> Result<(), Pause> {
        if !self.rules.keep(Rule::LeftoverFirst) {
            return Ok(());
        }
        let Sides {
            source,
            destination,
            ..
        } = sides;
        let Some(there) = destination.inspect(id).await? else {
            return Ok(());
        };
        if there.head.is_some() {
            let (left, kept) = if there.sealed {
                (destination, source)
            } else {
                (source, destination)
            };
            let relation = if record.head.is_some() {
                compare(MIGRATE, id, left, kept).await?
            } else {
                Relation::Different("only one of them has a log".to_owned())
            };
            match relation {
                Relation::Leftover => {}
                // A record without a log joins the one with.
                Relation::Different(_) if record.head.is_none() && !there.sealed => {}
                Relation::Gone => return Err(Pause::Again),
                Relation::Different(reason) => {
                    return Err(Pause::Failed(self.differs(sides, id, &reason)));
                }
            }
        }
        if there.sealed {
            match destination.retire(id).await {
                Ok(()) => {}
                Err(error) if is(&error, &StoreErrorKind::NotSealed) => return Err(Pause::Again),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The record, part by part; it becomes visible with the last.
    async fn import_all(
        &self,
        sides: Sides<'_>,
        id: &ExecutionId,
        sealed: &SealedRecord,
    ) -> Result<(), Pause> {
        let mut sealed = sealed.clone();
        if !self.rules.keep(Rule::FenceTravels) {
            sealed.fence = None;
        }
        if !self.rules.keep(Rule::LineageTravels) {
            sealed.branches.clear();
        }
        let mut from = 0;
        loop {
            let events = self.part(sides.source, id, from, sealed.events()).await?;
            let part = Import::new(id.clone(), sealed.clone(), events);
            match sides.destination.import(part).await {
                Ok(Imported::Staged { next_sequence }) => from = next_sequence,
                Ok(_) => return Ok(()),
                Err(error) => return Err(self.not_imported(sides, id, error)),
            }
        }
    }

    /// The events from `from` on, as many as belong into one part: a part is a write, a page is only a read.
    async fn part(
        &self,
        source: Side<'_>,
        id: &ExecutionId,
        from: u64,
        end: u64,
    ) -> Result<Vec<Event>, Pause> {
        let mut part = Vec::new();
        let mut bytes = 0;
        loop {
            let next = from + part.len() as u64;
            let limit = next_limit(part.len(), bytes);
            if next >= end || limit == 0 {
                return Ok(part);
            }
            let page = match source.read(Read::new(id.clone(), next, limit)).await {
                Ok(page) if page.events.is_empty() => return Err(Pause::Again),
                Ok(page) => page.events,
                Err(error) if is(&error, &StoreErrorKind::NotFound) => return Err(Pause::Again),
                Err(error) => return Err(on_the_way(MIGRATE, id, error).into()),
            };
            bytes += page.iter().map(size).sum::<usize>();
            if part.is_empty() {
                part = page;
            } else {
                part.extend(page);
            }
        }
    }

    fn not_imported(&self, sides: Sides<'_>, id: &ExecutionId, error: StoreError) -> Pause {
        match error.kind() {
            // Another mover was faster, and its copy has been deleted since.
            StoreErrorKind::DeletedHere => Pause::Deleted,
            // Or it replaced what was staged.
            StoreErrorKind::Sealed | StoreErrorKind::InvalidArgument { .. } => Pause::Again,
            StoreErrorKind::RecordConflict { reason } => {
                let reason = reason.clone();
                Pause::Failed(self.differs(sides, id, &reason))
            }
            _ => error.into(),
        }
    }

    fn differs(&self, sides: Sides<'_>, id: &ExecutionId, reason: &str) -> MigrateError {
        self.counters.both_sides_differ.count();
        tracing::event!(
            name: "loom.both_sides_differ",
            tracing::Level::WARN,
            execution = %id,
            reason
        );
        MigrateError::Differs {
            id: id.clone(),
            from: sides.source.id(),
            to: sides.destination.id(),
            reason: reason.to_owned(),
        }
    }

    /// Finishes a move, or makes one, on the way to `operation`.
    pub(crate) async fn complete_move(
        &self,
        operation: Operation,
        sides: Sides<'_>,
        id: &ExecutionId,
    ) -> Result<Relocated, StoreError> {
        match Box::pin(self.relocate(sides, id)).await {
            Ok(relocated) => Ok(relocated),
            Err(MigrateError::Store(error)) => Err(on_the_way(operation, id, error)),
            Err(error) => Err(unfinished(operation, sides.source.id(), id, error)),
        }
    }
}

/// What is in the way of a move is in the way of the operation.
fn unfinished(
    operation: Operation,
    source: ShardId,
    id: &ExecutionId,
    error: MigrateError,
) -> StoreError {
    let kind = match &error {
        MigrateError::Differs { reason, .. } => StoreErrorKind::RecordConflict {
            reason: reason.clone(),
        },
        _ => StoreErrorKind::Unavailable {
            reason: "other processes keep changing it while it is being moved: try again"
                .to_owned(),
            outcome_known: true,
        },
    };
    StoreError::new(operation, kind)
        .with_execution(id)
        .with_shard(source.get())
        .with_source(error)
}

/// How many events to read next for a part that has `events` of `bytes` so far, judging by those; 0 when it is
/// full.
fn next_limit(events: usize, bytes: usize) -> usize {
    if events == 0 {
        return FIRST;
    }
    let each = (bytes / events).max(1);
    let fit = PART_BYTES.saturating_sub(bytes) / each;
    fit.min(PART_EVENTS.saturating_sub(events))
}

/// About what an event takes.
fn size(event: &Event) -> usize {
    event.kind.len() + event.payload.len() + 32
}

pub(super) fn is(error: &StoreError, kind: &StoreErrorKind) -> bool {
    error.kind() == kind
}

/// Unseals what nobody moves: a side whose other one has nothing, or the shard of a settled bucket.
pub(super) async fn unseal(
    operation: Operation,
    side: Side<'_>,
    id: &ExecutionId,
) -> Result<(), StoreError> {
    match side.unseal(id).await {
        Err(error) if is(&error, &StoreErrorKind::NotFound) => Ok(()),
        answer => answer.map_err(|error| on_the_way(operation, id, error)),
    }
}
