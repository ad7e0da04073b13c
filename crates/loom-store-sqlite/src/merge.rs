//! Putting the lineage of a record that is imported together with what is here of it.

use ahash::AHashMap;
use loom_spi::{Branch, ExecutionId, Import, ParentLink, StoreErrorKind};

use crate::failure::Failure;
use crate::lineage;
use crate::record::Record;
use crate::writer::Transaction;

/// The edges that a record will have, and whether they are other ones than it has.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) branches: Vec<Branch>,
    pub(crate) changes: bool,
}

impl Merged {
    /// The branches of the import in its order, then those that only are here. Writes nothing.
    ///
    /// Refuses a branch that has another parent or label here.
    pub(crate) fn of(
        transaction: &mut Transaction<'_, '_>,
        import: &Import,
        found: Option<&Record>,
    ) -> Result<Self, Failure> {
        let mut labels = AHashMap::with_capacity(import.sealed.branches.len());
        let mut branches = Vec::with_capacity(import.sealed.branches.len());
        for branch in &import.sealed.branches {
            let known = match labels.insert(&branch.child, &branch.label) {
                Some(label) => Some(ParentLink::new(import.id.clone(), label.as_str())),
                None => {
                    branches.push(branch.clone());
                    let find_parent = &mut transaction.statements().find_parent;
                    lineage::parent(find_parent, &branch.child)?
                }
            };
            refuse_other(known, &import.id, branch)?;
        }
        let here = match found {
            Some(record) => lineage::branches(transaction.connection(), &import.id, record)?,
            None => Vec::new(),
        };
        let only_here = here
            .iter()
            .filter(|branch| !labels.contains_key(&branch.child));
        branches.extend(only_here.cloned());
        let changes = branches != here;
        Ok(Self { branches, changes })
    }

    /// Replaces the edges of a record, which has its number.
    pub(crate) fn write(
        &self,
        transaction: &mut Transaction<'_, '_>,
        record: &Record,
    ) -> Result<(), Failure> {
        if !self.changes {
            return Ok(());
        }
        lineage::remove(transaction.connection(), record)?;
        let insert_edge = &mut transaction.statements().insert_edge;
        for branch in &self.branches {
            insert_edge.execute((record.record, branch.child.as_str(), &branch.label))?;
        }
        Ok(())
    }
}

fn refuse_other(
    known: Option<ParentLink>,
    parent: &ExecutionId,
    branch: &Branch,
) -> Result<(), StoreErrorKind> {
    match known {
        Some(known) if known.parent != *parent || known.label != branch.label => {
            Err(StoreErrorKind::LineageConflict {
                parent: known.parent,
                label: known.label,
            })
        }
        _ => Ok(()),
    }
}
