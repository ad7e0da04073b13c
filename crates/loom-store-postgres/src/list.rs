//! Listing in list order, executions or whole records.

use loom_spi::{
    ExecutionId, ExecutionSummary, List, ListCursor, ListPage, PlanEpoch, RecordPage,
    RecordSummary, Records, RouteFilter,
};
use tokio_postgres::Row;

use crate::change::no_shard_row;
use crate::failure::Failure;
use crate::read::limit_of_zero;
use crate::record::{self, column};
use crate::session::Session;

/// The most rows that one page looks at, so that a filter that few match holds no snapshot open for long.
const PAGE_ROWS: usize = 10_000;

/// The fewest rows to look at where not all of them are wanted.
const FILTERED_ROWS: usize = 500;

/// One statement, and so one snapshot of the plan and the page. What commits later is at its place in the order when a
/// later page gets there: a place says nothing about when it was taken.
pub(crate) const LIST: &str = "
    SELECT r.next_seq, r.closed, r.sealed, r.created_at, r.updated_at, r.index_key, r.id, r.fence, r.branches,
           s.epoch, s.fingerprint
    FROM shard AS s
        LEFT JOIN LATERAL (
            SELECT * FROM records AS f
            WHERE (f.index_key, f.id) > ($1, $2) AND f.index_key <= $3
            ORDER BY f.index_key, f.id
            LIMIT $4
        ) AS r ON true
    WHERE s.one = 1
    ORDER BY r.index_key, r.id";

/// Lists a page of executions.
pub(crate) async fn list(session: &Session, request: &List) -> Result<ListPage, Failure> {
    let wanted = Wanted {
        limit: request.limit,
        cursor: request.cursor.as_ref(),
        route: request.route,
        epoch: request.epoch,
        // Records without a log are passed over.
        all: false,
    };
    let page = page(session, wanted, |row, id| {
        let head = record::head(row, 0)?;
        let head = head.filter(|head| request.state.is_none_or(|state| state == head.state));
        Ok(head.map(|head| ExecutionSummary::new(id, head)))
    })
    .await?;
    Ok(ListPage::new(page.items, page.next))
}

/// Lists a page of records, those without a log included.
pub(crate) async fn records(session: &Session, request: &Records) -> Result<RecordPage, Failure> {
    let wanted = Wanted {
        limit: request.limit,
        cursor: request.cursor.as_ref(),
        route: request.route,
        epoch: request.epoch,
        all: true,
    };
    let page = page(session, wanted, |row, id| {
        Ok(Some(RecordSummary::new(
            id,
            record::head(row, 0)?,
            column::<Option<i64>>(row, 7)?.map(record::token),
            record::count(column(row, 8)?, "branches of an execution")?,
            column(row, 2)?,
        )))
    })
    .await?;
    Ok(RecordPage::new(page.items, page.next))
}

struct Wanted<'a> {
    limit: usize,
    cursor: Option<&'a ListCursor>,
    route: Option<RouteFilter>,
    epoch: Option<PlanEpoch>,
    /// Whether every record in the route is wanted.
    all: bool,
}

impl Wanted<'_> {
    /// How many rows to look at: one more than wanted tells whether there are more.
    fn rows(&self) -> usize {
        let one_more = self.limit.saturating_add(1);
        let exact = self
            .route
            .is_none_or(|route| route.modulus().is_power_of_two());
        let rows = if self.all && exact {
            one_more
        } else {
            one_more.max(FILTERED_ROWS)
        };
        rows.min(PAGE_ROWS)
    }
}

/// What was found, in list order.
struct Page<T> {
    items: Vec<T>,
    next: Option<ListCursor>,
}

async fn page<T>(
    session: &Session,
    wanted: Wanted<'_>,
    mut item: impl FnMut(&Row, ExecutionId) -> Result<Option<T>, Failure>,
) -> Result<Page<T>, Failure> {
    if wanted.limit == 0 {
        return Err(limit_of_zero().into());
    }
    let range = wanted
        .route
        .map_or(i64::MIN..=i64::MAX, RouteFilter::key_range);
    // No id is empty, so this position is before all ids of the lowest key.
    let mut start = (*range.start(), "");
    if let Some(cursor) = wanted.cursor {
        let (index_key, id) = cursor.position();
        start = start.max((index_key, id.as_str()));
    }
    let most = wanted.rows();
    let limit = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = session
        .query(LIST, &[&start.0, &start.1, range.end(), &limit])
        .await?;
    let first = rows.first().ok_or_else(no_shard_row)?;
    PlanEpoch::admit(record::plan(first, 9)?, wanted.epoch)?;

    let mut items = Vec::new();
    let mut last_seen: Option<ExecutionId> = None;
    for row in &rows {
        // Without any record there is one row all the same, for the plan.
        let Some(index_key) = column::<Option<i64>>(row, 5)? else {
            break;
        };
        if items.len() >= wanted.limit {
            let next = last_seen.as_ref().map(ListCursor::after);
            return Ok(Page { items, next });
        }
        let id = record::id(row, 6)?;
        last_seen = Some(id.clone());
        let hash = record::hash_of(index_key);
        if wanted.route.is_none_or(|route| route.matches(hash)) {
            items.extend(item(row, id)?);
        }
    }
    // As many as were asked for: there may be more.
    let next = last_seen
        .filter(|_| rows.len() >= most)
        .as_ref()
        .map(ListCursor::after);
    Ok(Page { items, next })
}
