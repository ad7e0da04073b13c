//! Importing where only one of the two, or neither, has a log: what is here and what comes become one.

use loom_spi::{
    AcquireFence, Append, FenceToken, Imported, ParentLink, RenewLease, StoreErrorKind,
};

use super::moving::{
    MINUTE, Packed, acquire, branches, children, inspect, parent, record, seal, seen,
};
use crate::context::Cx;
use crate::outcome::{Verdict, check, check_eq, check_refused};
use crate::support::{event, id, stored};

crate::macros::suite! { ($) Store merges as __merges;
    a_log_joins_a_fence_that_is_here,
    a_log_joins_lineage_that_is_here,
    the_higher_token_counts_when_it_comes,
    the_higher_token_counts_when_it_is_here,
    a_token_that_is_here_stays_when_none_comes,
    the_holder_of_the_higher_token_renews,
    the_branches_of_an_import_come_before_those_that_are_here,
    a_branch_on_both_sides_is_there_once,
    what_is_left_of_a_deleted_log_is_merged,
    a_fence_joins_a_fence,
    lineage_joins_a_fence,
    what_comes_between_two_parts_is_merged,
    a_fence_joins_a_log,
    lineage_joins_a_log,
    a_branch_of_another_parent_does_not_join_a_log,
}

async fn a_log_joins_a_fence_that_is_here(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    let token = acquire(&cx, &order, "one").await?;
    let answer = Packed::made(&order, 4).send(&cx, 3).await?;
    check_eq!(answer, Imported::Visible, "the answer");
    check_eq!(cx.log(&order).await?, stored(0, 4), "the log");
    check_refused!(
        cx.append(&order, 4, 1).await,
        StoreErrorKind::Fenced { current, .. } if *current == token,
        "an append without the token that is here"
    );
    Ok(())
}

async fn a_log_joins_lineage_that_is_here(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    record(&cx, &order, &["b", "a"]).await?;
    let answer = Packed::made(&order, 4).send(&cx, 3).await?;
    check_eq!(answer, Imported::Visible, "the answer");
    check_eq!(cx.log(&order).await?, stored(0, 4), "the log");
    check_eq!(
        children(&cx, &order).await?,
        branches(&["b", "a"])?,
        "the branches"
    );
    Ok(())
}

/// Imports a record with one token over another, and checks that the higher one counts.
async fn higher_counts(cx: &Cx, here: u64, comes: Option<u64>) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    let request = AcquireFence::new(order.clone()).with_floor(FenceToken(here));
    cx.fencing()?.acquire_fence(request).await?;
    let mut packed = Packed::made(&order, 2);
    if let Some(token) = comes {
        packed = packed.with_fence(token, None);
    }
    packed.send(cx, 1).await?;
    let high = FenceToken(comes.map_or(here, |comes| comes.max(here)));
    let fence = inspect(cx, &order).await?.and_then(|record| record.fence);
    check_eq!(fence, Some(high), "the token");
    for old in [None, Some(FenceToken(high.0 - 1))] {
        let append = Append::new(order.clone(), 2, vec![event(2)]).with_fence(old);
        check_refused!(
            cx.store().append(append).await,
            StoreErrorKind::Fenced { current, .. } if *current == high,
            "an append with {old:?}"
        );
    }
    let append = Append::new(order, 2, vec![event(2)]).with_fence(high);
    cx.store().append(append).await?;
    Ok(())
}

async fn the_higher_token_counts_when_it_comes(cx: Cx) -> Verdict {
    higher_counts(&cx, 7, Some(41)).await
}

async fn the_higher_token_counts_when_it_is_here(cx: Cx) -> Verdict {
    higher_counts(&cx, 41, Some(7)).await
}

async fn a_token_that_is_here_stays_when_none_comes(cx: Cx) -> Verdict {
    higher_counts(&cx, 41, None).await
}

async fn the_holder_of_the_higher_token_renews(cx: Cx) -> Verdict {
    let (here, comes) = (id("higher here")?, id("higher there")?);
    cx.relocation()?;
    for (order, floor, holder) in [(&here, 41, "here"), (&comes, 1, "comes")] {
        let request = AcquireFence::new(order.clone()).with_holder("here".to_owned());
        let request = request.with_floor(FenceToken(floor));
        cx.fencing()?.acquire_fence(request).await?;
        let packed = Packed::made(order, 2).with_fence(20, Some("comes"));
        packed.send(&cx, 2).await?;
        let token = FenceToken(floor.max(20));
        let renewal = RenewLease::new(order.clone(), token, MINUTE);
        cx.fencing()?.renew_lease(renewal).await?;
        let other = AcquireFence::new(order.clone()).with_holder("another".to_owned());
        check_refused!(
            cx.fencing()?.acquire_fence(other).await,
            StoreErrorKind::Leased { holder: found, .. } if found == holder,
            "an acquisition while the lease of `{holder}` runs"
        );
        let named = seal(&cx, order).await?.holder;
        check_eq!(named.as_deref(), Some(holder), "the holder");
    }
    Ok(())
}

async fn the_branches_of_an_import_come_before_those_that_are_here(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    record(&cx, &order, &["y", "a"]).await?;
    let packed = Packed::made(&order, 2).with_branches(&["z", "b"])?;
    packed.send(&cx, 1).await?;
    check_eq!(
        children(&cx, &order).await?,
        branches(&["z", "b", "y", "a"])?,
        "the branches"
    );
    for name in ["z", "b", "y", "a"] {
        check_eq!(
            parent(&cx, &id(name)?).await?,
            Some(ParentLink::new(order.clone(), name)),
            "the parent of {name}"
        );
    }
    Ok(())
}

async fn a_branch_on_both_sides_is_there_once(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    record(&cx, &order, &["y", "b", "a"]).await?;
    let packed = Packed::made(&order, 2).with_branches(&["z", "a", "b", "c"])?;
    packed.send(&cx, 1).await?;
    check_eq!(
        children(&cx, &order).await?,
        branches(&["z", "a", "b", "c", "y"])?,
        "the branches"
    );
    let count = inspect(&cx, &order).await?.map(|record| record.branches);
    check_eq!(count, Some(5), "how many branches the record tells");
    Ok(())
}

async fn what_is_left_of_a_deleted_log_is_merged(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    cx.append(&order, 0, 5).await?;
    let token = acquire(&cx, &order, "one").await?;
    let delete = loom_spi::Delete::new(order.clone());
    cx.store().delete(delete).await?;
    let answer = Packed::made(&order, 2).send(&cx, 2).await?;
    check_eq!(answer, Imported::Visible, "the answer");
    check_eq!(cx.log(&order).await?, stored(0, 2), "the log");
    let fence = inspect(&cx, &order).await?.and_then(|record| record.fence);
    check_eq!(fence, Some(token), "the token");
    Ok(())
}

async fn a_fence_joins_a_fence(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    cx.fencing()?;
    for (comes, counts) in [(7, 7), (41, 41), (9, 41)] {
        let packed = Packed::made(&order, 0).with_fence(comes, None);
        packed.send(&cx, 1).await?;
        let fence = inspect(&cx, &order).await?.and_then(|record| record.fence);
        check_eq!(fence, Some(FenceToken(counts)), "the token after {comes}");
    }
    Ok(())
}

async fn lineage_joins_a_fence(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    let token = acquire(&cx, &order, "one").await?;
    let packed = Packed::made(&order, 0).with_branches(&["b", "a"])?;
    let answer = packed.send(&cx, 1).await?;
    check_eq!(answer, Imported::Visible, "the answer");
    let found = inspect(&cx, &order).await?;
    let found = found.map(|record| (record.fence, record.branches));
    check_eq!(found, Some((Some(token), 2)), "the record");
    check_eq!(
        children(&cx, &order).await?,
        branches(&["b", "a"])?,
        "the branches"
    );
    Ok(())
}

async fn what_comes_between_two_parts_is_merged(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.fencing()?;
    cx.branches()?;
    let packed = Packed::made(&order, 4)
        .with_fence(7, Some("one"))
        .with_branches(&["z"])?;
    cx.relocation()?.import(packed.part(0..2)).await?;
    // Nothing of the import is seen by the one who comes.
    let token = acquire(&cx, &order, "two").await?;
    record(&cx, &order, &["a"]).await?;
    cx.relocation()?.import(packed.part(2..4)).await?;
    let fence = inspect(&cx, &order).await?.and_then(|record| record.fence);
    check_eq!(fence, Some(token.max(FenceToken(7))), "the token");
    check_eq!(
        children(&cx, &order).await?,
        branches(&["z", "a"])?,
        "the branches"
    );
    let next = acquire(&cx, &order, "three").await?;
    check!(next > FenceToken(7), "token {next} came after 7");
    Ok(())
}

async fn a_fence_joins_a_log(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.fencing()?;
    Packed::made(&order, 4).send(&cx, 4).await?;
    for (comes, counts) in [(7, 7), (41, 41), (9, 41)] {
        let packed = Packed::made(&order, 0).with_fence(comes, None);
        packed.send(&cx, 1).await?;
        let fence = inspect(&cx, &order).await?.and_then(|record| record.fence);
        check_eq!(fence, Some(FenceToken(counts)), "the token after {comes}");
        check_eq!(cx.log(&order).await?, stored(0, 4), "the log");
    }
    Ok(())
}

async fn lineage_joins_a_log(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    Packed::made(&order, 4).send(&cx, 4).await?;
    record(&cx, &order, &["y", "a"]).await?;
    let packed = Packed::made(&order, 0).with_branches(&["z", "a"])?;
    for answer in [Imported::Visible, Imported::AlreadyThere] {
        check_eq!(packed.send(&cx, 1).await?, answer, "the answer");
        check_eq!(
            children(&cx, &order).await?,
            branches(&["z", "a", "y"])?,
            "the branches"
        );
        check_eq!(cx.log(&order).await?, stored(0, 4), "the log");
    }
    for name in ["z", "a", "y"] {
        check_eq!(
            parent(&cx, &id(name)?).await?,
            Some(ParentLink::new(order.clone(), name)),
            "the parent of {name}"
        );
    }
    let found = inspect(&cx, &order).await?;
    let found = found.map(|record| (record.branches, record.head.map(|head| head.next_sequence)));
    check_eq!(found, Some((3, Some(4))), "the record");
    Ok(())
}

async fn a_branch_of_another_parent_does_not_join_a_log(cx: Cx) -> Verdict {
    let (order, other) = (id("order")?, id("other")?);
    cx.relocation()?;
    Packed::made(&order, 4).send(&cx, 4).await?;
    record(&cx, &other, &["b"]).await?;
    let before = seen(&cx, &order).await?;
    let packed = Packed::made(&order, 0)
        .with_fence(7, None)
        .with_branches(&["z", "b"])?;
    check_refused!(
        cx.relocation()?.import(packed.whole()).await,
        StoreErrorKind::LineageConflict { parent, .. } if *parent == other,
        "a branch that has another parent here"
    );
    check_eq!(seen(&cx, &order).await?, before, "the record");
    Ok(())
}
