//! A capability that is offered works on the same records as the store: what a wrapper gets wrong first.

use loom_spi::{
    AcquireFence, Append, Branch, Children, Delete, Head, Parent, ParentLink, RecordLineage,
    Require, StoreErrorKind,
};

use super::ledger::{plan, publish};
use crate::context::Cx;
use crate::outcome::{Verdict, check, check_eq, check_refused};
use crate::support::{event, id};

crate::macros::suite! { ($) Store capabilities as __capabilities;
    capabilities_stay_the_same,
    limits_leave_room_for_an_event,
    a_fence_guards_the_store_that_handed_it_out,
    a_token_seen_by_the_store_counts_for_the_fence,
    an_edge_is_part_of_the_record_of_its_parent,
    deleting_a_log_keeps_the_lineage,
    a_plan_guards_the_store_that_keeps_it,
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
