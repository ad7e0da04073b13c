//! Which execution branched off which.

use std::collections::{BTreeSet, HashMap};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use async_trait::async_trait;
use loom_spi::{
    Branch, BranchRegistry, Children, ExecutionId, Forget, Operation, Parent, ParentLink,
    PlanEpoch, RecordLineage, RecordState, StoreError, StoreErrorKind,
};

use crate::MemoryStore;
use crate::record::Record;
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

/// The locked stripes of some children.
pub(crate) struct Links<'a> {
    places: Vec<usize>,
    stripes: Vec<RwLockWriteGuard<'a, ParentStripe>>,
}

impl Parents {
    /// Locks the stripes of the children of `branches`, all at once, so that nobody sees a parent that has
    /// lost, or got, only some of them.
    pub(crate) fn of(&self, branches: &[Branch]) -> Links<'_> {
        let places: BTreeSet<usize> = branches.iter().map(|branch| place(&branch.child)).collect();
        Links {
            stripes: places.iter().map(|place| self.write(*place)).collect(),
            places: places.into_iter().collect(),
        }
    }
}

impl Links<'_> {
    /// Refuses children that have another parent or another label, and says whether all are known.
    pub(crate) fn admit(
        &self,
        parent: &ExecutionId,
        branches: &[Branch],
    ) -> Result<bool, StoreErrorKind> {
        let mut all_known = true;
        for branch in branches {
            let known = self.place_of(branch).and_then(|index| {
                let links = &self.stripes.get(index)?.links;
                links.get(&branch.child)
            });
            match known {
                Some(known) if known.parent != *parent || known.label != branch.label => {
                    return Err(StoreErrorKind::LineageConflict {
                        parent: known.parent.clone(),
                        label: known.label.clone(),
                    });
                }
                Some(_) => {}
                None => all_known = false,
            }
        }
        Ok(all_known)
    }

    pub(crate) fn insert(&mut self, parent: &ExecutionId, branches: &[Branch]) {
        for branch in branches {
            if let Some(index) = self.place_of(branch) {
                let link = ParentLink::new(parent.clone(), branch.label.as_str());
                self.stripes[index].links.insert(branch.child.clone(), link);
            }
        }
    }

    pub(crate) fn remove(&mut self, branches: &[Branch]) {
        for branch in branches {
            if let Some(index) = self.place_of(branch) {
                self.stripes[index].links.remove(&branch.child);
            }
        }
    }

    fn place_of(&self, branch: &Branch) -> Option<usize> {
        self.places.binary_search(&place(&branch.child)).ok()
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
        let plan = stripe.plan;
        let record = stripe.records.get_mut(&position);
        let state = record.as_ref().map_or_else(
            || RecordState::new().with_plan(plan),
            |record| record.state(plan),
        );
        state
            .admit_forget(&request)
            .map_err(refused(Operation::Forget, &request.parent))?;
        let branches = record.map_or_else(Vec::new, Record::take_branches);
        if stripe.records.get(&position).is_some_and(Record::is_empty) {
            stripe.records.remove(&position);
        }
        if request.mark {
            stripe.arrivals.mark(&request.parent);
        }
        self.parents.of(&branches).remove(&branches);
        Ok(branches.len() as u64)
    }
}

impl MemoryStore {
    fn record_edge(&self, request: &RecordLineage) -> Result<(), StoreErrorKind> {
        let (mut stripe, position) = self.stripes.write(&request.parent);
        let plan = stripe.plan;
        let record = stripe.records.get(&position);
        let state = record.map_or_else(
            || RecordState::new().with_plan(plan),
            |record| record.state(plan),
        );
        state.admit_lineage(request)?;
        let branch = [Branch::new(request.child.clone(), request.label.as_str())];
        let mut links = self.parents.of(&branch);
        let known = links.admit(&request.parent, &branch)?;
        let record = stripe.records.entry(position).or_default();
        if !known {
            links.insert(&request.parent, &branch);
            let [branch] = branch;
            record.push_branch(branch);
        }
        Ok(())
    }
}
