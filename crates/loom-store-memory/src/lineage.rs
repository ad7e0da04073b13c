//! Which execution branched off which.

use std::collections::hash_map::Entry as Known;
use std::collections::{BTreeSet, HashMap, btree_map};
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

/// The edges seen from the child. Their labels stand here alone: the parents' records hold the children and their order.
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

/// The locked stripes of some children, for writing.
pub(crate) struct Links<'a> {
    places: Vec<usize>,
    stripes: Vec<RwLockWriteGuard<'a, ParentStripe>>,
}

impl Parents {
    /// Locks the stripes of `children`, all at once, so that nobody sees a parent that has lost, or got, only
    /// some of them.
    pub(crate) fn of(&self, children: &[ExecutionId]) -> Links<'_> {
        let places: BTreeSet<usize> = children.iter().map(place).collect();
        Links {
            stripes: places.iter().map(|place| self.write(*place)).collect(),
            places: places.into_iter().collect(),
        }
    }

    /// The edges to `children`, which are those of one record that the caller has locked.
    pub(crate) fn branches(&self, children: &[ExecutionId]) -> Vec<Branch> {
        let branch = |child: &ExecutionId| {
            let stripe = self.read(child);
            // Every child of a record has its link.
            let label = stripe.links.get(child).map(|link| link.label.clone());
            Branch::new(child.clone(), label.unwrap_or_default())
        };
        children.iter().map(branch).collect()
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
            let known = self.place_of(&branch.child).and_then(|index| {
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
            if let Some(index) = self.place_of(&branch.child) {
                let link = ParentLink::new(parent.clone(), branch.label.as_str());
                self.stripes[index].links.insert(branch.child.clone(), link);
            }
        }
    }

    pub(crate) fn remove(&mut self, children: &[ExecutionId]) {
        for child in children {
            if let Some(index) = self.place_of(child) {
                self.stripes[index].links.remove(child);
            }
        }
    }

    fn place_of(&self, child: &ExecutionId) -> Option<usize> {
        self.places.binary_search(&place(child)).ok()
    }
}

fn place(child: &ExecutionId) -> usize {
    stripe_of(child.route_hash().index_key())
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl BranchRegistry for MemoryStore {
    async fn record_lineage(&self, request: RecordLineage) -> Result<(), StoreError> {
        let parent = request.parent.clone();
        self.record_edge(request)
            .map_err(refused(Operation::RecordLineage, &parent))
    }

    async fn children(&self, request: Children) -> Result<Vec<Branch>, StoreError> {
        let (stripe, position) = self.stripes.read(&request.parent);
        stripe
            .admit(request.epoch)
            .map_err(refused(Operation::Children, &request.parent))?;
        let record = stripe.records.get(&position);
        Ok(record.map_or_else(Vec::new, |record| self.parents.branches(record.children())))
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
        let children = record.map_or_else(Vec::new, Record::take_children);
        if stripe.records.get(&position).is_some_and(Record::is_empty) {
            stripe.records.remove(&position);
        }
        if request.mark {
            stripe.arrivals.mark(&request.parent);
        }
        self.parents.of(&children).remove(&children);
        Ok(children.len() as u64)
    }
}

impl MemoryStore {
    fn record_edge(&self, request: RecordLineage) -> Result<(), StoreErrorKind> {
        let (mut stripe, position) = self.stripes.write(&request.parent);
        let plan = stripe.plan;
        let place_of_record = stripe.records.entry(position);
        let state = match &place_of_record {
            btree_map::Entry::Vacant(_) => RecordState::new().with_plan(plan),
            btree_map::Entry::Occupied(record) => record.get().state(plan),
        };
        state.admit_lineage(&request)?;
        let RecordLineage {
            parent,
            child,
            label,
            ..
        } = request;
        let mut parents = self.parents.write(place(&child));
        match parents.links.entry(child.clone()) {
            Known::Occupied(known) => {
                let known = known.get();
                if known.parent != parent || known.label != label {
                    return Err(StoreErrorKind::LineageConflict {
                        parent: known.parent.clone(),
                        label: known.label.clone(),
                    });
                }
            }
            Known::Vacant(unknown) => {
                unknown.insert(ParentLink::new(parent, label));
                place_of_record.or_default().push_child(child);
            }
        }
        Ok(())
    }
}
