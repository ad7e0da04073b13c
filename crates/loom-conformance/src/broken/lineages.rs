//! Lineage that goes wrong.

use async_trait::async_trait;
use loom_spi::{
    Branch, BranchRegistry, Children, ExecutionId, Forget, Operation, Parent, ParentLink,
    RecordLineage, StoreError, StoreErrorKind,
};

use super::notes::pause;
use super::{Fault, Mutant};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl BranchRegistry for Mutant {
    async fn record_lineage(&self, mut request: RecordLineage) -> Result<(), StoreError> {
        request.epoch = self.epoch(Operation::RecordLineage, request.epoch).await?;
        let (id, epoch) = (request.parent.clone(), request.epoch);
        let broken = self
            .break_seal(Operation::RecordLineage, &id, epoch)
            .await?;
        let recorded = self.record_wrongly(request).await;
        self.mend_seal(broken, &id, epoch).await;
        recorded.map_err(|error| self.error(error))
    }

    async fn children(&self, mut request: Children) -> Result<Vec<Branch>, StoreError> {
        request.epoch = self.epoch(Operation::Children, request.epoch).await?;
        request.parent = self.kept_apart(request.parent);
        if self.fault == Fault::SealedChildless
            && self.is_sealed(&request.parent, request.epoch).await?
        {
            return Ok(vec![]);
        }
        let found = self.branches(Operation::Children)?.children(request).await;
        let mut children = match found {
            Err(error) => match (self.fault, error.kind()) {
                (Fault::OutageHasNoBranches, StoreErrorKind::Unavailable { .. }) => vec![],
                _ => return Err(self.error(error)),
            },
            Ok(children) => children,
        };
        match self.fault {
            Fault::ChildrenSorted => children.sort_by(|a, b| a.child.cmp(&b.child)),
            Fault::ChildrenFirstPage => children.truncate(100),
            _ => {}
        }
        Ok(children)
    }

    async fn parent(&self, mut request: Parent) -> Result<Option<ParentLink>, StoreError> {
        request.epoch = self.epoch(Operation::Parent, request.epoch).await?;
        let child = request.child.clone();
        let found = self.branches(Operation::Parent)?.parent(request).await;
        let link = found.map_err(|error| self.error(error))?;
        if self.fault == Fault::ImportLosesParents && self.notes().moves.orphans.contains(&child) {
            return Ok(None);
        }
        if self.fault == Fault::ForgetKeepsParents && link.is_none() {
            return Ok(self.notes().links.get(&child).cloned());
        }
        Ok(link.map(|link| ParentLink::new(self.as_given(link.parent), link.label)))
    }

    async fn forget(&self, mut request: Forget) -> Result<u64, StoreError> {
        request.epoch = self.epoch(Operation::Forget, request.epoch).await?;
        request.parent = self.kept_apart(request.parent);
        let branches = self.branches(Operation::Forget)?;
        if self.fault == Fault::ForgetDoesNothing {
            let children = Children::new(request.parent).with_epoch(request.epoch);
            return Ok(branches.children(children).await?.len() as u64);
        }
        let (id, epoch) = (request.parent.clone(), request.epoch);
        let none = match self.fault {
            Fault::ForgetOfNothingLeavesNoMark => self.real_branches(&id, epoch).await?.is_empty(),
            fault => fault == Fault::ForgetLeavesNoMark,
        };
        let asked = request.mark;
        request.mark = self.mark_wrongly(&id, asked, none);
        request.mark |= self.fault == Fault::ForgetAlwaysMarks;
        let broken = self.break_seal(Operation::Forget, &id, epoch).await?;
        let count = branches.forget(request).await;
        self.mend_seal(broken, &id, epoch).await;
        let count = count.map_err(|error| self.error(error))?;
        self.marked(&id, asked && self.fault != Fault::RefusedDeleteMarks);
        Ok(match self.fault {
            Fault::ForgetCountsNothing => 0,
            _ => count,
        })
    }
}

const APART: &str = "lineage of ";

impl Mutant {
    /// The record that holds the edges of `parent`.
    fn kept_apart(&self, parent: ExecutionId) -> ExecutionId {
        match self.fault {
            Fault::LineageUnwired => ExecutionId::new(format!("{APART}{parent}")).unwrap_or(parent),
            _ => parent,
        }
    }

    fn as_given(&self, parent: ExecutionId) -> ExecutionId {
        let apart = parent.as_str().strip_prefix(APART);
        match apart.filter(|_| self.fault == Fault::LineageUnwired) {
            Some(given) => ExecutionId::new(given).unwrap_or(parent),
            None => parent,
        }
    }

    async fn record_wrongly(&self, mut request: RecordLineage) -> Result<(), StoreError> {
        let branches = self.branches(Operation::RecordLineage)?;
        let given = ParentLink::new(request.parent.clone(), request.label.as_str());
        let child = request.child.clone();
        let looked_up = Parent::new(child.clone()).with_epoch(request.epoch);
        let (known, mut free) = (looked_up.clone(), false);
        request.parent = self.kept_apart(request.parent);
        match self.fault {
            Fault::LabelLost => request.label.clear(),
            Fault::RequireIgnoredByLineage => request.require = loom_spi::Require::Nothing,
            Fault::LabelTruncated => {
                request
                    .label
                    .truncate(request.label.floor_char_boundary(255));
            }
            Fault::OwnBranchAccepted if request.parent == child => return Ok(()),
            Fault::EdgeNotIdempotent => {
                if let Some(link) = branches.parent(looked_up).await? {
                    let (parent, label) = (link.parent, link.label);
                    let kind = StoreErrorKind::LineageConflict { parent, label };
                    let error = StoreError::new(Operation::RecordLineage, kind);
                    return Err(error.with_execution(&child));
                }
            }
            Fault::LineageNotAtomic => {
                free = branches.parent(looked_up).await?.is_none();
                pause().await;
            }
            _ => {}
        }
        match branches.record_lineage(request).await {
            Err(error) => match (self.fault, error.kind()) {
                (Fault::SealSparesKnownEdges, StoreErrorKind::Sealed) => {
                    match branches.parent(known).await? {
                        Some(link) if link == given => Ok(()),
                        _ => Err(error),
                    }
                }
                (Fault::LineageNotAtomic, StoreErrorKind::LineageConflict { .. }) if free => Ok(()),
                (Fault::SecondParentAccepted, StoreErrorKind::LineageConflict { parent, .. })
                    if *parent != given.parent =>
                {
                    Ok(())
                }
                (Fault::SecondLabelAccepted, StoreErrorKind::LineageConflict { parent, .. })
                    if *parent == given.parent =>
                {
                    Ok(())
                }
                _ => Err(error),
            },
            Ok(()) => {
                self.notes().links.insert(child, given);
                Ok(())
            }
        }
    }
}
