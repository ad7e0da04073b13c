//! Acquiring a fence: floors, conditions and bounds.

use loom_spi::{AcquireFence, ExecutionId, FenceToken, RecordLineage, Require, StoreErrorKind};

use super::fencing::{acquire, append};
use crate::context::Cx;
use crate::outcome::{Verdict, check, check_eq, check_refused};
use crate::support::id;

crate::macros::suite! { ($) Store acquisitions as __acquisitions;
    a_floor_is_reached,
    a_floor_below_what_was_seen_changes_nothing,
    the_last_token_is_handed_out_once,
    a_required_record_has_to_exist,
    a_required_record_may_be_a_fence_or_lineage_alone,
    the_name_of_a_holder_has_1_to_255_bytes,
}

async fn a_floor_is_reached(cx: Cx) -> Verdict {
    let id = id("order")?;
    let floor = |floor| AcquireFence::new(id.clone()).with_floor(FenceToken(floor));
    let token = cx.fencing()?.acquire_fence(floor(1000)).await?;
    check!(token.0 >= 1000, "token {token} is below the floor of 1000");
    let next = cx.fencing()?.acquire_fence(floor(5000)).await?;
    check!(next.0 >= 5000, "token {next} is below the floor of 5000");
    check_refused!(
        cx.store().append(append(&id, 0).with_fence(token)).await,
        StoreErrorKind::Fenced { .. },
        "the token below the floor"
    );
    cx.store().append(append(&id, 0).with_fence(next)).await?;
    Ok(())
}

async fn a_floor_below_what_was_seen_changes_nothing(cx: Cx) -> Verdict {
    let id = id("order")?;
    let floor = |floor| AcquireFence::new(id.clone()).with_floor(FenceToken(floor));
    let high = cx.fencing()?.acquire_fence(floor(1000)).await?;
    for low in [0, 1, 999, high.0] {
        let before = acquire(&cx, &id).await?;
        let token = cx.fencing()?.acquire_fence(floor(low)).await?;
        check!(
            token > before,
            "with a floor of {low}: token {token} came after {before}"
        );
    }
    Ok(())
}

async fn the_last_token_is_handed_out_once(cx: Cx) -> Verdict {
    let id = id("order")?;
    let at_end = AcquireFence::new(id.clone()).with_floor(FenceToken::MAX);
    let token = cx.fencing()?.acquire_fence(at_end.clone()).await?;
    check_eq!(token, FenceToken::MAX, "the token");
    for request in [at_end, AcquireFence::new(id.clone())] {
        check_refused!(
            cx.fencing()?.acquire_fence(request).await,
            StoreErrorKind::InvalidArgument { .. },
            "one token more"
        );
    }
    let past = AcquireFence::new(crate::support::id("other")?).with_floor(FenceToken(u64::MAX));
    check_refused!(
        cx.fencing()?.acquire_fence(past).await,
        StoreErrorKind::InvalidArgument { .. },
        "a floor past the last token"
    );
    cx.store().append(append(&id, 0).with_fence(token)).await?;
    Ok(())
}

async fn a_required_record_has_to_exist(cx: Cx) -> Verdict {
    let (here, absent) = (id("here")?, id("absent")?);
    cx.fencing()?;
    cx.append(&here, 0, 1).await?;
    let require = |id: &ExecutionId| AcquireFence::new(id.clone()).with_require(Require::Exists);
    check_refused!(
        cx.fencing()?.acquire_fence(require(&absent)).await,
        StoreErrorKind::NotFound,
        "requiring what does not exist"
    );
    // Nothing was left behind: it can be created without a token.
    cx.append(&absent, 0, 1).await?;
    cx.fencing()?.acquire_fence(require(&here)).await?;
    Ok(())
}

async fn a_required_record_may_be_a_fence_or_lineage_alone(cx: Cx) -> Verdict {
    let (fenced, parent) = (id("fenced")?, id("parent")?);
    let require = |id: &ExecutionId| AcquireFence::new(id.clone()).with_require(Require::Exists);
    let first = acquire(&cx, &fenced).await?;
    let second = cx.fencing()?.acquire_fence(require(&fenced)).await?;
    check!(second > first, "token {second} came after {first}");
    if let Ok(branches) = cx.branches() {
        let edge = RecordLineage::new(parent.clone(), id("child")?, String::new());
        branches.record_lineage(edge).await?;
        cx.fencing()?.acquire_fence(require(&parent)).await?;
    }
    Ok(())
}

async fn the_name_of_a_holder_has_1_to_255_bytes(cx: Cx) -> Verdict {
    let id = id("order")?;
    let holder = |name: String| AcquireFence::new(id.clone()).with_holder(name);
    for bad in [String::new(), "h".repeat(256), "é".repeat(128)] {
        let bytes = bad.len();
        check_refused!(
            cx.fencing()?.acquire_fence(holder(bad)).await,
            StoreErrorKind::InvalidArgument { .. },
            "a holder of {bytes} bytes"
        );
    }
    // The refusals fenced nothing.
    cx.append(&id, 0, 1).await?;
    for good in ["h".to_owned(), "h".repeat(255), "Wörker №7".to_owned()] {
        cx.fencing()?.acquire_fence(holder(good)).await?;
    }
    Ok(())
}
