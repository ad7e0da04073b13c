//! Looking at one log.

use loom_spi::{ExecutionId, LogHead, PlanEpoch};

use crate::failure::Failure;
use crate::reader::Reader;
use crate::record;

/// A log without its events.
pub(crate) struct Found {
    pub(crate) head: LogHead,
    /// Its number.
    pub(crate) log: i64,
}

/// Checks the plan and looks the log up with [`FIND`]: one statement, and so one snapshot.
pub(crate) fn find(
    reader: &Reader,
    id: &ExecutionId,
    epoch: Option<PlanEpoch>,
) -> Result<Option<Found>, Failure> {
    let mut statement = reader.statement(FIND)?;
    let mut rows = statement.query((id.route_hash().index_key(), id.as_str()))?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    PlanEpoch::admit(record::plan(row, 6)?, epoch)?;
    if row.get::<_, Option<i64>>(0)?.is_none() {
        return Ok(None);
    }
    Ok(record::log(row, 0)?.map(|(head, log)| Found { head, log }))
}

/// Checks the plan alone, with [`PLAN`].
pub(crate) fn admit(reader: &Reader, epoch: Option<PlanEpoch>) -> Result<(), Failure> {
    let mut statement = reader.statement(PLAN)?;
    let mut rows = statement.query([])?;
    let current = match rows.next()? {
        Some(row) => record::plan(row, 0)?,
        None => None,
    };
    Ok(PlanEpoch::admit(current, epoch)?)
}

pub(crate) const FIND: &str = "
    SELECT r.next_seq, r.closed, r.sealed, r.created_at, r.updated_at, r.log, s.epoch, s.fingerprint
    FROM shard AS s LEFT JOIN records AS r ON r.index_key = ?1 AND r.id = ?2
    WHERE s.one = 1";

pub(crate) const PLAN: &str = "SELECT epoch, fingerprint FROM shard WHERE one = 1";
