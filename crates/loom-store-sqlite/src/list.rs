//! Listing executions in list order.

use loom_spi::{ExecutionId, ExecutionSummary, List, ListCursor, ListPage, RouteFilter};
use rusqlite::{Row, Statement};

use crate::failure::Failure;
use crate::head::admit;
use crate::read::limit_of_zero;
use crate::reader::Reader;
use crate::record;

/// The most rows that one page looks at, so that a filter that few match holds no snapshot open for long.
pub(crate) const PAGE_ROWS: usize = 10_000;

/// Lists a page.
pub(crate) fn list(reader: &Reader, request: &List) -> Result<ListPage, Failure> {
    if request.limit == 0 {
        return Err(limit_of_zero().into());
    }
    reader.snapshot(|| {
        admit(reader, request.epoch)?;
        let page = page(
            &mut *reader.statement(LIST)?,
            request.limit,
            request.cursor.as_ref(),
            request.route,
            |row, id| {
                let head = record::head(row, 0)?;
                let wanted =
                    head.filter(|head| request.state.is_none_or(|state| state == head.state));
                Ok(wanted.map(|head| ExecutionSummary::new(id, head)))
            },
        )?;
        Ok(ListPage::new(page.items, page.next))
    })
}

/// What was found, in list order.
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next: Option<ListCursor>,
}

/// Walks rows in list order, and takes those in the route of which `item` makes something. The statement has the
/// parameters of [`LIST`], and its columns 5 and 6 as well.
pub(crate) fn page<T>(
    statement: &mut Statement<'_>,
    limit: usize,
    cursor: Option<&ListCursor>,
    route: Option<RouteFilter>,
    mut item: impl FnMut(&Row<'_>, ExecutionId) -> Result<Option<T>, Failure>,
) -> Result<Page<T>, Failure> {
    let range = route.map_or(i64::MIN..=i64::MAX, RouteFilter::key_range);
    // No id is empty, so this position is before all ids of the lowest key.
    let mut start = (*range.start(), "");
    if let Some(cursor) = cursor {
        let (index_key, id) = cursor.position();
        start = start.max((index_key, id.as_str()));
    }

    let mut rows = statement.query((start.0, start.1, range.end()))?;
    let mut items = Vec::new();
    let mut last_seen = None;
    let mut seen = 0;
    while let Some(row) = rows.next()? {
        if items.len() >= limit || seen >= PAGE_ROWS {
            let next = last_seen.as_ref().map(ListCursor::after);
            return Ok(Page { items, next });
        }
        seen += 1;
        let id = record::id(row, 6)?;
        last_seen = Some(id.clone());
        let hash = record::hash_of(row.get(5)?);
        if route.is_none_or(|route| route.matches(hash)) {
            items.extend(item(row, id)?);
        }
    }
    Ok(Page { items, next: None })
}

pub(crate) const LIST: &str = "
    SELECT next_seq, closed, sealed, created_at, updated_at, index_key, id
    FROM records
    WHERE (index_key, id) > (?1, ?2) AND index_key <= ?3
    ORDER BY index_key, id";
