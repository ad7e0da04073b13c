//! Putting the lineage of a record that is imported together with what is here of it.

use ahash::AHashMap;
use loom_spi::{Branch, ExecutionId, Import, ParentLink, StoreErrorKind};

use crate::failure::Failure;
use crate::lineage;
use crate::record::Record;
use crate::session::Session;

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
    pub(crate) async fn of(
        session: &Session,
        import: &Import,
        found: Option<&Record>,
    ) -> Result<Self, Failure> {
        let children: Vec<&str> = import
            .sealed
            .branches
            .iter()
            .map(|branch| branch.child.as_str())
            .collect();
        let mut parents = if children.is_empty() {
            AHashMap::new()
        } else {
            lineage::parents(session, &children).await?
        };
        let mut labels = AHashMap::with_capacity(import.sealed.branches.len());
        let mut branches = Vec::with_capacity(import.sealed.branches.len());
        for branch in &import.sealed.branches {
            let known = match labels.insert(&branch.child, &branch.label) {
                Some(label) => Some(ParentLink::new(import.id.clone(), label.as_str())),
                None => {
                    branches.push(branch.clone());
                    parents.remove(branch.child.as_str())
                }
            };
            refuse_other(known, &import.id, branch)?;
        }
        let here = match found {
            Some(record) => lineage::branches(session, &import.id, record).await?,
            None => Vec::new(),
        };
        let only_here = here
            .iter()
            .filter(|branch| !labels.contains_key(&branch.child));
        branches.extend(only_here.cloned());
        let changes = branches != here;
        Ok(Self { branches, changes })
    }

    /// Replaces the edges of a record.
    pub(crate) async fn write(&self, session: &Session, id: &ExecutionId) -> Result<(), Failure> {
        if !self.changes {
            return Ok(());
        }
        lineage::remove(session, id).await?;
        let placed: Vec<(i64, &Branch)> = (0..).zip(&self.branches).collect();
        lineage::insert(session, id, &placed).await
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
