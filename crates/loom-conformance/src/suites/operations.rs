//! Every operation of every trait, so that a case can go through them.

use std::time::Duration;

use loom_spi::{
    AcquireFence, Append, Children, Delete, ExecutionId, FenceToken, Forget, Head, Import, Inspect,
    List, Operation, Parent, PlanEpoch, Read, RecordLineage, Records, ReleaseLease, RenewLease,
    Retire, Seal, SealedRecord, StoreError, Unseal,
};

use crate::context::Cx;
use crate::outcome::Stop;
use crate::support::{event, id};

pub(super) const STORE: &[Operation] = &[
    Operation::Append,
    Operation::Read,
    Operation::Head,
    Operation::List,
    Operation::Delete,
];
pub(super) const FENCING: &[Operation] = &[
    Operation::AcquireFence,
    Operation::RenewLease,
    Operation::ReleaseLease,
];
pub(super) const LINEAGE: &[Operation] = &[
    Operation::RecordLineage,
    Operation::Children,
    Operation::Parent,
    Operation::Forget,
];
pub(super) const RELOCATION: &[Operation] = &[
    Operation::Inspect,
    Operation::Seal,
    Operation::Import,
    Operation::Retire,
    Operation::Unseal,
    Operation::Records,
];
const MINUTE: Duration = Duration::from_secs(60);

/// An execution on which every operation could be done.
pub(super) struct Subject {
    pub(super) id: ExecutionId,
    pub(super) child: ExecutionId,
    pub(super) token: Option<FenceToken>,
    /// A sealed record beside it, for what needs one.
    pub(super) sealed: Option<ExecutionId>,
}

/// Makes a subject, outside any plan.
pub(super) async fn subject(cx: &Cx, name: &str) -> Result<Subject, Stop> {
    let (id, child) = (id(name)?, id(format!("child of {name}"))?);
    let mut token = None;
    if let Ok(fencing) = cx.fencing() {
        let request = AcquireFence::new(id.clone()).with_holder("one".to_owned());
        token = Some(fencing.acquire_fence(request.with_lease(MINUTE)).await?);
    }
    let append = Append::new(id.clone(), 0, vec![event(0)]).with_fence(token);
    cx.store().append(append).await?;
    if let Ok(branches) = cx.branches() {
        let edge = RecordLineage::new(id.clone(), child.clone(), "label".to_owned());
        branches.record_lineage(edge).await?;
    }
    Ok(Subject {
        id,
        child,
        token,
        sealed: None,
    })
}

/// Makes a subject with a sealed record beside it, if the store knows of seals, outside any plan.
pub(super) async fn subject_and_sealed(cx: &Cx, name: &str) -> Result<Subject, Stop> {
    let mut subject = subject(cx, name).await?;
    if let Ok(relocation) = cx.relocation() {
        let id = id(format!("sealed beside {name}"))?;
        cx.append(&id, 0, 1).await?;
        relocation.seal(Seal::new(id.clone())).await?;
        subject.sealed = Some(id);
    }
    Ok(subject)
}

/// Does an operation under a plan. The outer result is about the case, the inner one the store's.
pub(super) async fn perform(
    cx: &Cx,
    operation: Operation,
    on: &Subject,
    epoch: Option<PlanEpoch>,
) -> Result<Result<(), StoreError>, Stop> {
    let (id, store) = (on.id.clone(), cx.store());
    let token = on.token.unwrap_or(FenceToken(1));
    Ok(match operation {
        Operation::Append => {
            let append = Append::new(id, 1, vec![event(1)]).with_fence(on.token);
            store.append(append.with_epoch(epoch)).await.map(drop)
        }
        Operation::Read => store
            .read(Read::new(id, 0, 9).with_epoch(epoch))
            .await
            .map(drop),
        Operation::Head => store.head(Head::new(id).with_epoch(epoch)).await.map(drop),
        Operation::List => store.list(List::new(9).with_epoch(epoch)).await.map(drop),
        Operation::Delete => store
            .delete(Delete::new(id).with_epoch(epoch))
            .await
            .map(drop),
        Operation::AcquireFence => {
            let request = AcquireFence::new(id).with_holder("one".to_owned());
            cx.fencing()?
                .acquire_fence(request.with_epoch(epoch))
                .await
                .map(drop)
        }
        Operation::RenewLease => {
            let request = RenewLease::new(id, token, MINUTE).with_epoch(epoch);
            cx.fencing()?.renew_lease(request).await
        }
        Operation::ReleaseLease => {
            let request = ReleaseLease::new(id, token).with_epoch(epoch);
            cx.fencing()?.release_lease(request).await
        }
        Operation::RecordLineage => {
            let child = crate::support::id(format!("second child of {id}"))?;
            let request = RecordLineage::new(id, child, "second".to_owned());
            cx.branches()?
                .record_lineage(request.with_epoch(epoch))
                .await
        }
        Operation::Children => cx
            .branches()?
            .children(Children::new(id).with_epoch(epoch))
            .await
            .map(drop),
        Operation::Parent => {
            let request = Parent::new(on.child.clone()).with_epoch(epoch);
            cx.branches()?.parent(request).await.map(drop)
        }
        Operation::Forget => cx
            .branches()?
            .forget(Forget::new(id).with_epoch(epoch))
            .await
            .map(drop),
        Operation::Inspect => cx
            .relocation()?
            .inspect(Inspect::new(id).with_epoch(epoch))
            .await
            .map(drop),
        Operation::Seal => cx
            .relocation()?
            .seal(Seal::new(id).with_epoch(epoch))
            .await
            .map(drop),
        Operation::Import => {
            let record = SealedRecord::new(None, Some(FenceToken(1)), vec![]);
            let absent = crate::support::id(format!("imported {id}"))?;
            let request = Import::new(absent, record, vec![]).with_epoch(epoch);
            cx.relocation()?.import(request).await.map(drop)
        }
        Operation::Retire => {
            let request = Retire::new(on.sealed.clone().unwrap_or(id));
            cx.relocation()?.retire(request.with_epoch(epoch)).await
        }
        Operation::Unseal => {
            let request = Unseal::new(on.sealed.clone().unwrap_or(id));
            cx.relocation()?.unseal(request.with_epoch(epoch)).await
        }
        Operation::Records => {
            let request = Records::new(9).with_epoch(epoch);
            cx.relocation()?.records(request).await.map(drop)
        }
        other => return Err(Stop::failed(format_args!("{other:?} carries no epoch"))),
    })
}

/// What the store holds of a subject, read under `epoch`.
pub(super) async fn state(cx: &Cx, on: &Subject, epoch: Option<PlanEpoch>) -> Result<String, Stop> {
    let request = Read::new(on.id.clone(), 0, 9).with_epoch(epoch);
    let log = cx.store().read(request).await?;
    let list = cx.store().list(List::new(9).with_epoch(epoch)).await?;
    let mut lineage = None;
    if let Ok(branches) = cx.branches() {
        let children = Children::new(on.id.clone()).with_epoch(epoch);
        let parent = Parent::new(on.child.clone()).with_epoch(epoch);
        lineage = Some((
            branches.children(children).await?,
            branches.parent(parent).await?,
        ));
    }
    let mut records = None;
    if let Ok(relocation) = cx.relocation() {
        let request = Records::new(9).with_epoch(epoch);
        records = Some(relocation.records(request).await?);
    }
    Ok(format!("{log:?} {list:?} {lineage:?} {records:?}"))
}

/// The operations that this store offers.
pub(super) fn offered(cx: &Cx) -> Vec<Operation> {
    let mut operations = STORE.to_vec();
    if cx.fencing().is_ok() {
        operations.extend(FENCING);
    }
    if cx.branches().is_ok() {
        operations.extend(LINEAGE);
    }
    if cx.relocation().is_ok() {
        operations.extend(RELOCATION);
    }
    operations
}
