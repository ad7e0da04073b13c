//! A shard behind a network, with a store that may break a rule.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use loom_spi::{
    AcquireFence, Append, Appended, Branch, BranchRegistry, Capabilities, Children, Delete,
    Deleted, EventStore, ExecutionId, FenceToken, Fencing, Forget, Head, Import, Imported, Inspect,
    List, ListPage, LogHead, Operation, Parent, ParentLink, PlanEpoch, PlanLedger, Publish,
    PublishedPlan, Read, ReadPage, RecordLineage, RecordPage, RecordSummary, Records, ReleaseLease,
    Relocation, RenewLease, Retire, Seal, SealedRecord, ShardIdentity, ShardLocation, StoreError,
    StoreErrorKind, Unseal,
};
use loom_store_memory::MemoryStore;
use tokio::sync::oneshot;

use super::world::{Fate, World, pause};

/// A rule that a store keeps, which a run may switch off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StoreRule {
    /// A request is served only under the store's own plan.
    Epoch,
    /// A request outside a plan is refused from epoch 2 on.
    OutsidePlan,
    /// A plan is published by compare and set.
    CompareAndSet,
    /// A sealed record takes no appends.
    SealedAppend,
    /// A sealed record is not deleted.
    SealedDelete,
    /// A sealed record's fence is not acquired.
    SealedFence,
    /// A sealed record gets no edges.
    SealedRecording,
    /// A sealed record does not lose its edges.
    SealedForgetting,
    /// An import into a record without a log keeps what is there.
    ImportMerges,
    /// A delete keeps the fence.
    DeleteKeepsFence,
    /// A marked id is not imported.
    ImportMarked,
    /// An import becomes visible in one step.
    ImportWhole,
    /// An import raises the fence to its own.
    ImportFence,
    /// Only a sealed record is retired.
    RetireSealed,
    /// Records without a log are listed among the records.
    RecordsWhole,
}

#[derive(Clone)]
pub(super) struct SimShard {
    pub(super) number: u16,
    pub(super) store: Arc<MemoryStore>,
    pub(super) world: World,
    pub(super) breaks: Option<StoreRule>,
}

impl std::fmt::Debug for SimShard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimShard({})", self.number)
    }
}

impl SimShard {
    /// Sends a request, which takes effect although its caller may be gone by then.
    async fn call<T, F>(
        &self,
        operation: Operation,
        id: Option<&ExecutionId>,
        effect: impl FnOnce(Self) -> F + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + std::fmt::Debug + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let fate = self.world.fate(usize::from(self.number));
        let lost = |outcome_known| {
            let kind = StoreErrorKind::Unavailable {
                reason: format!("{fate:?}"),
                outcome_known,
            };
            let error = StoreError::new(operation, kind);
            match id {
                Some(id) => error.with_execution(id),
                None => error,
            }
        };
        match fate {
            Fate::Down => {
                pause().await;
                return Err(lost(true));
            }
            Fate::LostRequest => {
                self.world.pauses(6).await;
                return Err(lost(false));
            }
            Fate::Arrives | Fate::Slow | Fate::LostAnswer | Fate::Late => {}
        }
        let (answer, answered) = oneshot::channel();
        let (shard, named) = (self.clone(), id.cloned());
        self.world.send(Box::pin(async move {
            let world = shard.world.clone();
            let number = shard.number;
            let slow = matches!(fate, Fate::Late | Fate::Slow);
            world.pauses(if slow { 120 } else { 2 }).await;
            let done = effect(shard).await;
            world.note(|| {
                let id = named.as_ref().map_or("", ExecutionId::as_str);
                format!("  shard {number}: {operation:?} {id} -> {done:?} ({fate:?})")
            });
            world.pauses(2).await;
            if matches!(fate, Fate::Arrives | Fate::Slow) {
                // Its caller may be gone.
                let _ = answer.send(done);
            }
        }));
        if fate == Fate::Late {
            self.world.pauses(6).await;
            return Err(lost(false));
        }
        answered.await.unwrap_or_else(|_| Err(lost(false)))
    }

    fn breaks(&self, rule: StoreRule) -> bool {
        self.breaks == Some(rule)
    }

    /// The plan to present to the store.
    async fn epoch(&self, presented: Option<PlanEpoch>) -> Option<PlanEpoch> {
        let ignored = self.breaks(StoreRule::Epoch)
            || (presented.is_none() && self.breaks(StoreRule::OutsidePlan));
        if !ignored {
            return presented;
        }
        let current = self.store.current().await;
        current.ok().flatten().map(|plan| plan.epoch)
    }

    /// Makes a change although the record is sealed.
    async fn forced<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        rule: StoreRule,
        id: &ExecutionId,
        epoch: Option<PlanEpoch>,
        change: impl Fn() -> F,
    ) -> Result<T, StoreError> {
        let answer = change().await;
        let sealed = |error: &StoreError| matches!(error.kind(), StoreErrorKind::Sealed);
        if !self.breaks(rule) || !answer.as_ref().is_err_and(sealed) {
            return answer;
        }
        self.store
            .unseal(Unseal::new(id.clone()).with_epoch(epoch))
            .await?;
        let answer = change().await;
        let _ = self
            .store
            .seal(Seal::new(id.clone()).with_epoch(epoch))
            .await;
        answer
    }

    /// Removes what is left of a record that has no log.
    async fn drop_without_log(
        &self,
        id: &ExecutionId,
        epoch: Option<PlanEpoch>,
    ) -> Result<(), StoreError> {
        let inspect = Inspect::new(id.clone()).with_epoch(epoch);
        let record = self.store.inspect(inspect).await?;
        if record.is_some_and(|record| record.head.is_none() && !record.sealed) {
            let seal = Seal::new(id.clone()).with_epoch(epoch);
            self.store.seal(seal).await?;
            let retire = Retire::new(id.clone()).with_epoch(epoch);
            self.store.retire(retire).await?;
        }
        Ok(())
    }

    async fn import_now(&self, mut request: Import) -> Result<Imported, StoreError> {
        request.epoch = self.epoch(request.epoch).await;
        if self.breaks(StoreRule::ImportMerges) {
            self.drop_without_log(&request.id, request.epoch).await?;
        }
        if self.breaks(StoreRule::ImportFence) {
            request.sealed.fence = None;
        }
        if self.breaks(StoreRule::ImportWhole)
            && request.first_sequence() == 0
            && request.events.len() > 1
            && let Some(head) = request.sealed.head
        {
            // The first event is visible before the others are.
            let first = request.events[0].clone();
            let one = LogHead::new(
                1,
                loom_spi::ExecutionState::Open,
                first.recorded_at,
                first.recorded_at,
            );
            let mut part = request.clone();
            part.sealed.head = Some(one.with_sealed(head.sealed));
            part.events = vec![first];
            self.store.import(part).await?;
            for _ in 0..6 {
                pause().await;
            }
            let epoch = request.epoch;
            let id = request.id.clone();
            // Nothing but the first event: it is replaced by the whole.
            if let Ok(Some(head)) = self
                .store
                .head(Head::new(id.clone()).with_epoch(epoch))
                .await
                && head.next_sequence == 1
            {
                self.store
                    .seal(Seal::new(id.clone()).with_epoch(epoch))
                    .await?;
                self.store.retire(Retire::new(id).with_epoch(epoch)).await?;
            }
        }
        self.store.import(request).await
    }
}

#[async_trait]
impl EventStore for SimShard {
    async fn append(&self, request: Append) -> Result<Appended, StoreError> {
        let id = request.id.clone();
        self.call(Operation::Append, Some(&id), |shard| async move {
            let epoch = shard.epoch(request.epoch).await;
            let request = request.with_epoch(epoch);
            let append = || shard.store.append(request.clone());
            shard
                .forced(StoreRule::SealedAppend, &request.id, epoch, append)
                .await
        })
        .await
    }

    async fn read(&self, mut request: Read) -> Result<ReadPage, StoreError> {
        let id = request.id.clone();
        self.call(Operation::Read, Some(&id), |shard| async move {
            request.epoch = shard.epoch(request.epoch).await;
            shard.store.read(request).await
        })
        .await
    }

    async fn head(&self, mut request: Head) -> Result<Option<LogHead>, StoreError> {
        let id = request.id.clone();
        self.call(Operation::Head, Some(&id), |shard| async move {
            request.epoch = shard.epoch(request.epoch).await;
            shard.store.head(request).await
        })
        .await
    }

    async fn list(&self, mut request: List) -> Result<ListPage, StoreError> {
        self.call(Operation::List, None, |shard| async move {
            request.epoch = shard.epoch(request.epoch).await;
            shard.store.list(request).await
        })
        .await
    }

    async fn delete(&self, request: Delete) -> Result<Deleted, StoreError> {
        let id = request.id.clone();
        self.call(Operation::Delete, Some(&id), |shard| async move {
            let epoch = shard.epoch(request.epoch).await;
            let mut request = request.with_epoch(epoch);
            request.mark &= !shard.breaks(StoreRule::ImportMarked);
            let delete = || shard.store.delete(request.clone());
            let deleted = shard
                .forced(StoreRule::SealedDelete, &request.id, epoch, delete)
                .await?;
            if shard.breaks(StoreRule::DeleteKeepsFence) {
                shard.drop_without_log(&request.id, epoch).await?;
            }
            Ok(deleted)
        })
        .await
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::none()
            .with_limits(self.store.capabilities().limits)
            .with_fencing(self)
            .with_relocation(self)
            .with_ledger(self)
            .with_branches(self)
    }
}

#[async_trait]
impl Fencing for SimShard {
    async fn acquire_fence(&self, request: AcquireFence) -> Result<FenceToken, StoreError> {
        let id = request.id.clone();
        self.call(Operation::AcquireFence, Some(&id), |shard| async move {
            let epoch = shard.epoch(request.epoch).await;
            let request = request.with_epoch(epoch);
            let acquire = || shard.store.acquire_fence(request.clone());
            shard
                .forced(StoreRule::SealedFence, &request.id, epoch, acquire)
                .await
        })
        .await
    }

    async fn renew_lease(&self, request: RenewLease) -> Result<(), StoreError> {
        let id = request.id.clone();
        self.call(Operation::RenewLease, Some(&id), |shard| async move {
            shard.store.renew_lease(request).await
        })
        .await
    }

    async fn release_lease(&self, request: ReleaseLease) -> Result<(), StoreError> {
        let id = request.id.clone();
        self.call(Operation::ReleaseLease, Some(&id), |shard| async move {
            shard.store.release_lease(request).await
        })
        .await
    }
}

#[async_trait]
impl Relocation for SimShard {
    async fn inspect(&self, mut request: Inspect) -> Result<Option<RecordSummary>, StoreError> {
        let id = request.id.clone();
        self.call(Operation::Inspect, Some(&id), |shard| async move {
            request.epoch = shard.epoch(request.epoch).await;
            shard.store.inspect(request).await
        })
        .await
    }

    async fn seal(&self, mut request: Seal) -> Result<SealedRecord, StoreError> {
        let id = request.id.clone();
        self.call(Operation::Seal, Some(&id), |shard| async move {
            request.epoch = shard.epoch(request.epoch).await;
            shard.store.seal(request).await
        })
        .await
    }

    async fn import(&self, request: Import) -> Result<Imported, StoreError> {
        let id = request.id.clone();
        self.call(Operation::Import, Some(&id), |shard| async move {
            shard.import_now(request).await
        })
        .await
    }

    async fn retire(&self, mut request: Retire) -> Result<(), StoreError> {
        let id = request.id.clone();
        self.call(Operation::Retire, Some(&id), |shard| async move {
            request.epoch = shard.epoch(request.epoch).await;
            if shard.breaks(StoreRule::RetireSealed) {
                let seal = Seal::new(request.id.clone()).with_epoch(request.epoch);
                let _ = shard.store.seal(seal).await;
            }
            shard.store.retire(request).await
        })
        .await
    }

    async fn unseal(&self, mut request: Unseal) -> Result<(), StoreError> {
        let id = request.id.clone();
        self.call(Operation::Unseal, Some(&id), |shard| async move {
            request.epoch = shard.epoch(request.epoch).await;
            shard.store.unseal(request).await
        })
        .await
    }

    async fn records(&self, mut request: Records) -> Result<RecordPage, StoreError> {
        self.call(Operation::Records, None, |shard| async move {
            request.epoch = shard.epoch(request.epoch).await;
            let mut page = shard.store.records(request).await?;
            if shard.breaks(StoreRule::RecordsWhole) {
                page.records.retain(|record| record.head.is_some());
            }
            Ok(page)
        })
        .await
    }
}

#[async_trait]
impl BranchRegistry for SimShard {
    async fn record_lineage(&self, mut request: RecordLineage) -> Result<(), StoreError> {
        let id = request.parent.clone();
        self.call(Operation::RecordLineage, Some(&id), |shard| async move {
            request.epoch = shard.epoch(request.epoch).await;
            let record = || shard.store.record_lineage(request.clone());
            shard
                .forced(
                    StoreRule::SealedRecording,
                    &request.parent,
                    request.epoch,
                    record,
                )
                .await
        })
        .await
    }

    async fn children(&self, mut request: Children) -> Result<Vec<Branch>, StoreError> {
        let id = request.parent.clone();
        self.call(Operation::Children, Some(&id), |shard| async move {
            request.epoch = shard.epoch(request.epoch).await;
            shard.store.children(request).await
        })
        .await
    }

    async fn parent(&self, mut request: Parent) -> Result<Option<ParentLink>, StoreError> {
        let id = request.child.clone();
        self.call(Operation::Parent, Some(&id), |shard| async move {
            request.epoch = shard.epoch(request.epoch).await;
            shard.store.parent(request).await
        })
        .await
    }

    async fn forget(&self, mut request: Forget) -> Result<u64, StoreError> {
        let id = request.parent.clone();
        self.call(Operation::Forget, Some(&id), |shard| async move {
            request.epoch = shard.epoch(request.epoch).await;
            let forget = || shard.store.forget(request.clone());
            shard
                .forced(
                    StoreRule::SealedForgetting,
                    &request.parent,
                    request.epoch,
                    forget,
                )
                .await
        })
        .await
    }
}

#[async_trait]
impl PlanLedger for SimShard {
    async fn current(&self) -> Result<Option<PublishedPlan>, StoreError> {
        self.call(Operation::CurrentPlan, None, |shard| async move {
            shard.store.current().await
        })
        .await
    }

    async fn publish(&self, mut request: Publish) -> Result<(), StoreError> {
        self.call(Operation::PublishPlan, None, |shard| async move {
            if shard.breaks(StoreRule::CompareAndSet) {
                let current = shard.store.current().await?;
                request.expected = current.map(|plan| plan.epoch);
            }
            shard.store.publish(request).await
        })
        .await
    }

    async fn identity(&self) -> Result<Option<ShardIdentity>, StoreError> {
        self.call(Operation::Identity, None, |shard| async move {
            shard.store.identity().await
        })
        .await
    }

    async fn initialize(&self, identity: ShardIdentity) -> Result<(), StoreError> {
        self.call(Operation::Identity, None, |shard| async move {
            shard.store.initialize(identity).await
        })
        .await
    }

    async fn directory(&self) -> Result<Vec<ShardLocation>, StoreError> {
        self.call(Operation::Directory, None, |shard| async move {
            shard.store.directory().await
        })
        .await
    }

    async fn record_locations(&self, locations: Vec<ShardLocation>) -> Result<(), StoreError> {
        self.call(Operation::Directory, None, |shard| async move {
            shard.store.record_locations(locations).await
        })
        .await
    }
}
