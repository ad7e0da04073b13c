//! Epochs: a store with a ledger serves no request of another plan, whatever the operation.

use loom_spi::{
    Append, Delete, Head, List, ListCursor, NewEvent, Operation, PlanEpoch, Read, RouteFilter,
    StoreErrorKind,
};

use super::ledger::{plan, publish};
use super::operations::{
    FENCING, LINEAGE, RELOCATION, STORE, offered, perform, state, subject_and_sealed,
};
use crate::context::Cx;
use crate::outcome::{Verdict, check_eq, check_refused};
use crate::support::{event, id, many_ids};

crate::macros::suite! { ($) Store epochs as __epochs;
    the_event_store_refuses_an_older_plan,
    fencing_refuses_an_older_plan,
    lineage_refuses_an_older_plan,
    relocation_refuses_an_older_plan,
    relocation_refuses_another_plan_of_the_same_epoch,
    the_event_store_refuses_another_plan_of_the_same_epoch,
    fencing_refuses_another_plan_of_the_same_epoch,
    lineage_refuses_another_plan_of_the_same_epoch,
    the_event_store_refuses_a_newer_plan,
    fencing_refuses_a_newer_plan,
    lineage_refuses_a_newer_plan,
    relocation_refuses_a_newer_plan,
    a_plan_is_refused_where_none_was_published,
    requests_under_the_current_plan_are_served,
    requests_outside_a_plan_are_served_under_epoch_1,
    requests_outside_a_plan_are_refused_from_epoch_2_on,
    the_epoch_is_judged_before_anything_stored,
    an_invalid_append_is_reported_before_its_epoch,
}

/// Checks that operations are refused under `presented`, and that nothing comes of them.
async fn all_refused(
    cx: &Cx,
    operations: &[Operation],
    current: PlanEpoch,
    presented: PlanEpoch,
) -> Verdict {
    cx.ledger()?;
    let subject = subject_and_sealed(cx, "order").await?;
    publish(cx, current, None).await?;
    let before = state(cx, &subject, Some(current)).await?;
    for &operation in operations {
        let refusal = perform(cx, operation, &subject, Some(presented)).await?;
        if presented.epoch > current.epoch {
            check_refused!(
                refusal,
                StoreErrorKind::ShardBehind { presented: found, current: Some(held) }
                    if *found == presented && *held == current,
                "{operation:?} under {presented}"
            );
        } else {
            check_refused!(
                refusal,
                StoreErrorKind::StalePlan { presented: Some(found), current: held }
                    if *found == presented && *held == current,
                "{operation:?} under {presented}"
            );
        }
        let after = state(cx, &subject, Some(current)).await?;
        check_eq!(
            after,
            before,
            "what is stored after a refused {operation:?}"
        );
    }
    // The fence is as it was, too.
    perform(cx, Operation::Append, &subject, Some(current)).await??;
    Ok(())
}

async fn the_event_store_refuses_an_older_plan(cx: Cx) -> Verdict {
    all_refused(&cx, STORE, plan(3, 7), plan(2, 7)).await
}

async fn fencing_refuses_an_older_plan(cx: Cx) -> Verdict {
    all_refused(&cx, FENCING, plan(3, 7), plan(2, 7)).await
}

async fn lineage_refuses_an_older_plan(cx: Cx) -> Verdict {
    all_refused(&cx, LINEAGE, plan(3, 7), plan(2, 7)).await
}

async fn relocation_refuses_an_older_plan(cx: Cx) -> Verdict {
    cx.relocation()?;
    all_refused(&cx, RELOCATION, plan(3, 7), plan(2, 7)).await
}

async fn the_event_store_refuses_another_plan_of_the_same_epoch(cx: Cx) -> Verdict {
    all_refused(&cx, STORE, plan(1, 7), plan(1, 7 | 1 << 127)).await
}

async fn fencing_refuses_another_plan_of_the_same_epoch(cx: Cx) -> Verdict {
    all_refused(&cx, FENCING, plan(1, 7), plan(1, 8)).await
}

async fn lineage_refuses_another_plan_of_the_same_epoch(cx: Cx) -> Verdict {
    all_refused(&cx, LINEAGE, plan(1, 7), plan(1, 8)).await
}

async fn relocation_refuses_another_plan_of_the_same_epoch(cx: Cx) -> Verdict {
    cx.relocation()?;
    all_refused(&cx, RELOCATION, plan(1, 7), plan(1, 8)).await
}

async fn the_event_store_refuses_a_newer_plan(cx: Cx) -> Verdict {
    all_refused(&cx, STORE, plan(3, 7), plan(4, 7)).await
}

async fn fencing_refuses_a_newer_plan(cx: Cx) -> Verdict {
    all_refused(&cx, FENCING, plan(3, 7), plan(4, 7)).await
}

async fn lineage_refuses_a_newer_plan(cx: Cx) -> Verdict {
    all_refused(&cx, LINEAGE, plan(3, 7), plan(4, 7)).await
}

async fn relocation_refuses_a_newer_plan(cx: Cx) -> Verdict {
    cx.relocation()?;
    all_refused(&cx, RELOCATION, plan(3, 7), plan(4, 7)).await
}

async fn a_plan_is_refused_where_none_was_published(cx: Cx) -> Verdict {
    cx.ledger()?;
    let subject = subject_and_sealed(&cx, "order").await?;
    for operation in offered(&cx) {
        check_refused!(
            perform(&cx, operation, &subject, Some(plan(1, 7))).await?,
            StoreErrorKind::ShardBehind { presented, current: None } if *presented == plan(1, 7),
            "{operation:?}"
        );
    }
    Ok(())
}

async fn requests_under_the_current_plan_are_served(cx: Cx) -> Verdict {
    cx.ledger()?;
    let mut subjects = Vec::new();
    for operation in offered(&cx) {
        subjects.push((
            operation,
            subject_and_sealed(&cx, &format!("{operation:?}")).await?,
        ));
    }
    let mut last = None;
    for now in [plan(1, 7), plan(2, 8), plan(9, 9)] {
        publish(&cx, now, last).await?;
        last = Some(now);
        for (operation, subject) in &subjects {
            // Only once: they change what is there.
            if now.epoch == 9 || matches!(operation, Operation::Read | Operation::List) {
                perform(&cx, *operation, subject, last).await??;
            }
        }
    }
    Ok(())
}

async fn requests_outside_a_plan_are_served_under_epoch_1(cx: Cx) -> Verdict {
    cx.ledger()?;
    let mut subjects = Vec::new();
    for operation in offered(&cx) {
        subjects.push((
            operation,
            subject_and_sealed(&cx, &format!("{operation:?}")).await?,
        ));
    }
    publish(&cx, plan(1, 7), None).await?;
    for (operation, subject) in subjects {
        perform(&cx, operation, &subject, None).await??;
    }
    Ok(())
}

async fn requests_outside_a_plan_are_refused_from_epoch_2_on(cx: Cx) -> Verdict {
    cx.ledger()?;
    let subject = subject_and_sealed(&cx, "order").await?;
    publish(&cx, plan(1, 7), None).await?;
    let mut last = plan(1, 7);
    for now in [plan(2, 7), plan(3, 7), plan(100, 7)] {
        publish(&cx, now, Some(last)).await?;
        last = now;
        let before = state(&cx, &subject, Some(now)).await?;
        for operation in offered(&cx) {
            check_refused!(
                perform(&cx, operation, &subject, None).await?,
                StoreErrorKind::StalePlan { presented: None, current } if *current == now,
                "{operation:?} outside a plan, under {now}"
            );
            let after = state(&cx, &subject, Some(now)).await?;
            check_eq!(
                after,
                before,
                "what is stored after a refused {operation:?}"
            );
        }
    }
    Ok(())
}

async fn the_epoch_is_judged_before_anything_stored(cx: Cx) -> Verdict {
    let now = plan(4, 7);
    cx.ledger()?;
    let closed = id("closed")?;
    cx.close(&closed, 0).await?;
    publish(&cx, now, None).await?;
    // The stale node believes that it does not exist, and must not hear so from here.
    let stale = Some(plan(3, 7));
    let absent = id("absent")?;
    check_refused!(
        cx.store()
            .head(Head::new(absent.clone()).with_epoch(stale))
            .await,
        StoreErrorKind::StalePlan { .. },
        "looking up what does not exist"
    );
    check_refused!(
        cx.store()
            .read(Read::new(absent.clone(), 0, 1).with_epoch(stale))
            .await,
        StoreErrorKind::StalePlan { .. },
        "reading what does not exist"
    );
    check_refused!(
        cx.store()
            .delete(Delete::new(absent).with_epoch(stale))
            .await,
        StoreErrorKind::StalePlan { .. },
        "deleting what does not exist"
    );
    let append = Append::new(closed, 7, vec![event(7)]);
    check_refused!(
        cx.store().append(append.with_epoch(stale)).await,
        StoreErrorKind::StalePlan { .. },
        "appending to what is closed and has another length"
    );
    // Selections in which nothing can be: an index would not even be asked.
    for residue in 0..4 {
        for cursor in many_ids(8)? {
            let nothing = List::new(1)
                .with_route(RouteFilter::new(4, residue)?)
                .with_cursor(ListCursor::after(&cursor));
            check_refused!(
                cx.store().list(nothing.with_epoch(stale)).await,
                StoreErrorKind::StalePlan { .. },
                "listing hash % 4 == {residue} after {cursor}"
            );
        }
    }
    Ok(())
}

async fn an_invalid_append_is_reported_before_its_epoch(cx: Cx) -> Verdict {
    publish(&cx, plan(4, 7), None).await?;
    for events in [vec![], vec![NewEvent::new("", "")]] {
        let append = Append::new(id("order")?, 0, events).with_epoch(plan(3, 7));
        check_refused!(
            cx.store().append(append).await,
            StoreErrorKind::InvalidArgument { .. },
            "an invalid append under an older plan"
        );
    }
    Ok(())
}
