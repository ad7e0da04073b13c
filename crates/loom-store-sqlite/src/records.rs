//! Looking at whole records, those without a log included.

use loom_spi::{ExecutionId, Inspect, PlanEpoch, RecordPage, RecordSummary, Records};
use rusqlite::Row;

use crate::failure::Failure;
use crate::head::admit;
use crate::list::page;
use crate::read::limit_of_zero;
use crate::reader::Reader;
use crate::record;

/// Looks at one record with [`INSPECT`]: one statement, and so one snapshot.
pub(crate) fn inspect(
    reader: &Reader,
    request: &Inspect,
) -> Result<Option<RecordSummary>, Failure> {
    let id = &request.id;
    let mut statement = reader.statement(INSPECT)?;
    let mut rows = statement.query((id.route_hash().index_key(), id.as_str()))?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    PlanEpoch::admit(record::plan(row, 9)?, request.epoch)?;
    if row.get::<_, Option<i64>>(0)?.is_none() {
        return Ok(None);
    }
    summary(row, request.id.clone()).map(Some)
}

/// Lists a page of records.
pub(crate) fn list(reader: &Reader, request: &Records) -> Result<RecordPage, Failure> {
    if request.limit == 0 {
        return Err(limit_of_zero().into());
    }
    reader.snapshot(|| {
        admit(reader, request.epoch)?;
        let page = page(
            &mut *reader.statement(RECORDS)?,
            request.limit,
            request.cursor.as_ref(),
            request.route,
            |row, id| summary(row, id).map(Some),
        )?;
        Ok(RecordPage::new(page.items, page.next))
    })
}

/// Reads the columns that [`INSPECT`] and [`RECORDS`] begin with.
fn summary(row: &Row<'_>, id: ExecutionId) -> Result<RecordSummary, Failure> {
    Ok(RecordSummary::new(
        id,
        record::head(row, 0)?,
        row.get::<_, Option<i64>>(7)?.map(record::token),
        record::count(row.get(8)?, "branches of an execution")?,
        row.get(2)?,
    ))
}

pub(crate) const INSPECT: &str = "
    SELECT r.next_seq, r.closed, r.sealed, r.created_at, r.updated_at, r.index_key, r.id,
           r.fence, r.branches, s.epoch, s.fingerprint
    FROM shard AS s LEFT JOIN records AS r ON r.index_key = ?1 AND r.id = ?2
    WHERE s.one = 1";

pub(crate) const RECORDS: &str = "
    SELECT next_seq, closed, sealed, created_at, updated_at, index_key, id, fence, branches
    FROM records
    WHERE (index_key, id) > (?1, ?2) AND index_key <= ?3
    ORDER BY index_key, id";
