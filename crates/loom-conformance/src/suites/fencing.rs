//! Fencing: a writer that was replaced can no longer write.

use loom_spi::{AcquireFence, Append, Delete, ExecutionId, FenceToken, List, StoreErrorKind};

use crate::context::Cx;
use crate::outcome::{Verdict, check, check_eq, check_refused};
use crate::support::{event, id, stored};

crate::macros::suite! { ($) Store fencing as __fencing;
    the_holder_of_the_fence_can_append,
    each_token_is_greater_than_the_one_before,
    an_older_token_is_refused,
    an_append_without_a_token_is_refused_once_fenced,
    a_higher_token_is_accepted_and_remembered,
    a_fence_can_be_taken_before_the_execution_exists,
    a_fence_outlives_deletion,
    a_fence_guards_one_execution_only,
    fenced_is_reported_before_closed_and_wrong_length,
    reads_and_deletes_need_no_token,
}

pub(super) fn append(id: &ExecutionId, expected: u64) -> Append {
    Append::new(id.clone(), expected, vec![event(expected)])
}

pub(super) async fn acquire(cx: &Cx, id: &ExecutionId) -> Result<FenceToken, crate::outcome::Stop> {
    Ok(cx
        .fencing()?
        .acquire_fence(AcquireFence::new(id.clone()))
        .await?)
}

async fn the_holder_of_the_fence_can_append(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.fencing()?;
    cx.append(&id, 0, 1).await?;
    let token = acquire(&cx, &id).await?;
    for expected in 1..4 {
        cx.store()
            .append(append(&id, expected).with_fence(token))
            .await?;
    }
    check_eq!(cx.log(&id).await?, stored(0, 4), "the log");
    Ok(())
}

async fn each_token_is_greater_than_the_one_before(cx: Cx) -> Verdict {
    let id = id("order")?;
    let mut last = acquire(&cx, &id).await?;
    for round in 0..10 {
        if round == 5 {
            cx.store().append(append(&id, 0).with_fence(last)).await?;
        }
        let next = acquire(&cx, &id).await?;
        check!(next > last, "token {next} came after {last}");
        last = next;
    }
    Ok(())
}

async fn an_older_token_is_refused(cx: Cx) -> Verdict {
    let id = id("order")?;
    let old = acquire(&cx, &id).await?;
    cx.store().append(append(&id, 0).with_fence(old)).await?;
    let new = acquire(&cx, &id).await?;
    check_refused!(
        cx.store().append(append(&id, 1).with_fence(old)).await,
        StoreErrorKind::Fenced { presented: Some(found), current }
            if *found == old && *current == new,
        "the older token {old} after {new}"
    );
    cx.store().append(append(&id, 1).with_fence(new)).await?;
    check_refused!(
        cx.store().append(append(&id, 2).with_fence(old)).await,
        StoreErrorKind::Fenced { .. },
        "the older token {old} once more"
    );
    check_eq!(cx.log(&id).await?, stored(0, 2), "the log");
    Ok(())
}

async fn an_append_without_a_token_is_refused_once_fenced(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.fencing()?;
    cx.append(&id, 0, 1).await?;
    let token = acquire(&cx, &id).await?;
    check_refused!(
        cx.store().append(append(&id, 1)).await,
        StoreErrorKind::Fenced { presented: None, current } if *current == token,
        "no token"
    );
    check_eq!(cx.length(&id).await?, 1, "the length");
    Ok(())
}

async fn a_higher_token_is_accepted_and_remembered(cx: Cx) -> Verdict {
    let (fenced, free) = (id("fenced")?, id("free")?);
    let low = acquire(&cx, &fenced).await?;
    for id in [&fenced, &free] {
        let high = FenceToken(low.0 + 10);
        cx.store().append(append(id, 0).with_fence(high)).await?;
        for token in [Some(low), Some(FenceToken(high.0 - 1)), None] {
            check_refused!(
                cx.store().append(append(id, 1).with_fence(token)).await,
                StoreErrorKind::Fenced { current, .. } if *current == high,
                "{id}: the token {token:?} after {high}"
            );
        }
        cx.store().append(append(id, 1).with_fence(high)).await?;
        let next = acquire(&cx, id).await?;
        check!(
            next > high,
            "{id}: the token {next} was handed out after {high} was seen"
        );
    }
    Ok(())
}

async fn a_fence_can_be_taken_before_the_execution_exists(cx: Cx) -> Verdict {
    let id = id("order")?;
    let token = acquire(&cx, &id).await?;
    check_eq!(cx.head(&id).await?, None, "the head");
    check_refused!(
        cx.store().append(append(&id, 0)).await,
        StoreErrorKind::Fenced {
            presented: None,
            ..
        },
        "creation without the token"
    );
    cx.store().append(append(&id, 0).with_fence(token)).await?;
    check_eq!(cx.length(&id).await?, 1, "the length");
    Ok(())
}

async fn a_fence_outlives_deletion(cx: Cx) -> Verdict {
    let id = id("order")?;
    let token = acquire(&cx, &id).await?;
    cx.store().append(append(&id, 0).with_fence(token)).await?;
    cx.store().delete(Delete::new(id.clone())).await?;
    check_refused!(
        cx.store().append(append(&id, 0)).await,
        StoreErrorKind::Fenced { .. },
        "a zombie without a token creates it anew"
    );
    let next = acquire(&cx, &id).await?;
    check!(next > token, "token {next} came after {token}");
    check_refused!(
        cx.store().append(append(&id, 0).with_fence(token)).await,
        StoreErrorKind::Fenced { .. },
        "a zombie with the old token creates it anew"
    );
    cx.store().append(append(&id, 0).with_fence(next)).await?;
    Ok(())
}

async fn a_fence_guards_one_execution_only(cx: Cx) -> Verdict {
    let guarded = id("order")?;
    acquire(&cx, &guarded).await?;
    acquire(&cx, &guarded).await?;
    for name in ["order-1", "orde", "Order", "other"] {
        cx.append(&id(name)?, 0, 1).await?;
    }
    check_eq!(cx.ids(List::new(10)).await?.len(), 4, "executions created");
    Ok(())
}

async fn fenced_is_reported_before_closed_and_wrong_length(cx: Cx) -> Verdict {
    let id = id("order")?;
    let token = acquire(&cx, &id).await?;
    cx.store().append(append(&id, 0).with_fence(token)).await?;
    check_refused!(
        cx.store().append(append(&id, 7)).await,
        StoreErrorKind::Fenced { .. },
        "no token, and a wrong length"
    );
    let end = Append::new(id.clone(), 1, vec![event(1).terminal()]);
    cx.store().append(end.with_fence(token)).await?;
    check_refused!(
        cx.store().append(append(&id, 2)).await,
        StoreErrorKind::Fenced { .. },
        "no token, and closed"
    );
    check_refused!(
        cx.store().append(append(&id, 2).with_fence(token)).await,
        StoreErrorKind::Closed { next_sequence: 2 },
        "the right token, and closed"
    );
    Ok(())
}

async fn reads_and_deletes_need_no_token(cx: Cx) -> Verdict {
    let id = id("order")?;
    let token = acquire(&cx, &id).await?;
    cx.store().append(append(&id, 0).with_fence(token)).await?;
    check_eq!(cx.log(&id).await?, stored(0, 1), "the log");
    cx.store().delete(Delete::new(id.clone())).await?;
    check_eq!(cx.head(&id).await?, None, "the head");
    Ok(())
}
