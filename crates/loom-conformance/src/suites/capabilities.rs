//! A capability that is offered works on the same records as the store: what a wrapper gets wrong first.

use loom_spi::{
    AcquireFence, Append, Branch, Children, Delete, Head, Parent, ParentLink, RecordLineage,
    Require, StoreErrorKind,
};

use super::ledger::{plan, publish};
use super::moving::{Packed, acquire, branches, children, inspect, record, retire, seal};
use crate::context::Cx;
use crate::outcome::{Verdict, check, check_eq, check_refused};
use crate::support::{event, id, stored};

crate::macros::suite! { ($) Store capabilities as __capabilities;
    capabilities_stay_the_same,
    limits_leave_room_for_an_event,
    a_fence_guards_the_store_that_handed_it_out,
    a_token_seen_by_the_store_counts_for_the_fence,
    an_edge_is_part_of_the_record_of_its_parent,
    deleting_a_log_keeps_the_lineage,
    a_plan_guards_the_store_that_keeps_it,
    a_seal_guards_the_store_that_offers_it,
    what_is_imported_is_there_for_the_store,
    what_the_store_holds_is_there_to_be_moved,
    recording_can_require_the_record_of_the_parent,
}

async fn capabilities_stay_the_same(cx: Cx) -> Verdict {
    let before = format!("{:?}", cx.store().capabilities());
    let id = id("order")?;
    cx.append(&id, 0, 1).await?;
    cx.close(&id, 1).await?;
    cx.store().delete(Delete::new(id)).await?;
    check_eq!(
        format!("{:?}", cx.store().capabilities()),
        before,
        "the capabilities"
    );
    Ok(())
}

async fn limits_leave_room_for_an_event(cx: Cx) -> Verdict {
    let limits = cx.store().capabilities().limits;
    check!(limits.max_kind_bytes >= 1, "no kind fits: {limits:?}");
    check!(limits.max_append_events >= 1, "no event fits: {limits:?}");
    check!(
        limits.max_append_bytes > limits.max_payload_bytes,
        "an event with the largest payload does not fit into an append: {limits:?}"
    );
    Ok(())
}

async fn a_fence_guards_the_store_that_handed_it_out(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.fencing()?;
    cx.append(&id, 0, 1).await?;
    let token = cx
        .fencing()?
        .acquire_fence(AcquireFence::new(id.clone()))
        .await?;
    check_refused!(
        cx.append(&id, 1, 1).await,
        StoreErrorKind::Fenced { presented: None, current } if *current == token,
        "an append without the token"
    );
    let append = Append::new(id.clone(), 1, vec![event(1)]).with_fence(token);
    cx.store().append(append).await?;
    let require = AcquireFence::new(id).with_require(Require::Exists);
    cx.fencing()?.acquire_fence(require).await?;
    Ok(())
}

async fn a_token_seen_by_the_store_counts_for_the_fence(cx: Cx) -> Verdict {
    let id = id("order")?;
    let token = cx
        .fencing()?
        .acquire_fence(AcquireFence::new(id.clone()))
        .await?;
    let high = loom_spi::FenceToken(token.0 + 100);
    let append = Append::new(id.clone(), 0, vec![event(0)]).with_fence(high);
    cx.store().append(append).await?;
    let next = cx.fencing()?.acquire_fence(AcquireFence::new(id)).await?;
    check!(
        next > high,
        "token {next} was handed out after {high} was seen"
    );
    Ok(())
}

async fn an_edge_is_part_of_the_record_of_its_parent(cx: Cx) -> Verdict {
    let (parent, child) = (id("incident")?, id("child")?);
    cx.fencing()?;
    let edge = RecordLineage::new(parent.clone(), child.clone(), String::new());
    cx.branches()?.record_lineage(edge).await?;
    check_eq!(cx.head(&parent).await?, None, "an edge is no event");
    let require = |id| AcquireFence::new(id).with_require(Require::Exists);
    cx.fencing()?.acquire_fence(require(parent)).await?;
    check_refused!(
        cx.fencing()?.acquire_fence(require(child)).await,
        StoreErrorKind::NotFound,
        "the record of the child, which has none"
    );
    Ok(())
}

async fn deleting_a_log_keeps_the_lineage(cx: Cx) -> Verdict {
    let (parent, child) = (id("incident")?, id("child")?);
    cx.branches()?;
    for id in [&parent, &child] {
        cx.append(id, 0, 1).await?;
    }
    let edge = RecordLineage::new(parent.clone(), child.clone(), "label".to_owned());
    cx.branches()?.record_lineage(edge).await?;
    for id in [&parent, &child] {
        cx.store().delete(Delete::new(id.clone())).await?;
    }
    let children = cx
        .branches()?
        .children(Children::new(parent.clone()))
        .await?;
    check_eq!(
        children,
        [Branch::new(child.clone(), "label")],
        "the branches"
    );
    let link = cx.branches()?.parent(Parent::new(child)).await?;
    check_eq!(link, Some(ParentLink::new(parent, "label")), "the parent");
    Ok(())
}

async fn a_plan_guards_the_store_that_keeps_it(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.ledger()?;
    cx.append(&id, 0, 1).await?;
    publish(&cx, plan(2, 7), None).await?;
    check_refused!(
        cx.head(&id).await,
        StoreErrorKind::StalePlan { .. },
        "looking it up outside the plan"
    );
    let head = cx
        .store()
        .head(Head::new(id).with_epoch(plan(2, 7)))
        .await?;
    check!(head.is_some(), "it is gone");
    Ok(())
}

async fn a_seal_guards_the_store_that_offers_it(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    cx.append(&order, 0, 1).await?;
    seal(&cx, &order).await?;
    let head = cx.head(&order).await?;
    check!(head.is_some_and(|head| head.sealed), "it is not sealed");
    check_refused!(
        cx.append(&order, 1, 1).await,
        StoreErrorKind::Sealed,
        "an append to what was sealed"
    );
    check_refused!(
        cx.store().delete(Delete::new(order.clone())).await,
        StoreErrorKind::Sealed,
        "deleting what was sealed"
    );
    if let Ok(fencing) = cx.fencing() {
        let request = AcquireFence::new(order.clone());
        check_refused!(
            fencing.acquire_fence(request).await,
            StoreErrorKind::Sealed,
            "acquiring the fence of what was sealed"
        );
    }
    if let Ok(branches) = cx.branches() {
        let edge = RecordLineage::new(order, id("child")?, String::new());
        check_refused!(
            branches.record_lineage(edge).await,
            StoreErrorKind::Sealed,
            "recording a branch of what was sealed"
        );
    }
    Ok(())
}

async fn what_is_imported_is_there_for_the_store(cx: Cx) -> Verdict {
    let order = id("order")?;
    let mut packed = Packed::made(&order, 3);
    if cx.fencing().is_ok() {
        packed = packed.with_fence(7, Some("one"));
    }
    if cx.branches().is_ok() {
        packed = packed.with_branches(&["a"])?;
    }
    packed.send(&cx, 2).await?;
    check_eq!(cx.log(&order).await?, stored(0, 3), "the log");
    if cx.branches().is_ok() {
        check_eq!(children(&cx, &order).await?, branches(&["a"])?, "branches");
    }
    if cx.fencing().is_ok() {
        check_refused!(
            cx.append(&order, 3, 1).await,
            StoreErrorKind::Fenced { .. },
            "an append without the token that was imported"
        );
    }
    let append = Append::new(order, 3, vec![event(3)]).with_fence(packed.sealed.fence);
    cx.store().append(append).await?;
    Ok(())
}

async fn what_the_store_holds_is_there_to_be_moved(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    cx.append(&order, 0, 3).await?;
    let mut expected = (3, None, 0);
    if cx.fencing().is_ok() {
        expected.1 = Some(acquire(&cx, &order, "one").await?);
    }
    if cx.branches().is_ok() {
        record(&cx, &order, &["a", "b"]).await?;
        expected.2 = 2;
    }
    let found = inspect(&cx, &order).await?;
    let found = found.map(|record| {
        let length = record.head.map_or(0, |head| head.next_sequence);
        (length, record.fence, record.branches)
    });
    check_eq!(found, Some(expected), "the record");
    let sealed = seal(&cx, &order).await?;
    let found = (sealed.events(), sealed.fence, sealed.branches.len() as u64);
    check_eq!(found, expected, "what has to move");
    retire(&cx, &order).await?;
    check_eq!(cx.head(&order).await?, None, "the head of what was retired");
    Ok(())
}

async fn recording_can_require_the_record_of_the_parent(cx: Cx) -> Verdict {
    let registry = cx.branches()?;
    let edge = |parent, child| {
        let edge = RecordLineage::new(parent, child, "label".to_owned());
        edge.with_require(Require::Exists)
    };
    let (parent, child) = (id("incident")?, id("child")?);
    check_refused!(
        registry
            .record_lineage(edge(parent.clone(), child.clone()))
            .await,
        StoreErrorKind::NotFound,
        "a branch of what does not exist"
    );
    check_eq!(children(&cx, &parent).await?, [], "the branches");
    // Being a branch makes no record.
    record(&cx, &id("log")?, &["incident"]).await?;
    check_refused!(
        registry.record_lineage(edge(parent.clone(), child)).await,
        StoreErrorKind::NotFound,
        "a branch of a branch that does not exist itself"
    );
    cx.append(&parent, 0, 1).await?;
    registry
        .record_lineage(edge(parent, id("of a log")?))
        .await?;
    registry
        .record_lineage(edge(id("log")?, id("of lineage alone")?))
        .await?;
    if cx.fencing().is_ok() {
        let fenced = id("fenced")?;
        acquire(&cx, &fenced, "one").await?;
        registry
            .record_lineage(edge(fenced, id("of a fence alone")?))
            .await?;
    }
    Ok(())
}
