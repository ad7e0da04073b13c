//! Finding out on which side of a migrating bucket an execution is.

use std::future::Future;

use loom_spi::{ExecutionId, Head, LogHead, Operation, StoreError, StoreErrorKind};
use tracing::Instrument as _;

use crate::compare::may_have_been_left;
use crate::core::Core;
use crate::relocate::{ROUNDS, unsettled};
use crate::routing::Sides;
use crate::rules::Rule;
use crate::shard::Side;

/// Where an execution is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resolution<'a> {
    /// On the side that new executions start on.
    Destination(Side<'a>, LogHead),
    /// Still on the side that is being drained.
    Source(Side<'a>, LogHead),
    /// On neither: if it is created, then on the destination.
    Nowhere(Side<'a>),
}

impl<'a> Resolution<'a> {
    /// The shard to ask.
    pub(crate) fn side(self) -> Side<'a> {
        match self {
            Self::Destination(side, _) | Self::Source(side, _) | Self::Nowhere(side) => side,
        }
    }
}

impl Core {
    /// Looks at the destination, the source, and the destination again, since an execution may move to it
    /// between the first two looks. Two looks find everything that exists; absence takes three, and so does a
    /// sealed copy that is on the destination alone.
    ///
    /// An unsealed copy beats a sealed one, and on equal terms the destination's beats the source's, unless
    /// it is known to be [left over](Self::left_on_destination).
    pub(crate) async fn resolve<'a>(
        &self,
        operation: Operation,
        id: &ExecutionId,
        sides: Sides<'a>,
    ) -> Result<Resolution<'a>, StoreError> {
        let span = tracing::debug_span!("loom.resolve", execution = %id);
        let looking = self.look_around(operation, id, sides).instrument(span);
        let resolution = looking.await?;
        self.counters.resolved.count();
        Ok(resolution)
    }

    async fn look_around<'a>(
        &self,
        operation: Operation,
        id: &ExecutionId,
        sides: Sides<'a>,
    ) -> Result<Resolution<'a>, StoreError> {
        let Sides {
            source,
            destination,
            ..
        } = sides;
        for _ in 0..ROUNDS {
            let mut on_destination = self.look(operation, id, destination).await?;
            if let Some(head) = on_destination
                && (!head.sealed || !self.rules.keep(Rule::UnsealedCounts))
                && (self.offers.relocation || !may_have_been_left(&head))
            {
                return Ok(self.remember(id, sides, Resolution::Destination(destination, head)));
            }
            let on_source = self.look(operation, id, source).await?;
            let gone = on_destination.is_none_or(|head| head.sealed);
            if on_source.is_none() && gone && self.rules.keep(Rule::LookAgain) {
                on_destination = self.look(operation, id, destination).await?;
            }
            let resolution = match (on_destination, on_source) {
                // Never so at one moment: a leftover is removed before the other copy is sealed.
                (Some(there), Some(here)) if there.sealed && here.sealed => {
                    continue;
                }
                (Some(there), Some(here)) => {
                    let source_counts = if there.sealed {
                        !here.sealed
                    } else {
                        self.left_on_destination(operation, id, sides, &here, &there)
                            .await?
                    };
                    if source_counts {
                        Resolution::Source(source, here)
                    } else {
                        Resolution::Destination(destination, there)
                    }
                }
                (Some(there), None) => Resolution::Destination(destination, there),
                (None, Some(here)) => Resolution::Source(source, here),
                (None, None) => Resolution::Nowhere(destination),
            };
            return Ok(self.remember(id, sides, resolution));
        }
        Err(unsettled(operation, sides, id))
    }

    /// Caches what was found, unless it is a copy that counts only where there is no other.
    fn remember<'a>(
        &self,
        id: &ExecutionId,
        sides: Sides<'a>,
        resolution: Resolution<'a>,
    ) -> Resolution<'a> {
        match resolution {
            Resolution::Destination(side, head) | Resolution::Source(side, head)
                if !head.sealed =>
            {
                self.cache.insert(id, sides, side);
            }
            _ => {}
        }
        resolution
    }

    /// Asks the side where the execution is. Starts with the cached one, and does not believe an answer
    /// that a move could explain (`doubtful`) before it has looked again.
    pub(crate) async fn ask<'a, T, F>(
        &self,
        operation: Operation,
        id: &ExecutionId,
        sides: Sides<'a>,
        doubtful: fn(&Result<T, StoreError>) -> bool,
        ask: impl Fn(Side<'a>) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        if let Some(side) = self.cache.get(id, sides) {
            let answer = ask(side).await;
            if !doubtful(&answer) {
                self.counters.cache_hits.count();
                return answer;
            }
            self.cache.remove(id);
        }
        let resolution = self.resolve(operation, id, sides).await?;
        let answer = ask(resolution.side()).await;
        // Within one plan an execution moves from the source to the destination and never back, so the
        // answer of a destination stands, and that of a source is in doubt only once.
        if !matches!(resolution, Resolution::Source(..)) || !doubtful(&answer) {
            return answer;
        }
        self.cache.remove(id);
        let resolution = self.resolve(operation, id, sides).await?;
        ask(resolution.side()).await
    }

    /// One indexed point-read. A side that cannot be reached is an error, never "not there".
    pub(crate) async fn look(
        &self,
        operation: Operation,
        id: &ExecutionId,
        side: Side<'_>,
    ) -> Result<Option<LogHead>, StoreError> {
        self.counters.looks.count();
        match side.head(Head::new(id.clone())).await {
            Err(error) if silent(&error) && !self.rules.keep(Rule::SilentIsNotAbsent) => Ok(None),
            answer => answer.map_err(|error| on_the_way(operation, id, error)),
        }
    }
}

fn silent(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Unavailable { .. })
}

/// What a step on the way to `operation` ran into, as an error of that operation, which has not begun:
/// nothing was changed.
pub(crate) fn on_the_way(operation: Operation, id: &ExecutionId, error: StoreError) -> StoreError {
    if error.operation() == operation {
        return error;
    }
    let kind = match error.kind() {
        StoreErrorKind::Unavailable { reason, .. } => StoreErrorKind::Unavailable {
            reason: reason.clone(),
            outcome_known: true,
        },
        kind => kind.clone(),
    };
    let outer = StoreError::new(operation, kind).with_execution(id);
    let outer = match error.shard() {
        Some(shard) => outer.with_shard(shard),
        None => outer,
    };
    outer.with_source(error)
}
