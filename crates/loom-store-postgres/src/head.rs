//! Looking at one record.

use loom_spi::{Head, Inspect, LogHead, PlanEpoch, RecordSummary};

use crate::change::no_shard_row;
use crate::failure::Failure;
use crate::record::{self, column, key_of};
use crate::session::Session;

/// One statement, and so one snapshot of the plan and the record.
pub(crate) const INSPECT: &str = "
    SELECT r.next_seq, r.closed, r.sealed, r.created_at, r.updated_at, r.fence, r.branches, s.epoch, s.fingerprint
    FROM shard AS s LEFT JOIN records AS r ON r.index_key = $1 AND r.id = $2
    WHERE s.one = 1";

/// Looks at a log.
pub(crate) async fn head(session: &Session, request: &Head) -> Result<Option<LogHead>, Failure> {
    let row = session
        .query_opt(INSPECT, &[&key_of(&request.id), &request.id.as_str()])
        .await?
        .ok_or_else(no_shard_row)?;
    PlanEpoch::admit(record::plan(&row, 7)?, request.epoch)?;
    match column::<Option<i64>>(&row, 0)? {
        Some(_) => record::head(&row, 0),
        None => Ok(None),
    }
}

/// Looks at a record, which may have no log.
pub(crate) async fn inspect(
    session: &Session,
    request: &Inspect,
) -> Result<Option<RecordSummary>, Failure> {
    let row = session
        .query_opt(INSPECT, &[&key_of(&request.id), &request.id.as_str()])
        .await?
        .ok_or_else(no_shard_row)?;
    PlanEpoch::admit(record::plan(&row, 7)?, request.epoch)?;
    if column::<Option<i64>>(&row, 0)?.is_none() {
        return Ok(None);
    }
    Ok(Some(RecordSummary::new(
        request.id.clone(),
        record::head(&row, 0)?,
        column::<Option<i64>>(&row, 5)?.map(record::token),
        record::count(column(&row, 6)?, "branches of an execution")?,
        column(&row, 2)?,
    )))
}
