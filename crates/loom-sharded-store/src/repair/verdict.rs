//! What to do about one record of a shard that was restored.

use loom_shard_plan::{Placement, ShardId};
use loom_spi::{ExecutionId, Operation, RecordSummary, StoreError};

use crate::compare::{Relation, compare};
use crate::routing::Routing;
use crate::shard::Side;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The plan places it here.
    Keep,
    /// The plan places it here, and the move that sealed it is over.
    Unseal,
    /// Another shard has what counts.
    Stale { counts: ShardId },
    /// The plan places it there, and it is not there.
    Misplaced { to: ShardId },
    /// Each has what the other has not.
    Differs { on: ShardId, reason: String },
}

/// Judges a record that `here`, the restored shard, holds.
pub(super) async fn judge(
    routing: &Routing,
    here: Side<'_>,
    record: &RecordSummary,
) -> Result<Verdict, StoreError> {
    let side = |id: ShardId| routing.sides().find(|side| side.id() == id);
    let stays = if record.sealed {
        Verdict::Unseal
    } else {
        Verdict::Keep
    };
    match routing.placement(record.id.route_hash()) {
        Placement::Settled(on) if on == here.id() => Ok(stays),
        Placement::Migrating { from, to } if from == here.id() || to == here.id() => {
            let other = if from == here.id() { to } else { from };
            match side(other) {
                Some(other) => Ok(beside(here, other, record).await?.unwrap_or(stays)),
                None => Ok(stays),
            }
        }
        elsewhere => {
            // It may be moving from the source to the destination between the looks.
            let to = elsewhere.destination();
            for place in [Some(to), elsewhere.source(), Some(to)] {
                if let Some(other) = place.and_then(side)
                    && let Some(there) = holds(other, record).await?
                    && let Some(verdict) = stale_or_differs(here, other, record, &there).await?
                {
                    return Ok(verdict);
                }
            }
            Ok(Verdict::Misplaced { to })
        }
    }
}

/// What `other` has of the record. A log that is only here is not there, whatever else of the record is.
async fn holds(
    other: Side<'_>,
    record: &RecordSummary,
) -> Result<Option<RecordSummary>, StoreError> {
    let there = other.inspect(&record.id).await?;
    Ok(there.filter(|there| there.head.is_some() || record.head.is_none()))
}

/// The two sides of a migrating bucket, one of which was restored: `None` when what is here counts.
async fn beside(
    here: Side<'_>,
    other: Side<'_>,
    record: &RecordSummary,
) -> Result<Option<Verdict>, StoreError> {
    let id = &record.id;
    let Some(there) = holds(other, record).await? else {
        return Ok(None);
    };
    let (Some(this), Some(that)) = (record.head, there.head) else {
        // Neither has a log, or only the other one has.
        return Ok(Some(Verdict::Stale { counts: other.id() }));
    };
    // The running deployment wrote there, or a move had copied it, in the one direction or the other.
    if !there.sealed || this.next_sequence < that.next_sequence {
        return stale_or_differs(here, other, record, &there).await;
    }
    prefix(id, other, here, None)
        .await
        .map(|verdict| match verdict {
            Some(Verdict::Differs { reason, .. }) => Some(Verdict::Differs {
                on: other.id(),
                reason,
            }),
            verdict => verdict,
        })
}

/// What is here is stale if `other` has all of it. If not, somebody has to decide. `None` when one of them has gone.
async fn stale_or_differs(
    here: Side<'_>,
    other: Side<'_>,
    record: &RecordSummary,
    there: &RecordSummary,
) -> Result<Option<Verdict>, StoreError> {
    let stale = Some(Verdict::Stale { counts: other.id() });
    if record.head.is_none() || there.head.is_none() {
        return Ok(stale);
    }
    prefix(&record.id, here, other, stale).await
}

/// `then` if the log on `short` is the beginning of the one on `long`.
async fn prefix(
    id: &ExecutionId,
    short: Side<'_>,
    long: Side<'_>,
    then: Option<Verdict>,
) -> Result<Option<Verdict>, StoreError> {
    match compare(Operation::Migrate, id, short, long).await? {
        Relation::Leftover => Ok(then),
        Relation::Gone => Ok(None),
        Relation::Different(reason) => Ok(Some(Verdict::Differs {
            on: long.id(),
            reason,
        })),
    }
}
