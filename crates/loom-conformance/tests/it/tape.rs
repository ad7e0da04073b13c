//! A memory store that records what was done to it, and does it again when it is reopened.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use async_trait::async_trait;
use loom_spi::{
    AcquireFence, Append, Appended, Branch, BranchRegistry, Capabilities, Children, Delete,
    Deleted, EventStore, FenceToken, Fencing, Forget, Head, Import, Imported, Inspect, List,
    ListPage, LogHead, Parent, ParentLink, PlanLedger, Publish, PublishedPlan, Read, ReadPage,
    RecordLineage, RecordPage, RecordSummary, Records, ReleaseLease, Relocation, RenewLease,
    Retire, Seal, SealedRecord, ShardIdentity, ShardLocation, StoreError, Unseal,
};
use loom_store_memory::MemoryStore;

/// What gets lost when a store is reopened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The last append, which was never flushed.
    LastAppend,
    /// All events but the first of each append.
    HalfAppends,
    /// That events were terminal.
    TerminalMarks,
    /// When events were recorded.
    Times,
    /// Deletions.
    Deletes,
    /// Fences that were acquired.
    Fences,
    /// Fences that came with an append.
    FencesOfAppends,
    /// The order of branches.
    OrderOfBranches,
    /// That branches were forgotten.
    Forgets,
    /// The plan.
    Plan,
    /// All plans but the first.
    NewerPlans,
    /// The identity of the shard.
    Identity,
    /// The directory of shards.
    Directory,
    /// Seals.
    Seals,
    /// That seals were broken.
    Unseals,
    /// Retirements.
    Retirements,
    /// What was imported.
    Imports,
    /// The last part of an import.
    LastParts,
    /// That a log had not arrived as a whole.
    Wholeness,
    /// The order of branches that were imported.
    OrderOfImportedBranches,
    /// Who acquired a fence.
    Holders,
    /// Marks of what was deleted or forgotten.
    Marks,
    /// That a new plan cleared the marks.
    ClearedMarks,
}

impl Loss {
    /// Each with the case about durability that is sure to notice it.
    pub(crate) const ALL: [(Self, &'static str); 23] = [
        (Self::LastAppend, "the_last_append_survives"),
        (Self::HalfAppends, "logs_survive_with_every_event"),
        (Self::TerminalMarks, "closed_stays_closed"),
        (Self::Times, "listings_survive"),
        (Self::Deletes, "deleted_stays_deleted"),
        (Self::Fences, "fences_survive"),
        (
            Self::FencesOfAppends,
            "a_fence_that_an_append_brought_survives",
        ),
        (Self::OrderOfBranches, "lineage_survives_in_its_order"),
        (Self::Forgets, "what_was_forgotten_stays_forgotten"),
        (Self::Plan, "the_plan_survives_and_still_guards_the_store"),
        (
            Self::NewerPlans,
            "the_plan_survives_and_still_guards_the_store",
        ),
        (Self::Identity, "identity_and_directory_survive"),
        (Self::Directory, "identity_and_directory_survive"),
        (Self::Seals, "sealed_stays_sealed"),
        (Self::Unseals, "unsealed_stays_unsealed"),
        (Self::Retirements, "retired_stays_retired"),
        (Self::Imports, "what_arrived_survives"),
        (
            Self::LastParts,
            "a_move_goes_on_after_a_restart_at_any_step",
        ),
        (Self::Wholeness, "what_arrived_in_parts_is_never_half_there"),
        (
            Self::OrderOfImportedBranches,
            "the_order_of_merged_branches_survives",
        ),
        (Self::Holders, "the_holder_of_a_fence_survives"),
        (Self::Marks, "marks_survive"),
        (Self::ClearedMarks, "cleared_marks_stay_cleared"),
    ];
}

#[derive(Clone, Debug)]
enum Done {
    Append(Append),
    Delete(Delete),
    Acquire(AcquireFence, FenceToken),
    Record(RecordLineage),
    Forget(Forget),
    Publish(Publish),
    Initialize(ShardIdentity),
    Locations(Vec<ShardLocation>),
    Seal(Seal),
    Unseal(Unseal),
    Retire(Retire),
    Import(Import),
}

/// The store.
#[derive(Debug)]
pub(crate) struct Tape {
    store: RwLock<Arc<MemoryStore>>,
    done: Mutex<Vec<Done>>,
}

impl Tape {
    pub(crate) fn new() -> Self {
        Self {
            store: RwLock::new(Arc::new(MemoryStore::new())),
            done: Mutex::default(),
        }
    }

    fn store(&self) -> Arc<MemoryStore> {
        Arc::clone(&self.store.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn record(&self, done: Done) {
        let mut tape = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        tape.push(done);
    }

    /// Starts from nothing and does everything again, except for what is lost.
    pub(crate) async fn replay(&self, loss: Option<Loss>) -> Result<(), StoreError> {
        let mut tape = self
            .done
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(loss) = loss {
            lose(loss, &mut tape);
        }
        let new = MemoryStore::new();
        for done in tape {
            match done {
                Done::Append(request) => new.append(request).await.map(drop)?,
                Done::Delete(request) => new.delete(request).await.map(drop)?,
                Done::Acquire(request, token) => {
                    let request = request.with_floor(token).with_take_over(true);
                    new.acquire_fence(request).await.map(drop)?;
                }
                Done::Record(request) => new.record_lineage(request).await?,
                Done::Forget(request) => new.forget(request).await.map(drop)?,
                Done::Publish(request) => new.publish(request).await?,
                Done::Initialize(identity) => new.initialize(identity).await?,
                Done::Locations(locations) => new.record_locations(locations).await?,
                Done::Seal(request) => new.seal(request).await.map(drop)?,
                Done::Unseal(request) => new.unseal(request).await?,
                Done::Retire(request) => new.retire(request).await?,
                Done::Import(request) => new.import(request).await.map(drop)?,
            }
        }
        *self.store.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
        Ok(())
    }
}

fn lose(loss: Loss, tape: &mut Vec<Done>) {
    let mut plans = 0;
    let last = tape
        .iter()
        .rposition(|done| matches!(done, Done::Append(_)))
        .filter(|_| loss == Loss::LastAppend);
    if let Some(last) = last {
        tape.remove(last);
    }
    tape.retain_mut(|done| match (loss, done) {
        (Loss::HalfAppends, Done::Append(append)) => {
            append.events.truncate(1);
            // What does not fit any more was lost with the rest.
            append.expected == 0
        }
        (Loss::TerminalMarks, Done::Append(append)) => {
            for event in &mut append.events {
                event.terminal = false;
            }
            true
        }
        (Loss::Times, Done::Append(append)) => {
            for event in &mut append.events {
                event.recorded_at = loom_spi::Timestamp::from_millis(0);
            }
            true
        }
        (Loss::FencesOfAppends, Done::Append(append)) => {
            append.fence = None;
            true
        }
        (Loss::Deletes, Done::Delete(_))
        | (Loss::Fences, Done::Acquire(..))
        | (Loss::Forgets, Done::Forget(_))
        | (Loss::Plan, Done::Publish(_))
        | (Loss::Identity, Done::Initialize(_))
        | (Loss::Directory, Done::Locations(_))
        | (Loss::Seals, Done::Seal(_))
        | (Loss::Unseals, Done::Unseal(_))
        | (Loss::Retirements, Done::Retire(_))
        | (Loss::Imports, Done::Import(_)) => false,
        (Loss::LastParts, Done::Import(import)) => import.next_sequence() < import.sealed.events(),
        (Loss::Wholeness, Done::Import(import)) => {
            let (next, last) = (import.next_sequence(), import.events.last());
            if let (Some(head), Some(last)) = (&mut import.sealed.head, last) {
                (head.next_sequence, head.updated_at) = (next, last.recorded_at);
            }
            true
        }
        (Loss::OrderOfImportedBranches, Done::Import(import)) => {
            let branches = &mut import.sealed.branches;
            branches.sort_by(|a, b| a.child.cmp(&b.child));
            true
        }
        (Loss::Holders, Done::Acquire(request, _)) => {
            (request.holder, request.lease) = (None, None);
            true
        }
        (Loss::Marks, Done::Delete(request)) => {
            request.mark = false;
            true
        }
        (Loss::Marks, Done::Forget(request)) => {
            request.mark = false;
            true
        }
        (Loss::NewerPlans, Done::Publish(_)) => {
            plans += 1;
            plans == 1
        }
        _ => true,
    });
    if loss == Loss::OrderOfBranches {
        tape.reverse();
    }
    if loss == Loss::ClearedMarks {
        // As if what was deleted before the plan were only marked now.
        tape.sort_by_key(|done| matches!(done, Done::Delete(_)));
    }
    if loss == Loss::Deletes {
        // Without the deletions, what was created anew is still the old one.
        let mut known = std::collections::BTreeSet::new();
        tape.retain(|done| match done {
            Done::Append(append) => append.expected > 0 || known.insert(append.id.clone()),
            _ => true,
        });
    }
}

#[async_trait]
impl EventStore for Tape {
    async fn append(&self, request: Append) -> Result<Appended, StoreError> {
        let appended = self.store().append(request.clone()).await?;
        self.record(Done::Append(request));
        Ok(appended)
    }

    async fn read(&self, request: Read) -> Result<ReadPage, StoreError> {
        self.store().read(request).await
    }

    async fn head(&self, request: Head) -> Result<Option<LogHead>, StoreError> {
        self.store().head(request).await
    }

    async fn list(&self, request: List) -> Result<ListPage, StoreError> {
        self.store().list(request).await
    }

    async fn delete(&self, request: Delete) -> Result<Deleted, StoreError> {
        let deleted = self.store().delete(request.clone()).await?;
        self.record(Done::Delete(request));
        Ok(deleted)
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::none()
            .with_fencing(self)
            .with_ledger(self)
            .with_branches(self)
            .with_relocation(self)
    }
}

#[async_trait]
impl Relocation for Tape {
    async fn inspect(&self, request: Inspect) -> Result<Option<RecordSummary>, StoreError> {
        self.store().inspect(request).await
    }

    async fn seal(&self, request: Seal) -> Result<SealedRecord, StoreError> {
        let sealed = self.store().seal(request.clone()).await?;
        self.record(Done::Seal(request));
        Ok(sealed)
    }

    async fn import(&self, request: Import) -> Result<Imported, StoreError> {
        let imported = self.store().import(request.clone()).await?;
        self.record(Done::Import(request));
        Ok(imported)
    }

    async fn retire(&self, request: Retire) -> Result<(), StoreError> {
        self.store().retire(request.clone()).await?;
        self.record(Done::Retire(request));
        Ok(())
    }

    async fn unseal(&self, request: Unseal) -> Result<(), StoreError> {
        self.store().unseal(request.clone()).await?;
        self.record(Done::Unseal(request));
        Ok(())
    }

    async fn records(&self, request: Records) -> Result<RecordPage, StoreError> {
        self.store().records(request).await
    }
}

#[async_trait]
impl Fencing for Tape {
    async fn acquire_fence(&self, request: AcquireFence) -> Result<FenceToken, StoreError> {
        let token = self.store().acquire_fence(request.clone()).await?;
        self.record(Done::Acquire(request, token));
        Ok(token)
    }

    // Leases are not kept: they need not be.
    async fn renew_lease(&self, request: RenewLease) -> Result<(), StoreError> {
        self.store().renew_lease(request).await
    }

    async fn release_lease(&self, request: ReleaseLease) -> Result<(), StoreError> {
        self.store().release_lease(request).await
    }
}

#[async_trait]
impl PlanLedger for Tape {
    async fn current(&self) -> Result<Option<PublishedPlan>, StoreError> {
        self.store().current().await
    }

    async fn publish(&self, request: Publish) -> Result<(), StoreError> {
        self.store().publish(request.clone()).await?;
        self.record(Done::Publish(request));
        Ok(())
    }

    async fn identity(&self) -> Result<Option<ShardIdentity>, StoreError> {
        self.store().identity().await
    }

    async fn initialize(&self, identity: ShardIdentity) -> Result<(), StoreError> {
        self.store().initialize(identity.clone()).await?;
        self.record(Done::Initialize(identity));
        Ok(())
    }

    async fn directory(&self) -> Result<Vec<ShardLocation>, StoreError> {
        self.store().directory().await
    }

    async fn record_locations(&self, locations: Vec<ShardLocation>) -> Result<(), StoreError> {
        self.store().record_locations(locations.clone()).await?;
        self.record(Done::Locations(locations));
        Ok(())
    }
}

#[async_trait]
impl BranchRegistry for Tape {
    async fn record_lineage(&self, request: RecordLineage) -> Result<(), StoreError> {
        self.store().record_lineage(request.clone()).await?;
        self.record(Done::Record(request));
        Ok(())
    }

    async fn children(&self, request: Children) -> Result<Vec<Branch>, StoreError> {
        self.store().children(request).await
    }

    async fn parent(&self, request: Parent) -> Result<Option<ParentLink>, StoreError> {
        self.store().parent(request).await
    }

    async fn forget(&self, request: Forget) -> Result<u64, StoreError> {
        let forgotten = self.store().forget(request.clone()).await?;
        self.record(Done::Forget(request));
        Ok(forgotten)
    }
}
