//! Which execution branched off which.

use std::collections::{BTreeSet, HashMap};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use async_trait::async_trait;
use loom_spi::{
    Branch, BranchRegistry, Children, ExecutionId, Forget, Operation, Parent, ParentLink,
    PlanEpoch, RecordLineage, StoreError, StoreErrorKind,
};

use crate::MemoryStore;
use crate::store::refused;
use crate::stripes::{COUNT, stripe_of};

/// The edges seen from the child: an index over the edges that the parents' records hold.
pub(crate) struct Parents(Box<[RwLock<ParentStripe>; COUNT]>);

#[derive(Default)]
pub(crate) struct ParentStripe {
    /// A copy of the ledger's plan, as in a stripe of records.
    pub(crate) plan: Option<PlanEpoch>,
    links: HashMap<ExecutionId, ParentLink, ahash::RandomState>,
}

impl Parents {
    pub(crate) fn new() -> Self {
        Self(Box::new(std::array::from_fn(|_| RwLock::default())))
    }

    /// Locks everything for writing, in ascending order.
    pub(crate) fn write_all(&self) -> Vec<RwLockWriteGuard<'_, ParentStripe>> {
        (0..COUNT).map(|stripe| self.write(stripe)).collect()
    }

    fn read(&self, child: &ExecutionId) -> RwLockReadGuard<'_, ParentStripe> {
        self.0[place(child)]
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, stripe: usize) -> RwLockWriteGuard<'_, ParentStripe> {
        self.0[stripe]
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(child: &ExecutionId) -> usize {
    stripe_of(child.route_hash().index_key())
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl BranchRegistry for MemoryStore {
    async fn record_lineage(&self, request: RecordLineage) -> Result<(), StoreError> {
        self.record_edge(&request)
            .map_err(refused(Operation::RecordLineage, &request.parent))
    }

    async fn children(&self, request: Children) -> Result<Vec<Branch>, StoreError> {
        let (stripe, position) = self.stripes.read(&request.parent);
        stripe
            .admit(request.epoch)
            .map_err(refused(Operation::Children, &request.parent))?;
        let record = stripe.records.get(&position);
        Ok(record.map_or_else(Vec::new, |record| record.branches().to_vec()))
    }

    async fn parent(&self, request: Parent) -> Result<Option<ParentLink>, StoreError> {
        let parents = self.parents.read(&request.child);
        PlanEpoch::admit(parents.plan, request.epoch)
            .map_err(refused(Operation::Parent, &request.child))?;
        Ok(parents.links.get(&request.child).cloned())
    }

    async fn forget(&self, request: Forget) -> Result<u64, StoreError> {
        let (mut stripe, position) = self.stripes.write(&request.parent);
        stripe
            .admit(request.epoch)
            .map_err(refused(Operation::Forget, &request.parent))?;
        let Some(record) = stripe.records.get_mut(&position) else {
            return Ok(0);
        };
        let branches = record.take_branches();
        if record.is_empty() {
            stripe.records.remove(&position);
        }
        // All at once, so that nobody sees a parent that has lost some of its branches.
        let places: BTreeSet<usize> = branches.iter().map(|branch| place(&branch.child)).collect();
        let mut parents: Vec<_> = places
            .iter()
            .map(|place| self.parents.write(*place))
            .collect();
        let places: Vec<usize> = places.into_iter().collect();
        for branch in &branches {
            if let Ok(index) = places.binary_search(&place(&branch.child)) {
                parents[index].links.remove(&branch.child);
            }
        }
        Ok(branches.len() as u64)
    }
}

impl MemoryStore {
    fn record_edge(&self, request: &RecordLineage) -> Result<(), StoreErrorKind> {
        request.check()?;
        let (mut stripe, position) = self.stripes.write(&request.parent);
        stripe.admit(request.epoch)?;
        let mut parents = self.parents.write(place(&request.child));
        let link = ParentLink::new(request.parent.clone(), request.label.as_str());
        match parents.links.get(&request.child) {
            Some(known) if *known == link => return Ok(()),
            Some(known) => {
                return Err(StoreErrorKind::LineageConflict {
                    parent: known.parent.clone(),
                    label: known.label.clone(),
                });
            }
            None => {}
        }
        parents.links.insert(request.child.clone(), link);
        let branch = Branch::new(request.child.clone(), request.label.as_str());
        let record = stripe.records.entry(position).or_default();
        record.push_branch(branch);
        Ok(())
    }
}
