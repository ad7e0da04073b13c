//! What arrives beside the log: the fence, its holder, and the lineage.

use loom_spi::{
    AcquireFence, Append, FenceToken, Imported, ParentLink, RenewLease, StoreErrorKind,
};

use super::moving::{MINUTE, Packed, acquire, branches, children, parent, record, seal};
use crate::context::Cx;
use crate::outcome::{Verdict, check, check_eq, check_refused};
use crate::support::{event, id};

crate::macros::suite! { ($) Store imported_fences as __imported_fences;
    an_imported_fence_keeps_older_tokens_out,
    the_holder_of_an_imported_fence_renews_its_lease,
    an_imported_fence_without_a_holder_has_none,
    the_time_left_of_a_lease_does_not_travel,
    branches_arrive_in_their_order_and_at_both_ends,
    a_fence_alone_arrives,
    lineage_alone_arrives,
}

async fn an_imported_fence_keeps_older_tokens_out(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.fencing()?;
    let packed = Packed::made(&order, 2).with_fence(41, Some("one"));
    packed.send(&cx, 1).await?;
    for old in [None, Some(FenceToken(1)), Some(FenceToken(40))] {
        let append = Append::new(order.clone(), 2, vec![event(2)]).with_fence(old);
        check_refused!(
            cx.store().append(append).await,
            StoreErrorKind::Fenced { presented, current: FenceToken(41) } if *presented == old,
            "an append with {old:?}"
        );
    }
    let append = Append::new(order.clone(), 2, vec![event(2)]).with_fence(FenceToken(41));
    cx.store().append(append).await?;
    let next = acquire(&cx, &order, "one").await?;
    check!(next > FenceToken(41), "token {next} came after 41");
    Ok(())
}

async fn the_holder_of_an_imported_fence_renews_its_lease(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.fencing()?;
    let packed = Packed::made(&order, 2).with_fence(41, Some("one"));
    packed.send(&cx, 2).await?;
    let renewal = |token| RenewLease::new(order.clone(), FenceToken(token), MINUTE);
    check_refused!(
        cx.fencing()?.renew_lease(renewal(40)).await,
        StoreErrorKind::Fenced {
            current: FenceToken(41),
            ..
        },
        "a renewal with an older token"
    );
    cx.fencing()?.renew_lease(renewal(41)).await?;
    let other = AcquireFence::new(order).with_holder("two".to_owned());
    check_refused!(
        cx.fencing()?.acquire_fence(other).await,
        StoreErrorKind::Leased { holder, .. } if holder == "one",
        "an acquisition while the renewed lease runs"
    );
    Ok(())
}

async fn an_imported_fence_without_a_holder_has_none(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.fencing()?;
    Packed::made(&order, 2)
        .with_fence(41, None)
        .send(&cx, 2)
        .await?;
    let renewal = RenewLease::new(order.clone(), FenceToken(41), MINUTE);
    check_refused!(
        cx.fencing()?.renew_lease(renewal).await,
        StoreErrorKind::InvalidArgument { .. },
        "renewing a lease that nobody holds"
    );
    let sealed = seal(&cx, &order).await?;
    check_eq!(sealed.fence, Some(FenceToken(41)), "the token");
    check_eq!(sealed.holder, None, "the holder");
    Ok(())
}

async fn the_time_left_of_a_lease_does_not_travel(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.fencing()?;
    let packed = Packed::made(&order, 2).with_fence(41, Some("one"));
    packed.send(&cx, 2).await?;
    let token = acquire(&cx, &order, "two").await?;
    check!(token > FenceToken(41), "token {token} came after 41");
    Ok(())
}

async fn branches_arrive_in_their_order_and_at_both_ends(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.branches()?;
    let names = ["m", "a", "z", "b"];
    let packed = Packed::made(&order, 3).with_branches(&names)?;
    packed.send(&cx, 2).await?;
    check_eq!(
        children(&cx, &order).await?,
        branches(&names)?,
        "the branches"
    );
    for name in names {
        check_eq!(
            parent(&cx, &id(name)?).await?,
            Some(ParentLink::new(order.clone(), name)),
            "the parent of {name}"
        );
    }
    record(&cx, &order, &["c"]).await?;
    check_eq!(
        children(&cx, &order).await?,
        branches(&["m", "a", "z", "b", "c"])?,
        "the branches, continued"
    );
    Ok(())
}

async fn a_fence_alone_arrives(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.fencing()?;
    let packed = Packed::made(&order, 0).with_fence(7, Some("one"));
    check_eq!(packed.send(&cx, 1).await?, Imported::Visible, "the answer");
    check_eq!(cx.head(&order).await?, None, "the head");
    check_refused!(
        cx.append(&order, 0, 1).await,
        StoreErrorKind::Fenced {
            presented: None,
            current: FenceToken(7)
        },
        "creating the log without the token"
    );
    let create = Append::new(order, 0, vec![event(0)]).with_fence(FenceToken(7));
    cx.store().append(create).await?;
    Ok(())
}

async fn lineage_alone_arrives(cx: Cx) -> Verdict {
    let incident = id("incident")?;
    cx.branches()?;
    let packed = Packed::made(&incident, 0).with_branches(&["b", "a"])?;
    check_eq!(packed.send(&cx, 1).await?, Imported::Visible, "the answer");
    check_eq!(
        children(&cx, &incident).await?,
        branches(&["b", "a"])?,
        "the branches"
    );
    check_eq!(cx.head(&incident).await?, None, "the head");
    cx.append(&incident, 0, 1).await?;
    Ok(())
}
