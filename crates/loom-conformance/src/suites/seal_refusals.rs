//! A sealed record does not change.

use loom_spi::{AcquireFence, Append, Delete, NewEvent, Operation, RecordLineage, StoreErrorKind};

use super::moving::{acquire, record, seal};
use super::operations::{perform, state, subject};
use crate::context::Cx;
use crate::outcome::{Verdict, check_eq, check_refused};
use crate::support::id;

crate::macros::suite! { ($) Store seal_refusals as __seal_refusals;
    a_sealed_record_refuses_appends,
    a_sealed_record_refuses_to_be_deleted,
    a_sealed_record_refuses_acquisitions,
    a_sealed_record_refuses_renewals,
    a_sealed_record_refuses_releases,
    a_sealed_record_refuses_branches,
    a_sealed_record_refuses_to_forget,
    a_branch_that_is_known_is_refused_all_the_same,
    sealed_is_reported_before_fenced_closed_and_wrong_length,
    sealed_is_reported_before_what_is_missing,
    an_invalid_append_is_reported_before_sealed,
}

/// Checks that an operation on a sealed record is refused, and that nothing comes of it.
async fn refused(cx: &Cx, operation: Operation) -> Verdict {
    cx.relocation()?;
    let on = subject(cx, "order").await?;
    let sealed = seal(cx, &on.id).await?;
    let before = state(cx, &on, None).await?;
    check_refused!(
        perform(cx, operation, &on, None).await?,
        StoreErrorKind::Sealed,
        "{operation:?}"
    );
    check_eq!(
        state(cx, &on, None).await?,
        before,
        "what is stored after a refused {operation:?}"
    );
    check_eq!(
        seal(cx, &on.id).await?,
        sealed,
        "what has to move after a refused {operation:?}"
    );
    Ok(())
}

async fn a_sealed_record_refuses_appends(cx: Cx) -> Verdict {
    refused(&cx, Operation::Append).await
}

async fn a_sealed_record_refuses_to_be_deleted(cx: Cx) -> Verdict {
    refused(&cx, Operation::Delete).await
}

async fn a_sealed_record_refuses_acquisitions(cx: Cx) -> Verdict {
    cx.fencing()?;
    refused(&cx, Operation::AcquireFence).await
}

async fn a_sealed_record_refuses_renewals(cx: Cx) -> Verdict {
    cx.fencing()?;
    refused(&cx, Operation::RenewLease).await
}

async fn a_sealed_record_refuses_releases(cx: Cx) -> Verdict {
    cx.fencing()?;
    refused(&cx, Operation::ReleaseLease).await
}

async fn a_sealed_record_refuses_branches(cx: Cx) -> Verdict {
    cx.branches()?;
    refused(&cx, Operation::RecordLineage).await
}

async fn a_sealed_record_refuses_to_forget(cx: Cx) -> Verdict {
    cx.branches()?;
    refused(&cx, Operation::Forget).await
}

async fn a_branch_that_is_known_is_refused_all_the_same(cx: Cx) -> Verdict {
    let parent = id("incident")?;
    record(&cx, &parent, &["a"]).await?;
    seal(&cx, &parent).await?;
    let edge = RecordLineage::new(parent, id("a")?, "a".to_owned());
    check_refused!(
        cx.branches()?.record_lineage(edge).await,
        StoreErrorKind::Sealed,
        "recording an edge again"
    );
    Ok(())
}

async fn sealed_is_reported_before_fenced_closed_and_wrong_length(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    cx.close(&order, 0).await?;
    if cx.fencing().is_ok() {
        acquire(&cx, &order, "one").await?;
    }
    seal(&cx, &order).await?;
    check_refused!(
        cx.append(&order, 7, 1).await,
        StoreErrorKind::Sealed,
        "an append without the token, at the wrong length, to a closed log"
    );
    let delete = Delete::new(order.clone()).with_expected(7);
    check_refused!(
        cx.store().delete(delete).await,
        StoreErrorKind::Sealed,
        "a delete that expects another length"
    );
    let other = AcquireFence::new(order).with_holder("two".to_owned());
    check_refused!(
        cx.fencing()?.acquire_fence(other).await,
        StoreErrorKind::Sealed,
        "an acquisition while another's lease runs"
    );
    Ok(())
}

async fn sealed_is_reported_before_what_is_missing(cx: Cx) -> Verdict {
    let parent = id("incident")?;
    record(&cx, &parent, &["a"]).await?;
    seal(&cx, &parent).await?;
    let delete = Delete::new(parent.clone());
    check_refused!(
        cx.store().delete(delete).await,
        StoreErrorKind::Sealed,
        "deleting a log that is not there"
    );
    check_refused!(
        cx.append(&parent, 0, 1).await,
        StoreErrorKind::Sealed,
        "creating a log in a sealed record"
    );
    let edge = RecordLineage::new(parent, id("a")?, "other".to_owned());
    check_refused!(
        cx.branches()?.record_lineage(edge).await,
        StoreErrorKind::Sealed,
        "recording an edge under another label"
    );
    Ok(())
}

async fn an_invalid_append_is_reported_before_sealed(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    cx.append(&order, 0, 1).await?;
    seal(&cx, &order).await?;
    for events in [vec![], vec![NewEvent::new("", "")]] {
        check_refused!(
            cx.store()
                .append(Append::new(order.clone(), 1, events))
                .await,
            StoreErrorKind::InvalidArgument { .. },
            "an invalid append to a sealed log"
        );
    }
    Ok(())
}
