//! Lineage: the edges that start at an execution, which are part of its record.

use std::sync::Arc;

use ahash::AHashMap;
use async_trait::async_trait;
use futures_util::future::join;
use loom_spi::{
    Branch, BranchRegistry, Children, ExecutionId, Forget, Operation, Parent, ParentLink,
    PlanEpoch, RecordLineage, StoreError, StoreErrorKind,
};
use tokio_postgres::Row;

use crate::change::{Change, Work, no_shard_row};
use crate::failure::Failure;
use crate::record::{self, Record, column};
use crate::session::Session;
use crate::{PostgresStore, marks};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl BranchRegistry for PostgresStore {
    async fn record_lineage(&self, request: RecordLineage) -> Result<(), StoreError> {
        self.record_branch(request).await
    }

    async fn children(&self, request: Children) -> Result<Vec<Branch>, StoreError> {
        let parent = request.parent.clone();
        let request = Arc::new(request);
        self.look(Operation::Children, Some(&parent), move |session| {
            let request = Arc::clone(&request);
            async move {
                let rows = session.query(CHILDREN, &[&request.parent.as_str()]).await?;
                admit(&rows, request.epoch)?;
                rows.iter()
                    .filter_map(|row| branch(row).transpose())
                    .collect()
            }
        })
        .await
    }

    async fn parent(&self, request: Parent) -> Result<Option<ParentLink>, StoreError> {
        let child = request.child.clone();
        let request = Arc::new(request);
        self.look(Operation::Parent, Some(&child), move |session| {
            let request = Arc::clone(&request);
            async move {
                let rows = session.query(PARENT, &[&request.child.as_str()]).await?;
                admit(&rows, request.epoch)?;
                let row = rows.first().map(branch).transpose()?.flatten();
                // The columns are alike: an id and a label.
                Ok(row.map(|link| ParentLink::new(link.child, link.label)))
            }
        })
        .await
    }

    async fn forget(&self, request: Forget) -> Result<u64, StoreError> {
        let parent = request.parent.clone();
        self.change(Operation::Forget, &parent, request).await
    }
}

/// Branches of one parent, each of which is recorded or refused by itself.
pub(crate) struct Branches(pub(crate) Vec<RecordLineage>);

impl Work for Branches {
    type Output = Vec<Result<(), StoreErrorKind>>;

    async fn run(&self, change: &mut Change<'_>) -> Result<Self::Output, Failure> {
        let (found, state) = change.find();
        let admitted: Vec<Result<(), StoreErrorKind>> = self
            .0
            .iter()
            .map(|request| state.admit_lineage(request))
            .collect();
        let children: Vec<&str> = self
            .0
            .iter()
            .zip(&admitted)
            .filter(|(_, admitted)| admitted.is_ok())
            .map(|(request, _)| request.child.as_str())
            .collect();
        let (Some(first), false) = (self.0.first(), children.is_empty()) else {
            return Ok(admitted);
        };
        let session = change.session();
        let mut known = parents(session, &children).await?;
        let mut record = found.unwrap_or_default();
        let mut new = Vec::new();
        let answers = self
            .0
            .iter()
            .zip(admitted)
            .map(|(request, admitted)| {
                admitted?;
                let child = request.child.as_str();
                if let Some(ParentLink { parent, label, .. }) = known.get(child) {
                    return if *parent == request.parent && *label == request.label {
                        Ok(())
                    } else {
                        let (parent, label) = (parent.clone(), label.clone());
                        Err(StoreErrorKind::LineageConflict { parent, label })
                    };
                }
                let label = request.label.as_str();
                let link = ParentLink::new(request.parent.clone(), label);
                known.insert(child.to_owned(), link);
                new.push((
                    record.next_branch,
                    Branch::new(request.child.clone(), label),
                ));
                record.branches += 1;
                record.next_branch += 1;
                Ok(())
            })
            .collect();
        if !new.is_empty() {
            let placed: Vec<(i64, &Branch)> =
                new.iter().map(|(place, branch)| (*place, branch)).collect();
            // Both are on their way before the first is answered; neither counts unless both do.
            let (inserted, stored) = join(
                insert(session, &first.parent, &placed),
                change.store(&first.parent, &record),
            )
            .await;
            inserted.and(stored)?;
        }
        Ok(answers)
    }
}

impl Work for Forget {
    type Output = u64;

    async fn run(&self, change: &mut Change<'_>) -> Result<u64, Failure> {
        let (found, state) = change.find();
        state.admit_forget(self)?;
        if self.mark {
            marks::leave(change.session(), &self.parent).await?;
        }
        let Some(mut record) = found.filter(|record| record.branches > 0) else {
            return Ok(0);
        };
        let removed = remove(change.session(), &self.parent).await?;
        record.branches = 0;
        change.store(&self.parent, &record).await?;
        Ok(removed)
    }

    fn is_exclusive(&self) -> bool {
        self.mark
    }
}

/// Adds edges at the given places, unless a child has got a parent since it was looked for.
pub(crate) async fn insert(
    session: &Session,
    parent: &ExecutionId,
    placed: &[(i64, &Branch)],
) -> Result<(), Failure> {
    // Everybody adds them in the same order, so that nobody waits in a circle.
    let mut placed = placed.to_vec();
    placed.sort_by(|one, other| one.1.child.cmp(&other.1.child));
    let children: Vec<&str> = placed
        .iter()
        .map(|(_, branch)| branch.child.as_str())
        .collect();
    let positions: Vec<i64> = placed.iter().map(|(position, _)| *position).collect();
    let labels: Vec<&[u8]> = placed
        .iter()
        .map(|(_, branch)| branch.label.as_bytes())
        .collect();
    let inserted = session
        .execute(INSERT, &[&children, &parent.as_str(), &positions, &labels])
        .await?;
    if inserted == placed.len() as u64 {
        Ok(())
    } else {
        Err(Failure::Again)
    }
}

/// The branches of a record that is held, in the order recorded.
pub(crate) async fn branches(
    session: &Session,
    id: &ExecutionId,
    record: &Record,
) -> Result<Vec<Branch>, Failure> {
    if record.branches == 0 {
        return Ok(Vec::new());
    }
    let rows = session.query(CHILDREN, &[&id.as_str()]).await?;
    rows.iter()
        .filter_map(|row| branch(row).transpose())
        .collect()
}

/// Removes the edges that start at a record that is held, and says how many there were.
pub(crate) async fn remove(session: &Session, parent: &ExecutionId) -> Result<u64, Failure> {
    Ok(session.execute(REMOVE, &[&parent.as_str()]).await?)
}

/// Where branches start, as the shard knows: by child.
pub(crate) async fn parents(
    session: &Session,
    children: &[&str],
) -> Result<AHashMap<String, ParentLink>, Failure> {
    let rows = session.query(PARENTS, &[&children]).await?;
    let known = rows.iter().map(|row| {
        let label = record::text(column(row, 2)?, "a branch's label")?;
        let link = ParentLink::new(record::id(row, 1)?, label);
        Ok((column::<String>(row, 0)?, link))
    });
    known.collect()
}

fn admit(rows: &[Row], epoch: Option<PlanEpoch>) -> Result<(), Failure> {
    let plan = record::plan(rows.first().ok_or_else(no_shard_row)?, 2)?;
    Ok(PlanEpoch::admit(plan, epoch)?)
}

/// Reads an id and a label; there are none where the row is there for the plan alone.
fn branch(row: &Row) -> Result<Option<Branch>, Failure> {
    if column::<Option<&str>>(row, 0)?.is_none() {
        return Ok(None);
    }
    let label = record::text(column(row, 1)?, "a branch's label")?;
    Ok(Some(Branch::new(record::id(row, 0)?, label)))
}

pub(crate) const CHILDREN: &str = "
    SELECT e.child, e.label, s.epoch, s.fingerprint
    FROM shard AS s LEFT JOIN edges AS e ON e.parent = $1
    WHERE s.one = 1
    ORDER BY e.position";

pub(crate) const PARENT: &str = "
    SELECT e.parent, e.label, s.epoch, s.fingerprint
    FROM shard AS s LEFT JOIN edges AS e ON e.child = $1
    WHERE s.one = 1";

const PARENTS: &str = "
    SELECT e.child, e.parent, e.label
    FROM unnest($1::text[]) AS i (child) JOIN edges AS e ON e.child = i.child COLLATE \"C\"";

const INSERT: &str = "
    INSERT INTO edges (child, parent, position, label)
    SELECT i.child, $2, i.position, i.label
    FROM unnest($1::text[], $3::int8[], $4::bytea[]) AS i (child, position, label)
    ON CONFLICT DO NOTHING";

const REMOVE: &str = "DELETE FROM edges WHERE parent = $1";
