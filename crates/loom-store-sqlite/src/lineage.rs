//! Lineage: the edges that start at an execution, which are part of its record.

use async_trait::async_trait;
use loom_spi::{
    Branch, BranchRegistry, Children, ExecutionId, Forget, Operation, Parent, ParentLink,
    RecordLineage, StoreError, StoreErrorKind,
};
use rusqlite::{Connection, Statement};

use crate::SqliteStore;
use crate::failure::Failure;
use crate::head::admit;
use crate::marks;
use crate::readers::Size;
use crate::record::{self, Record};
use crate::writer::{Transaction, Work};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl BranchRegistry for SqliteStore {
    async fn record_lineage(&self, request: RecordLineage) -> Result<(), StoreError> {
        let parent = request.parent.clone();
        self.change(Operation::RecordLineage, &parent, request)
            .await
    }

    async fn children(&self, request: Children) -> Result<Vec<Branch>, StoreError> {
        let parent = request.parent.clone();
        self.look(
            Operation::Children,
            Some(&parent),
            Size::Many,
            move |reader| {
                reader.snapshot(|| {
                    admit(reader, request.epoch)?;
                    children(&mut *reader.statement(CHILDREN)?, &request.parent)
                })
            },
        )
        .await
    }

    async fn parent(&self, request: Parent) -> Result<Option<ParentLink>, StoreError> {
        let child = request.child.clone();
        self.look(Operation::Parent, Some(&child), Size::Few, move |reader| {
            reader.snapshot(|| {
                admit(reader, request.epoch)?;
                parent(&mut *reader.statement(PARENT)?, &request.child)
            })
        })
        .await
    }

    async fn forget(&self, request: Forget) -> Result<u64, StoreError> {
        let parent = request.parent.clone();
        self.change(Operation::Forget, &parent, request).await
    }
}

impl Work for RecordLineage {
    type Output = ();

    fn run(&self, transaction: &mut Transaction<'_, '_>) -> Result<(), Failure> {
        let (found, state) = transaction.find(&self.parent)?;
        state.admit_lineage(self)?;
        let statements = transaction.statements();
        if let Some(known) = parent(&mut statements.find_parent, &self.child)? {
            let ParentLink { parent, label, .. } = known;
            return if parent == self.parent && label == self.label {
                Ok(())
            } else {
                Err(StoreErrorKind::LineageConflict { parent, label }.into())
            };
        }
        let is_new = found.is_none();
        let mut record = found.unwrap_or_default();
        record.branches += 1;
        if is_new {
            record.insert(&mut statements.insert_record, &self.parent)?;
        } else {
            record.update(&mut statements.update_record)?;
        }
        let edge = (record.record, self.child.as_str(), &self.label);
        statements.insert_edge.execute(edge)?;
        transaction.remember(&self.parent, record);
        Ok(())
    }
}

impl Work for Forget {
    type Output = u64;

    fn run(&self, transaction: &mut Transaction<'_, '_>) -> Result<u64, Failure> {
        let (found, state) = transaction.find(&self.parent)?;
        state.admit_forget(self)?;
        if self.mark {
            marks::leave(transaction, &self.parent)?;
        }
        let Some(mut record) = found else {
            return Ok(0);
        };
        if record.branches == 0 {
            return Ok(0);
        }
        let removed = remove(transaction.connection(), &record)?;
        record.branches = 0;
        transaction.store(&self.parent, record)?;
        Ok(removed as u64)
    }
}

/// The branches of a record, in the order recorded.
pub(crate) fn branches(
    connection: &Connection,
    id: &ExecutionId,
    record: &Record,
) -> Result<Vec<Branch>, Failure> {
    if record.branches == 0 {
        return Ok(Vec::new());
    }
    children(&mut *connection.prepare_cached(CHILDREN)?, id)
}

/// Removes the edges that start at a record, and says how many there were.
pub(crate) fn remove(connection: &Connection, record: &Record) -> Result<usize, rusqlite::Error> {
    connection.prepare_cached(FORGET)?.execute([record.record])
}

fn children(statement: &mut Statement<'_>, parent: &ExecutionId) -> Result<Vec<Branch>, Failure> {
    let mut rows = statement.query((parent.route_hash().index_key(), parent.as_str()))?;
    let mut branches = Vec::new();
    while let Some(row) = rows.next()? {
        branches.push(Branch::new(record::id(row, 0)?, row.get::<_, String>(1)?));
    }
    Ok(branches)
}

/// Where a branch starts, as the shard knows.
pub(crate) fn parent(
    statement: &mut Statement<'_>,
    child: &ExecutionId,
) -> Result<Option<ParentLink>, Failure> {
    let mut rows = statement.query([child.as_str()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    Ok(Some(ParentLink::new(
        record::id(row, 0)?,
        row.get::<_, String>(1)?,
    )))
}

pub(crate) const CHILDREN: &str = "
    SELECT e.child, e.label
    FROM records AS r CROSS JOIN edges AS e ON e.parent = r.record
    WHERE r.index_key = ?1 AND r.id = ?2
    ORDER BY e.position";

pub(crate) const PARENT: &str = "
    SELECT r.id, e.label
    FROM edges AS e CROSS JOIN records AS r ON r.record = e.parent
    WHERE e.child = ?1";

pub(crate) const FORGET: &str = "DELETE FROM edges WHERE parent = ?1";
