//! What was acknowledged is still there when the store is opened again.

use loom_spi::{
    AcquireFence, Append, Branch, Children, Delete, DeploymentId, FenceToken, Forget, Head, List,
    NewEvent, Parent, ParentLink, RecordLineage, ShardIdentity, ShardLocation, StoreErrorKind,
};

use super::ledger::{plan, publish, published};
use crate::context::Cx;
use crate::outcome::{Verdict, check, check_eq, check_refused};
use crate::support::{event, id, many_ids, stored};

crate::macros::suite! { ($) Store durability as __durability;
    logs_survive_with_every_event,
    the_last_append_survives,
    closed_stays_closed,
    deleted_stays_deleted,
    listings_survive,
    fences_survive,
    a_fence_that_an_append_brought_survives,
    lineage_survives_in_its_order,
    what_was_forgotten_stays_forgotten,
    the_plan_survives_and_still_guards_the_store,
    identity_and_directory_survive,
    a_store_can_be_reopened_again_and_again,
}

async fn logs_survive_with_every_event(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 50).await?;
    cx.append(&id, 50, 1).await?;
    let head = cx.head(&id).await?;
    let cx = cx.reopen().await?;
    check_eq!(cx.head(&id).await?, head, "the head");
    check_eq!(cx.log(&id).await?, stored(0, 51), "the log");
    cx.append(&id, 51, 1).await?;
    check_eq!(cx.log(&id).await?, stored(0, 52), "the log, continued");
    Ok(())
}

async fn the_last_append_survives(mut cx: Cx) -> Verdict {
    let id = id("order")?;
    for next in 0..10 {
        // Nothing comes between the acknowledgement and the end.
        cx.append(&id, next, 1).await?;
        cx = cx.reopen().await?;
        check_eq!(cx.length(&id).await?, next + 1, "the length");
    }
    check_eq!(cx.log(&id).await?, stored(0, 10), "the log");
    Ok(())
}

async fn closed_stays_closed(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 2).await?;
    cx.close(&id, 2).await?;
    let cx = cx.reopen().await?;
    check_refused!(
        cx.append(&id, 3, 1).await,
        StoreErrorKind::Closed { next_sequence: 3 },
        "one more event"
    );
    Ok(())
}

async fn deleted_stays_deleted(cx: Cx) -> Verdict {
    let (gone, anew) = (id("gone")?, id("anew")?);
    for id in [&gone, &anew] {
        cx.append(id, 0, 5).await?;
        cx.store().delete(Delete::new(id.clone())).await?;
    }
    cx.append(&anew, 0, 1).await?;
    let cx = cx.reopen().await?;
    check_eq!(cx.head(&gone).await?, None, "the head of what was deleted");
    check_eq!(
        cx.log(&anew).await?,
        stored(0, 1),
        "the log that was created anew"
    );
    check_eq!(cx.ids(List::new(10)).await?, [anew], "the listing");
    Ok(())
}

async fn listings_survive(cx: Cx) -> Verdict {
    for (index, id) in (0..).zip(many_ids(60)?) {
        cx.append(&id, 0, 1 + index % 3).await?;
        if index % 4 == 0 {
            cx.close(&id, 1 + index % 3).await?;
        }
    }
    let before = cx.listing(List::new(20)).await?;
    let cx = cx.reopen().await?;
    check_eq!(cx.listing(List::new(20)).await?, before, "the listing");
    Ok(())
}

async fn fences_survive(cx: Cx) -> Verdict {
    let (here, absent, gone) = (id("here")?, id("absent")?, id("gone")?);
    cx.append(&here, 0, 1).await?;
    cx.append(&gone, 0, 1).await?;
    let floor = FenceToken(41);
    let mut tokens = Vec::new();
    for id in [&here, &absent, &gone] {
        let request = AcquireFence::new(id.clone()).with_floor(floor);
        tokens.push(cx.fencing()?.acquire_fence(request).await?);
    }
    cx.store().delete(Delete::new(gone.clone())).await?;
    let cx = cx.reopen().await?;
    for ((id, next), token) in [(here, 1), (absent, 0), (gone, 0)].into_iter().zip(tokens) {
        for old in [None, Some(FenceToken(token.0 - 1))] {
            let append = Append::new(id.clone(), next, vec![event(next)]).with_fence(old);
            check_refused!(
                cx.store().append(append).await,
                StoreErrorKind::Fenced { current, .. } if *current == token,
                "{id}: the token {old:?} after {token}"
            );
        }
        let append = Append::new(id.clone(), next, vec![event(next)]).with_fence(token);
        cx.store().append(append).await?;
        let new = cx
            .fencing()?
            .acquire_fence(AcquireFence::new(id.clone()))
            .await?;
        check!(new > token, "{id}: token {new} came after {token}");
    }
    Ok(())
}

async fn a_fence_that_an_append_brought_survives(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.fencing()?;
    let append = Append::new(id.clone(), 0, vec![event(0)]).with_fence(FenceToken(9));
    cx.store().append(append).await?;
    let cx = cx.reopen().await?;
    check_refused!(
        cx.append(&id, 1, 1).await,
        StoreErrorKind::Fenced {
            presented: None,
            current: FenceToken(9)
        },
        "an append without a token"
    );
    let new = cx
        .fencing()?
        .acquire_fence(AcquireFence::new(id.clone()))
        .await?;
    check!(new > FenceToken(9), "token {new} came after 9");
    Ok(())
}

async fn lineage_survives_in_its_order(cx: Cx) -> Verdict {
    let parent = id("incident")?;
    let mut expected = Vec::new();
    for name in ["m", "a", "z", "b"] {
        let edge = RecordLineage::new(parent.clone(), id(name)?, name.to_uppercase());
        cx.branches()?.record_lineage(edge).await?;
        expected.push(Branch::new(id(name)?, name.to_uppercase()));
    }
    let cx = cx.reopen().await?;
    let edge = RecordLineage::new(parent.clone(), id("last")?, String::new());
    cx.branches()?.record_lineage(edge).await?;
    expected.push(Branch::new(id("last")?, ""));
    let children = cx
        .branches()?
        .children(Children::new(parent.clone()))
        .await?;
    check_eq!(children, expected, "the branches");
    let link = cx.branches()?.parent(Parent::new(id("z")?)).await?;
    check_eq!(link, Some(ParentLink::new(parent, "Z")), "the parent");
    Ok(())
}

async fn what_was_forgotten_stays_forgotten(cx: Cx) -> Verdict {
    let (parent, child) = (id("incident")?, id("child")?);
    let edge = RecordLineage::new(parent.clone(), child.clone(), "label".to_owned());
    cx.branches()?.record_lineage(edge).await?;
    cx.branches()?.forget(Forget::new(parent.clone())).await?;
    let cx = cx.reopen().await?;
    let children = cx.branches()?.children(Children::new(parent)).await?;
    check_eq!(children, [], "the branches");
    check_eq!(
        cx.branches()?.parent(Parent::new(child)).await?,
        None,
        "the parent"
    );
    Ok(())
}

async fn the_plan_survives_and_still_guards_the_store(cx: Cx) -> Verdict {
    let (id, now) = (id("order")?, plan(3, u128::MAX - 1));
    cx.ledger()?;
    cx.append(&id, 0, 1).await?;
    publish(&cx, plan(2, 1), None).await?;
    publish(&cx, now, Some(plan(2, 1))).await?;
    let cx = cx.reopen().await?;
    check_eq!(
        cx.ledger()?.current().await?,
        Some(published(now)),
        "the plan"
    );
    for old in [None, Some(plan(2, 1)), Some(plan(3, 1))] {
        check_refused!(
            cx.store().head(Head::new(id.clone()).with_epoch(old)).await,
            StoreErrorKind::StalePlan { current, .. } if *current == now,
            "looking it up under {old:?}"
        );
    }
    let append = Append::new(id, 1, vec![NewEvent::new("k", "p")]);
    cx.store().append(append.with_epoch(now)).await?;
    Ok(())
}

async fn identity_and_directory_survive(cx: Cx) -> Verdict {
    let ours = ShardIdentity::new(DeploymentId::new("prod")?, 3);
    let locations = vec![
        ShardLocation::new(0, "file:///a"),
        ShardLocation::new(3, "file:///b"),
    ];
    cx.ledger()?.initialize(ours.clone()).await?;
    cx.ledger()?.record_locations(locations.clone()).await?;
    let cx = cx.reopen().await?;
    check_eq!(cx.ledger()?.identity().await?, Some(ours), "the identity");
    check_eq!(cx.ledger()?.directory().await?, locations, "the directory");
    let other = ShardIdentity::new(DeploymentId::new("prod")?, 4);
    check_refused!(
        cx.ledger()?.initialize(other).await,
        StoreErrorKind::WrongShard { .. },
        "becoming another shard"
    );
    Ok(())
}

async fn a_store_can_be_reopened_again_and_again(mut cx: Cx) -> Verdict {
    let id = id("order")?;
    cx = cx.reopen().await?;
    check_eq!(cx.head(&id).await?, None, "the head in an empty store");
    cx.append(&id, 0, 3).await?;
    for _ in 0..4 {
        cx = cx.reopen().await?;
    }
    check_eq!(cx.log(&id).await?, stored(0, 3), "the log");
    Ok(())
}
