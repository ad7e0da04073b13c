//! Listing executions in list order.

use loom_spi::{ExecutionSummary, List, ListCursor, ListPage, RouteFilter};
use rusqlite::Statement;

use crate::failure::Failure;
use crate::head::admit;
use crate::read::limit_of_zero;
use crate::reader::Reader;
use crate::record;

/// The most rows that one page looks at, so that a filter that few match holds no snapshot open for long.
pub(crate) const PAGE_ROWS: usize = 10_000;

/// Lists a page.
pub(crate) fn list(reader: &mut Reader<'_>, request: &List) -> Result<ListPage, Failure> {
    if request.limit == 0 {
        return Err(limit_of_zero().into());
    }
    reader.snapshot(|statements| {
        admit(&mut statements.plan, request.epoch)?;
        page(&mut statements.list, request)
    })
}

fn page(statement: &mut Statement<'_>, request: &List) -> Result<ListPage, Failure> {
    let range = request
        .route
        .map_or(i64::MIN..=i64::MAX, RouteFilter::key_range);
    // No id is empty, so this position is before all ids of the lowest key.
    let mut start = (*range.start(), "");
    if let Some(cursor) = &request.cursor {
        let (index_key, id) = cursor.position();
        start = start.max((index_key, id.as_str()));
    }

    let mut rows = statement.query((start.0, start.1, range.end()))?;
    let mut executions = Vec::new();
    let mut last_seen = None;
    let mut seen = 0;
    while let Some(row) = rows.next()? {
        if executions.len() >= request.limit || seen >= PAGE_ROWS {
            return Ok(ListPage::new(
                executions,
                last_seen.as_ref().map(ListCursor::after),
            ));
        }
        seen += 1;
        let id = record::id(row, 6)?;
        last_seen = Some(id.clone());
        let hash = record::hash_of(row.get(5)?);
        if let Some(head) = record::head(row, 0)?
            && request.route.is_none_or(|route| route.matches(hash))
            && request.state.is_none_or(|state| state == head.state)
        {
            executions.push(ExecutionSummary::new(id, head));
        }
    }
    Ok(ListPage::new(executions, None))
}

pub(crate) const LIST: &str = "
    SELECT next_seq, closed, sealed, created_at, updated_at, index_key, id
    FROM records
    WHERE (index_key, id) > (?1, ?2) AND index_key <= ?3
    ORDER BY index_key, id";
