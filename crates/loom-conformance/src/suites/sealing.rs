//! Sealing: what it takes, and what it says.

use loom_spi::{AcquireFence, Append, Branch, Delete, FenceToken, Seal, StoreErrorKind};

use super::moving::{acquire, branches, inspect, record, seal};
use super::operations::subject;
use crate::context::Cx;
use crate::outcome::{Verdict, check_eq, check_refused};
use crate::support::{event, id};

crate::macros::suite! { ($) Store sealing as __sealing;
    a_fence_alone_can_be_sealed,
    lineage_alone_can_be_sealed,
    a_closed_log_can_be_sealed,
    sealing_says_what_has_to_move,
    the_holder_of_an_older_token_is_not_named,
    sealing_again_says_the_same,
    what_does_not_exist_cannot_be_sealed,
    sealing_one_record_touches_no_other,
}

async fn a_fence_alone_can_be_sealed(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    let token = acquire(&cx, &order, "one").await?;
    let sealed = seal(&cx, &order).await?;
    check_eq!(sealed.head, None, "the head");
    check_eq!(sealed.fence, Some(token), "the token");
    check_eq!(sealed.holder.as_deref(), Some("one"), "its holder");
    check_eq!(sealed.branches, [], "the branches");
    let append = Append::new(order, 0, vec![event(0)]).with_fence(token);
    check_refused!(
        cx.store().append(append).await,
        StoreErrorKind::Sealed,
        "creating the log"
    );
    Ok(())
}

async fn lineage_alone_can_be_sealed(cx: Cx) -> Verdict {
    let parent = id("incident")?;
    cx.relocation()?;
    record(&cx, &parent, &["b", "a"]).await?;
    let sealed = seal(&cx, &parent).await?;
    check_eq!(sealed.head, None, "the head");
    check_eq!(sealed.fence, None, "the token");
    check_eq!(sealed.holder, None, "the holder");
    check_eq!(
        sealed.branches,
        [Branch::new(id("b")?, "b"), Branch::new(id("a")?, "a")],
        "the branches"
    );
    check_refused!(
        cx.append(&parent, 0, 1).await,
        StoreErrorKind::Sealed,
        "creating the log"
    );
    Ok(())
}

async fn a_closed_log_can_be_sealed(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    cx.append(&order, 0, 2).await?;
    cx.close(&order, 2).await?;
    let head = cx.head(&order).await?.map(|head| head.with_sealed(true));
    check_eq!(seal(&cx, &order).await?.head, head, "the head");
    Ok(())
}

async fn sealing_says_what_has_to_move(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    cx.append(&order, 0, 5).await?;
    record(&cx, &order, &["m", "a", "z", "b"]).await?;
    let request = AcquireFence::new(order.clone()).with_floor(FenceToken(41));
    let request = request.with_holder("one".to_owned());
    let token = cx.fencing()?.acquire_fence(request).await?;
    let head = cx.head(&order).await?;
    let sealed = seal(&cx, &order).await?;
    check_eq!(
        sealed.head,
        head.map(|head| head.with_sealed(true)),
        "the head"
    );
    check_eq!(sealed.fence, Some(token), "the highest token");
    check_eq!(sealed.holder.as_deref(), Some("one"), "its holder");
    check_eq!(
        sealed.branches,
        branches(&["m", "a", "z", "b"])?,
        "the branches"
    );
    Ok(())
}

async fn the_holder_of_an_older_token_is_not_named(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    let token = acquire(&cx, &order, "one").await?;
    let higher = FenceToken(token.0 + 1);
    let append = Append::new(order.clone(), 0, vec![event(0)]).with_fence(higher);
    cx.store().append(append).await?;
    let sealed = seal(&cx, &order).await?;
    check_eq!(sealed.fence, Some(higher), "the highest token");
    check_eq!(
        sealed.holder,
        None,
        "its holder, although it came with an append"
    );
    Ok(())
}

async fn sealing_again_says_the_same(cx: Cx) -> Verdict {
    let on = subject(&cx, "order").await?;
    let first = seal(&cx, &on.id).await?;
    for _ in 0..3 {
        check_eq!(seal(&cx, &on.id).await?, first, "what has to move");
    }
    Ok(())
}

async fn what_does_not_exist_cannot_be_sealed(cx: Cx) -> Verdict {
    let (order, child) = (id("order")?, id("child")?);
    let relocation = cx.relocation()?;
    cx.append(&order, 0, 1).await?;
    if cx.branches().is_ok() {
        record(&cx, &order, &["child"]).await?;
    }
    // Being a branch makes no record.
    for absent in [id("absent")?, child] {
        check_refused!(
            relocation.seal(Seal::new(absent.clone())).await,
            StoreErrorKind::NotFound,
            "sealing {absent}"
        );
        check_eq!(inspect(&cx, &absent).await?, None, "the record of {absent}");
        cx.append(&absent, 0, 1).await?;
    }
    Ok(())
}

async fn sealing_one_record_touches_no_other(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    let others = [id("order-1")?, id("orde")?, id("ORDER")?, id("child")?];
    for id in others.iter().chain([&order]) {
        cx.append(id, 0, 1).await?;
    }
    if cx.branches().is_ok() {
        record(&cx, &order, &["child"]).await?;
    }
    seal(&cx, &order).await?;
    for other in others {
        cx.append(&other, 1, 1).await?;
        if cx.branches().is_ok() {
            // The edge from a sealed parent does not hold the child.
            record(&cx, &other, &[&format!("child of {other}")]).await?;
        }
        cx.store().delete(Delete::new(other)).await?;
    }
    Ok(())
}
