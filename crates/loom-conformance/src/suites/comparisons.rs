//! Importing over a log: it is compared, and stays.

use loom_spi::{Append, FenceToken, Imported, RenewLease, StoreErrorKind, Timestamp};

use super::moving::{MINUTE, Packed, inspect, record, seal, seen, unseal};
use crate::context::Cx;
use crate::outcome::{Verdict, check_eq, check_refused};
use crate::support::{event, id, stored};

crate::macros::suite! { ($) Store comparisons as __comparisons;
    the_same_record_again_is_already_there,
    a_log_that_has_gone_on_is_already_there,
    an_import_over_a_log_can_come_in_parts,
    the_rest_of_an_import_that_another_completed_is_already_there,
    a_log_that_differs_at_its_start_is_a_conflict,
    a_log_that_differs_at_its_end_is_a_conflict,
    a_payload_a_kind_and_a_time_are_each_compared,
    a_log_that_ends_where_the_other_goes_on_is_a_conflict,
    a_shorter_log_is_a_conflict,
    a_conflict_changes_nothing,
    the_fence_over_a_log_is_raised,
    the_fence_over_a_log_is_never_lowered,
    the_lineage_of_a_record_with_a_log_stays,
}

/// A log of `count` events is here that was imported.
async fn here(cx: &Cx, count: u64) -> Result<Packed, crate::outcome::Stop> {
    let packed = Packed::made(&id("order")?, count);
    packed.send(cx, 100).await?;
    Ok(packed)
}

async fn the_same_record_again_is_already_there(cx: Cx) -> Verdict {
    let mut packed = Packed::made(&id("order")?, 6);
    if cx.fencing().is_ok() {
        packed = packed.with_fence(7, Some("one"));
    }
    if cx.branches().is_ok() {
        packed = packed.with_branches(&["b", "a"])?;
    }
    packed.send(&cx, 100).await?;
    let before = seen(&cx, &packed.id).await?;
    for size in [100, 6, 1, 4] {
        check_eq!(
            packed.send(&cx, size).await?,
            Imported::AlreadyThere,
            "the answer to parts of {size}"
        );
        check_eq!(seen(&cx, &packed.id).await?, before, "the record");
    }
    // It is as writable as before.
    let append = Append::new(packed.id, 6, vec![event(6)]).with_fence(packed.sealed.fence);
    cx.store().append(append).await?;
    Ok(())
}

async fn a_log_that_has_gone_on_is_already_there(cx: Cx) -> Verdict {
    let packed = here(&cx, 3).await?;
    cx.append(&packed.id, 3, 2).await?;
    for size in [3, 1] {
        check_eq!(
            packed.send(&cx, size).await?,
            Imported::AlreadyThere,
            "the answer to parts of {size}"
        );
        check_eq!(cx.log(&packed.id).await?, stored(0, 5), "the log");
    }
    cx.close(&packed.id, 5).await?;
    check_eq!(
        packed.send(&cx, 2).await?,
        Imported::AlreadyThere,
        "the answer when the log is closed"
    );
    Ok(())
}

async fn an_import_over_a_log_can_come_in_parts(cx: Cx) -> Verdict {
    let packed = here(&cx, 6).await?;
    for (from, until) in [(0, 2), (2, 5)] {
        let next_sequence = until as u64;
        check_eq!(
            cx.relocation()?.import(packed.part(from..until)).await?,
            Imported::Staged { next_sequence },
            "the answer to the part from {from} on"
        );
    }
    check_eq!(
        cx.relocation()?.import(packed.part(5..6)).await?,
        Imported::AlreadyThere,
        "the answer to the last part"
    );
    Ok(())
}

async fn the_rest_of_an_import_that_another_completed_is_already_there(cx: Cx) -> Verdict {
    let packed = Packed::made(&id("order")?, 6);
    cx.relocation()?.import(packed.part(0..3)).await?;
    check_eq!(
        cx.relocation()?.import(packed.whole()).await?,
        Imported::Visible,
        "the answer to the other"
    );
    cx.append(&packed.id, 6, 1).await?;
    check_eq!(
        cx.relocation()?.import(packed.part(3..6)).await?,
        Imported::AlreadyThere,
        "the answer to the rest"
    );
    check_eq!(cx.log(&packed.id).await?, stored(0, 7), "the log");
    Ok(())
}

/// Sends `wrong` in parts of every size over the log that is here: a conflict, of which nothing comes.
async fn conflicts(cx: &Cx, wrong: &Packed, what: &str) -> Verdict {
    let before = seen(cx, &wrong.id).await?;
    for size in 1..=wrong.events.len() {
        let mut from = 0;
        let refused = loop {
            let until = (from + size).min(wrong.events.len());
            match cx.relocation()?.import(wrong.part(from..until)).await {
                Ok(Imported::Staged { .. }) if until < wrong.events.len() => from = until,
                end => break end,
            }
        };
        check_refused!(
            refused,
            StoreErrorKind::RecordConflict { .. },
            "{what}, in parts of {size}"
        );
        check_eq!(seen(cx, &wrong.id).await?, before, "the record");
    }
    Ok(())
}

async fn a_log_that_differs_at_its_start_is_a_conflict(cx: Cx) -> Verdict {
    let mut packed = here(&cx, 5).await?;
    packed.events[0].payload = "another".into();
    conflicts(&cx, &packed, "another first event").await
}

async fn a_log_that_differs_at_its_end_is_a_conflict(cx: Cx) -> Verdict {
    let mut packed = here(&cx, 5).await?;
    packed.events[4].payload = "another".into();
    conflicts(&cx, &packed, "another last event").await?;
    cx.append(&packed.id, 5, 2).await?;
    conflicts(&cx, &packed, "another last event, and the log has gone on").await
}

async fn a_payload_a_kind_and_a_time_are_each_compared(cx: Cx) -> Verdict {
    let packed = here(&cx, 5).await?;
    let mut payload = packed.clone();
    payload.events[2].payload = "".into();
    conflicts(&cx, &payload, "another payload").await?;
    let mut kind = packed.clone();
    kind.events[2].kind = "another".into();
    conflicts(&cx, &kind, "another kind").await?;
    let mut time = packed;
    let later = time.events[2].recorded_at.as_millis() + 1;
    time.events[2].recorded_at = Timestamp::from_millis(later);
    conflicts(&cx, &time, "another time").await
}

async fn a_log_that_ends_where_the_other_goes_on_is_a_conflict(cx: Cx) -> Verdict {
    let packed = here(&cx, 5).await?;
    let mut events = packed.events;
    events[4].terminal = true;
    let closed = Packed::of_events(&packed.id, events);
    conflicts(&cx, &closed, "a log of the same events that is closed").await?;
    let mut events = stored(0, 3);
    events[2].terminal = true;
    let shorter = Packed::of_events(&packed.id, events);
    conflicts(&cx, &shorter, "a log that was closed earlier").await
}

async fn a_shorter_log_is_a_conflict(cx: Cx) -> Verdict {
    // It does not start with the whole of the imported one: one of the two was written to while it was sealed.
    here(&cx, 3).await?;
    let longer = Packed::made(&id("order")?, 5);
    conflicts(&cx, &longer, "a log that goes on").await
}

async fn a_conflict_changes_nothing(cx: Cx) -> Verdict {
    let mut packed = here(&cx, 3).await?;
    if cx.fencing().is_ok() {
        packed = packed.with_fence(41, Some("one"));
    }
    if cx.branches().is_ok() {
        packed = packed.with_branches(&["a"])?;
    }
    packed.events[2].payload = "another".into();
    let before = seen(&cx, &packed.id).await?;
    check_refused!(
        cx.relocation()?.import(packed.whole()).await,
        StoreErrorKind::RecordConflict { .. },
        "another last event"
    );
    check_eq!(seen(&cx, &packed.id).await?, before, "the record");
    // Neither its token nor a seal is in the way.
    cx.append(&packed.id, 3, 1).await?;
    Ok(())
}

async fn the_fence_over_a_log_is_raised(cx: Cx) -> Verdict {
    let packed = here(&cx, 3).await?;
    cx.fencing()?;
    let fenced = packed.with_fence(41, Some("one"));
    check_eq!(
        fenced.send(&cx, 2).await?,
        Imported::AlreadyThere,
        "the answer"
    );
    let order = fenced.id;
    check_refused!(
        cx.append(&order, 3, 1).await,
        StoreErrorKind::Fenced {
            current: FenceToken(41),
            ..
        },
        "an append without the token"
    );
    let renewal = RenewLease::new(order.clone(), FenceToken(41), MINUTE);
    cx.fencing()?.renew_lease(renewal).await?;
    let append = Append::new(order, 3, vec![event(3)]).with_fence(FenceToken(41));
    cx.store().append(append).await?;
    Ok(())
}

async fn the_fence_over_a_log_is_never_lowered(cx: Cx) -> Verdict {
    cx.fencing()?;
    let packed = Packed::made(&id("order")?, 3).with_fence(41, Some("one"));
    packed.send(&cx, 3).await?;
    for again in [packed.clone().with_fence(7, Some("two")), {
        let mut without = packed.clone();
        (without.sealed.fence, without.sealed.holder) = (None, None);
        without
    }] {
        check_eq!(
            again.send(&cx, 3).await?,
            Imported::AlreadyThere,
            "the answer"
        );
        let fence = inspect(&cx, &packed.id)
            .await?
            .and_then(|record| record.fence);
        check_eq!(fence, Some(FenceToken(41)), "the token");
        let holder = seal(&cx, &packed.id).await?.holder;
        check_eq!(holder.as_deref(), Some("one"), "its holder");
        unseal(&cx, &packed.id).await?;
    }
    Ok(())
}

async fn the_lineage_of_a_record_with_a_log_stays(cx: Cx) -> Verdict {
    let packed = here(&cx, 3).await?;
    record(&cx, &packed.id, &["y", "a"]).await?;
    let before = seen(&cx, &packed.id).await?;
    // What was forgotten here, since the log came, does not come back.
    let again = packed.with_branches(&["z", "a"])?;
    check_eq!(
        again.send(&cx, 3).await?,
        Imported::AlreadyThere,
        "the answer"
    );
    check_eq!(seen(&cx, &again.id).await?, before, "the record");
    Ok(())
}
