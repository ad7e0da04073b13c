//! What was acknowledged of a move is still so when the store is opened again.

use loom_spi::{
    AcquireFence, Append, Delete, FenceToken, Forget, Imported, Records, RenewLease, StoreErrorKind,
};

use super::ledger::{plan, publish};
use super::moving::{
    MINUTE, Packed, acquire, branches, children, inspect, record, records, retire, seal, seen,
    unseal,
};
use super::operations::subject;
use crate::Need;
use crate::context::Cx;
use crate::outcome::{Stop, Verdict, check_eq, check_refused};
use crate::support::{event, id, stored};

crate::macros::suite! { ($) Store move_durability as __move_durability;
    sealed_stays_sealed,
    unsealed_stays_unsealed,
    retired_stays_retired,
    what_arrived_survives,
    the_order_of_merged_branches_survives,
    the_holder_of_a_fence_survives,
    what_arrived_in_parts_is_never_half_there,
    marks_survive,
    cleared_marks_stay_cleared,
    a_move_goes_on_after_a_restart_at_any_step,
}

/// Skips before anything is done what could not be finished.
fn needed(cx: &Cx) -> Verdict {
    cx.relocation()?;
    if cx.reopens() {
        Ok(())
    } else {
        Err(Stop::Skipped(Need::Reopen))
    }
}

async fn sealed_stays_sealed(cx: Cx) -> Verdict {
    needed(&cx)?;
    let on = subject(&cx, "order").await?;
    let sealed = seal(&cx, &on.id).await?;
    let before = inspect(&cx, &on.id).await?;
    let cx = cx.reopen().await?;
    check_eq!(inspect(&cx, &on.id).await?, before, "the record");
    let append = Append::new(on.id.clone(), 1, vec![event(1)]).with_fence(on.token);
    check_refused!(
        cx.store().append(append).await,
        StoreErrorKind::Sealed,
        "an append"
    );
    check_eq!(seal(&cx, &on.id).await?, sealed, "what has to move");
    Ok(())
}

async fn unsealed_stays_unsealed(cx: Cx) -> Verdict {
    needed(&cx)?;
    let on = subject(&cx, "order").await?;
    let before = seen(&cx, &on.id).await?;
    seal(&cx, &on.id).await?;
    unseal(&cx, &on.id).await?;
    let cx = cx.reopen().await?;
    check_eq!(seen(&cx, &on.id).await?, before, "the record");
    let append = Append::new(on.id, 1, vec![event(1)]).with_fence(on.token);
    cx.store().append(append).await?;
    Ok(())
}

async fn retired_stays_retired(cx: Cx) -> Verdict {
    needed(&cx)?;
    let on = subject(&cx, "order").await?;
    seal(&cx, &on.id).await?;
    retire(&cx, &on.id).await?;
    let cx = cx.reopen().await?;
    check_eq!(inspect(&cx, &on.id).await?, None, "the record");
    check_eq!(records(&cx, Records::new(9)).await?, [], "the records");
    check_eq!(cx.head(&on.id).await?, None, "the head");
    cx.append(&on.id, 0, 1).await?;
    Ok(())
}

/// A record with everything that the store knows.
fn packed(cx: &Cx) -> Result<Packed, Stop> {
    let mut packed = Packed::made(&id("order")?, 6);
    if cx.fencing().is_ok() {
        packed = packed.with_fence(41, Some("one"));
    }
    if cx.branches().is_ok() {
        packed = packed.with_branches(&["m", "a", "z"])?;
    }
    Ok(packed)
}

async fn what_arrived_survives(cx: Cx) -> Verdict {
    needed(&cx)?;
    let packed = packed(&cx)?;
    packed.send(&cx, 4).await?;
    let before = seen(&cx, &packed.id).await?;
    let cx = cx.reopen().await?;
    check_eq!(seen(&cx, &packed.id).await?, before, "the record");
    check_eq!(cx.log(&packed.id).await?, stored(0, 6), "the log");
    check_eq!(
        packed.send(&cx, 4).await?,
        Imported::AlreadyThere,
        "the answer to a mover that heard none"
    );
    Ok(())
}

async fn the_order_of_merged_branches_survives(cx: Cx) -> Verdict {
    needed(&cx)?;
    let packed = Packed::made(&id("order")?, 2).with_branches(&["z", "b"])?;
    record(&cx, &packed.id, &["y", "b", "a"]).await?;
    packed.send(&cx, 1).await?;
    let cx = cx.reopen().await?;
    record(&cx, &packed.id, &["c"]).await?;
    check_eq!(
        children(&cx, &packed.id).await?,
        branches(&["z", "b", "y", "a", "c"])?,
        "the branches"
    );
    Ok(())
}

async fn the_holder_of_a_fence_survives(cx: Cx) -> Verdict {
    needed(&cx)?;
    let (acquired, imported) = (id("acquired")?, id("imported")?);
    let request = AcquireFence::new(acquired.clone()).with_holder("one".to_owned());
    let request = request.with_floor(FenceToken(41));
    cx.fencing()?.acquire_fence(request).await?;
    let packed = Packed::made(&imported, 2).with_fence(41, Some("one"));
    packed.send(&cx, 2).await?;
    let cx = cx.reopen().await?;
    for id in [acquired, imported] {
        let sealed = seal(&cx, &id).await?;
        check_eq!(sealed.holder.as_deref(), Some("one"), "the holder of {id}");
        unseal(&cx, &id).await?;
        let renewal = RenewLease::new(id, FenceToken(41), MINUTE);
        cx.fencing()?.renew_lease(renewal).await?;
    }
    Ok(())
}

async fn what_arrived_in_parts_is_never_half_there(cx: Cx) -> Verdict {
    needed(&cx)?;
    let packed = packed(&cx)?;
    cx.relocation()?.import(packed.part(0..4)).await?;
    let cx = cx.reopen().await?;
    check_eq!(inspect(&cx, &packed.id).await?, None, "the record");
    check_eq!(records(&cx, Records::new(9)).await?, [], "the records");
    // Whether the part is still there is for the answers to say.
    check_eq!(packed.send(&cx, 4).await?, Imported::Visible, "the answer");
    check_eq!(cx.log(&packed.id).await?, stored(0, 6), "the log");
    Ok(())
}

async fn marks_survive(cx: Cx) -> Verdict {
    needed(&cx)?;
    let (order, incident) = (id("order")?, id("incident")?);
    cx.append(&order, 0, 3).await?;
    let delete = Delete::new(order.clone()).with_mark(true);
    cx.store().delete(delete).await?;
    let mut marked = vec![order];
    if let Ok(branches) = cx.branches() {
        let forget = Forget::new(incident.clone()).with_mark(true);
        branches.forget(forget).await?;
        marked.push(incident);
    }
    let cx = cx.reopen().await?;
    for id in marked {
        let late = Packed::made(&id, 3).whole();
        check_refused!(
            cx.relocation()?.import(late).await,
            StoreErrorKind::DeletedHere,
            "importing {id}"
        );
    }
    Ok(())
}

async fn cleared_marks_stay_cleared(cx: Cx) -> Verdict {
    needed(&cx)?;
    cx.ledger()?;
    let packed = Packed::made(&id("order")?, 3);
    packed.send(&cx, 3).await?;
    let delete = Delete::new(packed.id.clone()).with_mark(true);
    cx.store().delete(delete).await?;
    publish(&cx, plan(1, 7), None).await?;
    let cx = cx.reopen().await?;
    check_eq!(packed.send(&cx, 2).await?, Imported::Visible, "the answer");
    Ok(())
}

async fn a_move_goes_on_after_a_restart_at_any_step(cx: Cx) -> Verdict {
    needed(&cx)?;
    // There and back again, so that one store is both the source and the destination.
    let order = id("order")?;
    cx.append(&order, 0, 6).await?;
    if cx.fencing().is_ok() {
        acquire(&cx, &order, "one").await?;
    }
    if cx.branches().is_ok() {
        record(&cx, &order, &["m", "a"]).await?;
    }
    let before = seen(&cx, &order).await?;
    seal(&cx, &order).await?;
    let cx = cx.reopen().await?;
    let packed = Packed::of(&cx, &order).await?;
    let cx = cx.reopen().await?;
    retire(&cx, &order).await?;
    let cx = cx.reopen().await?;
    packed.send(&cx, 4).await?;
    let cx = cx.reopen().await?;
    check_eq!(seen(&cx, &order).await?, before, "the record");
    let append = Append::new(order, 6, vec![event(6)]).with_fence(packed.sealed.fence);
    cx.store().append(append).await?;
    Ok(())
}
