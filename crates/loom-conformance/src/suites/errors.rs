//! Errors: what they say, and the difference between absent and out of reach.

use std::time::Duration;

use loom_spi::{
    AcquireFence, Append, Children, Delete, ExecutionId, FenceToken, Forget, Head, List, Operation,
    Parent, Publish, Read, RecordLineage, ReleaseLease, RenewLease, Require, StoreError,
    StoreErrorKind,
};

use super::ledger::{plan, publish, published};
use crate::context::Cx;
use crate::outcome::{Stop, Verdict, check, check_eq, check_refused};
use crate::support::{event, id, stored};

crate::macros::suite! { ($) Store errors as __errors;
    a_refused_append_is_named_in_full,
    a_refused_read_or_delete_is_named_in_full,
    a_refused_listing_is_named,
    a_refused_fence_or_lease_is_named_in_full,
    a_refused_edge_is_named_in_full,
    a_refused_publication_is_named,
    a_request_of_another_plan_is_named_in_full,
    what_cannot_be_reached_is_not_called_absent,
    capabilities_that_cannot_be_reached_say_so,
    an_append_that_was_cut_off_says_whether_it_happened,
}

/// Checks that a refusal says what was asked, of which execution, in its parts and in its text.
fn check_named<T>(
    result: Result<T, StoreError>,
    operation: Operation,
    ids: &[&ExecutionId],
) -> Verdict {
    let Err(error) = result else {
        return Err(Stop::failed(format_args!("{operation:?} was not refused")));
    };
    check_eq!(error.operation(), operation, "the operation in: {error}");
    let text = error.to_string();
    check!(
        text.starts_with(&format!("cannot {operation}")),
        "no operation in: {text}"
    );
    check!(
        text.ends_with(&error.kind().to_string()),
        "no reason in: {text}"
    );
    if !ids.is_empty() {
        let Some(named) = error.execution() else {
            return Err(Stop::failed(format_args!("no execution in: {text}")));
        };
        check!(ids.contains(&named), "the wrong execution in: {text}");
        check!(text.contains(named.as_str()), "no execution in: {text}");
    }
    Ok(())
}

async fn a_refused_append_is_named_in_full(cx: Cx) -> Verdict {
    let (here, closed, absent) = (id("here")?, id("closed")?, id("absent")?);
    cx.append(&here, 0, 1).await?;
    cx.close(&closed, 0).await?;
    check_named(cx.append(&here, 7, 1).await, Operation::Append, &[&here])?;
    check_named(
        cx.append(&absent, 7, 1).await,
        Operation::Append,
        &[&absent],
    )?;
    check_named(
        cx.append(&closed, 1, 1).await,
        Operation::Append,
        &[&closed],
    )?;
    check_named(cx.append(&here, 1, 0).await, Operation::Append, &[&here])?;
    check_named(
        cx.append(&absent, 0, 0).await,
        Operation::Append,
        &[&absent],
    )?;
    if let Ok(fencing) = cx.fencing() {
        fencing
            .acquire_fence(AcquireFence::new(here.clone()))
            .await?;
        check_named(cx.append(&here, 1, 1).await, Operation::Append, &[&here])?;
    }
    Ok(())
}

async fn a_refused_read_or_delete_is_named_in_full(cx: Cx) -> Verdict {
    let (here, absent) = (id("here")?, id("absent")?);
    cx.append(&here, 0, 1).await?;
    let read = cx.store().read(Read::new(absent.clone(), 0, 1)).await;
    check_named(read, Operation::Read, &[&absent])?;
    let read = cx.store().read(Read::new(here.clone(), 0, 0)).await;
    check_named(read, Operation::Read, &[&here])?;
    let delete = cx.store().delete(Delete::new(absent.clone())).await;
    check_named(delete, Operation::Delete, &[&absent])?;
    let delete = cx
        .store()
        .delete(Delete::new(here.clone()).with_expected(9))
        .await;
    check_named(delete, Operation::Delete, &[&here])
}

async fn a_refused_listing_is_named(cx: Cx) -> Verdict {
    check_named(cx.store().list(List::new(0)).await, Operation::List, &[])
}

async fn a_refused_fence_or_lease_is_named_in_full(cx: Cx) -> Verdict {
    let (here, absent) = (id("here")?, id("absent")?);
    let (fencing, minute) = (cx.fencing()?, Duration::from_secs(60));
    let request = AcquireFence::new(here.clone()).with_holder("one".to_owned());
    fencing.acquire_fence(request.with_lease(minute)).await?;
    let leased = fencing.acquire_fence(AcquireFence::new(here.clone())).await;
    check_named(leased, Operation::AcquireFence, &[&here])?;
    let require = AcquireFence::new(absent.clone()).with_require(Require::Exists);
    check_named(
        fencing.acquire_fence(require).await,
        Operation::AcquireFence,
        &[&absent],
    )?;
    let wrong = AcquireFence::new(absent.clone()).with_lease(minute);
    check_named(
        fencing.acquire_fence(wrong).await,
        Operation::AcquireFence,
        &[&absent],
    )?;
    let old = FenceToken(0);
    let renewal = RenewLease::new(here.clone(), old, minute);
    check_named(
        fencing.renew_lease(renewal).await,
        Operation::RenewLease,
        &[&here],
    )?;
    let renewal = RenewLease::new(absent.clone(), old, minute);
    check_named(
        fencing.renew_lease(renewal).await,
        Operation::RenewLease,
        &[&absent],
    )?;
    let release = ReleaseLease::new(here.clone(), old);
    check_named(
        fencing.release_lease(release).await,
        Operation::ReleaseLease,
        &[&here],
    )?;
    let release = ReleaseLease::new(absent.clone(), old);
    check_named(
        fencing.release_lease(release).await,
        Operation::ReleaseLease,
        &[&absent],
    )
}

async fn a_refused_edge_is_named_in_full(cx: Cx) -> Verdict {
    let (first, second, child) = (id("first")?, id("second")?, id("child")?);
    let branches = cx.branches()?;
    let edge = |parent: &ExecutionId| {
        RecordLineage::new(parent.clone(), child.clone(), "label".to_owned())
    };
    branches.record_lineage(edge(&first)).await?;
    let conflict = branches.record_lineage(edge(&second)).await;
    check_named(conflict, Operation::RecordLineage, &[&second, &child])?;
    let own = branches.record_lineage(edge(&child)).await;
    check_named(own, Operation::RecordLineage, &[&child])
}

async fn a_refused_publication_is_named(cx: Cx) -> Verdict {
    let request = Publish::new(published(plan(2, 1)), Some(plan(1, 1)));
    check_named(
        cx.ledger()?.publish(request).await,
        Operation::PublishPlan,
        &[],
    )
}

async fn a_request_of_another_plan_is_named_in_full(cx: Cx) -> Verdict {
    let (id, child, stale) = (id("order")?, id("child")?, plan(1, 7));
    publish(&cx, plan(2, 7), None).await?;
    let store = cx.store();
    let append = Append::new(id.clone(), 0, vec![event(0)]).with_epoch(stale);
    check_named(store.append(append).await, Operation::Append, &[&id])?;
    let read = Read::new(id.clone(), 0, 1).with_epoch(stale);
    check_named(store.read(read).await, Operation::Read, &[&id])?;
    let head = Head::new(id.clone()).with_epoch(stale);
    check_named(store.head(head).await, Operation::Head, &[&id])?;
    check_named(
        store.list(List::new(1).with_epoch(stale)).await,
        Operation::List,
        &[],
    )?;
    let delete = Delete::new(id.clone()).with_epoch(stale);
    check_named(store.delete(delete).await, Operation::Delete, &[&id])?;
    if let Ok(fencing) = cx.fencing() {
        let request = AcquireFence::new(id.clone()).with_epoch(stale);
        check_named(
            fencing.acquire_fence(request).await,
            Operation::AcquireFence,
            &[&id],
        )?;
    }
    if let Ok(branches) = cx.branches() {
        let edge = RecordLineage::new(id.clone(), child.clone(), String::new()).with_epoch(stale);
        let recorded = branches.record_lineage(edge).await;
        check_named(recorded, Operation::RecordLineage, &[&id, &child])?;
        let children = branches
            .children(Children::new(id.clone()).with_epoch(stale))
            .await;
        check_named(children, Operation::Children, &[&id])?;
        let parent = branches
            .parent(Parent::new(child.clone()).with_epoch(stale))
            .await;
        check_named(parent, Operation::Parent, &[&child])?;
        let forgotten = branches
            .forget(Forget::new(id.clone()).with_epoch(stale))
            .await;
        check_named(forgotten, Operation::Forget, &[&id])?;
    }
    Ok(())
}

async fn what_cannot_be_reached_is_not_called_absent(cx: Cx) -> Verdict {
    let (here, absent) = (id("here")?, id("absent")?);
    cx.append(&here, 0, 3).await?;
    cx.outage(true).await?;
    for id in [&here, &absent] {
        let delete = cx.store().delete(Delete::new(id.clone())).await.map(drop);
        for (what, result) in [
            ("head", cx.head(id).await.map(drop)),
            (
                "read",
                cx.store().read(Read::new(id.clone(), 0, 1)).await.map(drop),
            ),
            ("append", cx.append(id, 7, 1).await.map(drop)),
            ("delete", delete),
        ] {
            check_refused!(result, StoreErrorKind::Unavailable { .. }, "{what} of {id}");
        }
    }
    check_refused!(
        cx.store().list(List::new(10)).await,
        StoreErrorKind::Unavailable { .. },
        "listing"
    );
    cx.outage(false).await?;
    // A delete of unknown outcome may have happened; nothing else may have changed.
    let left = cx.length(&here).await?;
    check!(left == 3 || left == 0, "{left} of 3 events are left");
    Ok(())
}

async fn capabilities_that_cannot_be_reached_say_so(cx: Cx) -> Verdict {
    let (parent, child) = (id("incident")?, id("child")?);
    if let Ok(branches) = cx.branches() {
        let edge = RecordLineage::new(parent.clone(), child.clone(), String::new());
        branches.record_lineage(edge).await?;
    }
    cx.outage(true).await?;
    let mut results = Vec::new();
    if let Ok(fencing) = cx.fencing() {
        let request = AcquireFence::new(parent.clone()).with_require(Require::Exists);
        results.push(("acquire", fencing.acquire_fence(request).await.map(drop)));
    }
    if let Ok(branches) = cx.branches() {
        let children = branches.children(Children::new(parent.clone())).await;
        results.push(("children", children.map(drop)));
        let link = branches.parent(Parent::new(child.clone())).await;
        results.push(("parent", link.map(drop)));
    }
    if let Ok(ledger) = cx.ledger() {
        results.push(("plan", ledger.current().await.map(drop)));
        results.push(("identity", ledger.identity().await.map(drop)));
        results.push(("directory", ledger.directory().await.map(drop)));
    }
    for (what, result) in results {
        check_refused!(result, StoreErrorKind::Unavailable { .. }, "{what}");
    }
    Ok(())
}

async fn an_append_that_was_cut_off_says_whether_it_happened(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 2).await?;
    cx.outage(true).await?;
    let cut_off = cx.append(&id, 2, 3).await;
    cx.outage(false).await?;
    let happened_at_most = match cut_off {
        Ok(done) => return Err(Stop::failed(format_args!("nothing was cut off: {done:?}"))),
        Err(error) => match error.kind() {
            StoreErrorKind::Unavailable { outcome_known, .. } => !outcome_known,
            _ => return Err(error.into()),
        },
    };
    let length = cx.length(&id).await?;
    check!(
        length == 2 || (happened_at_most && length == 5),
        "the length is {length}, and the outcome was said to be known: {}",
        !happened_at_most
    );
    check_eq!(cx.log(&id).await?, stored(0, length), "the log");
    Ok(())
}
