//! Parts of an import that do not fit.

use loom_spi::{ExecutionState, Import, Imported, StoreErrorKind};

use super::moving::{Packed, seen};
use crate::context::Cx;
use crate::outcome::{Verdict, check_eq, check_refused};
use crate::support::{id, stored};

crate::macros::suite! { ($) Store parts as __parts;
    a_part_that_leaves_a_gap_is_refused,
    a_first_part_that_does_not_start_at_the_beginning_is_refused,
    a_part_with_a_hole_or_a_repetition_is_refused,
    a_part_past_the_sealed_head_is_refused,
    a_part_without_events_is_refused,
    a_terminal_event_that_does_not_fit_the_sealed_head_is_refused,
    a_refused_part_changes_nothing,
}

/// Imports a part that is refused as invalid, and checks that it left nothing.
async fn invalid(cx: &Cx, part: Import, what: &str) -> Verdict {
    let id = part.id.clone();
    let before = seen(cx, &id).await?;
    check_refused!(
        cx.relocation()?.import(part).await,
        StoreErrorKind::InvalidArgument { .. },
        "{what}"
    );
    check_eq!(seen(cx, &id).await?, before, "the record after {what}");
    Ok(())
}

async fn a_part_that_leaves_a_gap_is_refused(cx: Cx) -> Verdict {
    let packed = Packed::made(&id("order")?, 6);
    cx.relocation()?.import(packed.part(0..2)).await?;
    for from in 3..6 {
        invalid(&cx, packed.part(from..6), "a part after a gap").await?;
    }
    check_eq!(
        cx.relocation()?.import(packed.part(2..6)).await?,
        Imported::Visible,
        "the answer to the part that fits"
    );
    check_eq!(cx.log(&packed.id).await?, stored(0, 6), "the log");
    Ok(())
}

async fn a_first_part_that_does_not_start_at_the_beginning_is_refused(cx: Cx) -> Verdict {
    cx.relocation()?;
    let packed = Packed::made(&id("order")?, 6);
    for from in 1..6 {
        invalid(&cx, packed.part(from..6), "a late first part").await?;
    }
    // Nor is what was refused taken for a beginning.
    invalid(&cx, packed.part(1..2), "a late first part").await
}

async fn a_part_with_a_hole_or_a_repetition_is_refused(cx: Cx) -> Verdict {
    cx.relocation()?;
    let packed = Packed::made(&id("order")?, 6);
    let mut hole = packed.part(0..4);
    hole.events.remove(2);
    invalid(&cx, hole, "a part with a hole").await?;
    let mut twice = packed.part(0..4);
    twice.events[3] = twice.events[2].clone();
    invalid(&cx, twice, "a part with an event twice").await?;
    let mut swapped = packed.part(0..4);
    swapped.events.swap(1, 2);
    invalid(&cx, swapped, "a part in disorder").await
}

async fn a_part_past_the_sealed_head_is_refused(cx: Cx) -> Verdict {
    cx.relocation()?;
    let (longer, shorter) = (
        Packed::made(&id("order")?, 6),
        Packed::made(&id("order")?, 4),
    );
    let mut more = longer.whole();
    more.sealed = shorter.sealed;
    invalid(&cx, more, "more events than the head says").await?;
    let mut none = longer.part(0..1);
    none.sealed.head = None;
    invalid(&cx, none, "an event although there is no log").await
}

async fn a_part_without_events_is_refused(cx: Cx) -> Verdict {
    cx.relocation()?;
    let packed = Packed::made(&id("order")?, 6);
    invalid(&cx, packed.part(0..0), "no events although there is a log").await
}

async fn a_terminal_event_that_does_not_fit_the_sealed_head_is_refused(cx: Cx) -> Verdict {
    cx.relocation()?;
    let order = id("order")?;
    let open = Packed::made(&order, 3);
    for terminal in 0..3 {
        let mut part = open.whole();
        part.events[terminal].terminal = true;
        invalid(&cx, part, "a terminal event in an open log").await?;
    }
    let mut head = open.sealed.head;
    if let Some(head) = &mut head {
        head.state = ExecutionState::Closed;
    }
    let mut part = open.whole();
    part.sealed.head = head;
    invalid(&cx, part.clone(), "a closed log without a terminal event").await?;
    (part.events[1].terminal, part.events[2].terminal) = (true, true);
    invalid(&cx, part, "a terminal event before the last").await
}

async fn a_refused_part_changes_nothing(cx: Cx) -> Verdict {
    let packed = Packed::made(&id("order")?, 6);
    cx.relocation()?.import(packed.part(0..3)).await?;
    let mut hole = packed.part(3..6);
    hole.events.remove(1);
    invalid(&cx, hole, "a part with a hole").await?;
    invalid(&cx, packed.part(4..6), "a part after a gap").await?;
    // What was staged is still there, and no more than that.
    check_eq!(
        cx.relocation()?.import(packed.part(3..4)).await?,
        Imported::Staged { next_sequence: 4 },
        "the answer to the part that fits"
    );
    check_eq!(packed.send(&cx, 6).await?, Imported::Visible, "the end");
    check_eq!(cx.log(&packed.id).await?, stored(0, 6), "the log");
    Ok(())
}
