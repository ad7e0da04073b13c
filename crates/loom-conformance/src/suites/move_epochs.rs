//! What a change of plan does to marks, to parts that are on their way, and to seals.

use loom_spi::{Delete, Forget, Imported, StoreErrorKind};

use super::ledger::{plan, publish};
use super::marks::{delete, deleted_here};
use super::moving::{Packed, retire, seal};
use crate::context::Cx;
use crate::outcome::{Verdict, check_eq, check_refused};
use crate::support::{id, stored};

crate::macros::suite! { ($) Store move_epochs as __move_epochs;
    a_new_plan_clears_marks,
    the_same_plan_again_clears_no_mark,
    a_new_plan_drops_staged_parts,
    the_same_plan_again_drops_no_part,
    a_new_plan_keeps_what_is_visible_and_what_is_sealed,
}

async fn a_new_plan_clears_marks(cx: Cx) -> Verdict {
    let mut packed = Packed::made(&id("order")?, 3);
    let mut forgotten = Packed::made(&id("incident")?, 3);
    cx.relocation()?;
    cx.ledger()?;
    let mut last = None;
    for now in [plan(1, 7), plan(2, 7), plan(9, 7)] {
        packed.send(&cx, 3).await?;
        let request = Delete::new(packed.id.clone()).with_epoch(last);
        cx.store().delete(request.with_mark(true)).await?;
        let late = cx.relocation()?.import(packed.whole()).await;
        check_refused!(late, StoreErrorKind::DeletedHere, "under {last:?}");
        if let Ok(branches) = cx.branches() {
            let request = Forget::new(forgotten.id.clone()).with_epoch(last);
            branches.forget(request.with_mark(true)).await?;
        }
        publish(&cx, now, last).await?;
        last = Some(now);
        (packed.epoch, forgotten.epoch) = (last, last);
        let answer = packed.send(&cx, 2).await?;
        check_eq!(answer, Imported::Visible, "what was deleted, under {now}");
        let answer = forgotten.send(&cx, 2).await?;
        check_eq!(
            answer,
            if now.epoch == 1 {
                Imported::Visible
            } else {
                Imported::AlreadyThere
            },
            "what was forgotten, under {now}"
        );
    }
    Ok(())
}

async fn the_same_plan_again_clears_no_mark(cx: Cx) -> Verdict {
    let packed = Packed::made(&id("order")?, 3);
    cx.relocation()?;
    publish(&cx, plan(1, 7), None).await?;
    packed.send(&cx, 3).await?;
    delete(&cx, &packed.id, true).await?;
    publish(&cx, plan(1, 7), None).await?;
    deleted_here(&cx, &packed).await
}

async fn a_new_plan_drops_staged_parts(cx: Cx) -> Verdict {
    let mut packed = Packed::made(&id("order")?, 6);
    cx.relocation()?;
    cx.ledger()?;
    let mut last = None;
    for now in [plan(1, 7), plan(2, 7)] {
        cx.relocation()?.import(packed.part(0..4)).await?;
        publish(&cx, now, last).await?;
        last = Some(now);
        packed.epoch = last;
        check_refused!(
            cx.relocation()?.import(packed.part(4..6)).await,
            StoreErrorKind::InvalidArgument { .. },
            "the rest of what was staged under the plan before {now}"
        );
        check_eq!(
            cx.relocation()?.import(packed.part(0..2)).await?,
            Imported::Staged { next_sequence: 2 },
            "the answer to a new beginning"
        );
    }
    check_eq!(packed.send(&cx, 2).await?, Imported::Visible, "the end");
    Ok(())
}

async fn the_same_plan_again_drops_no_part(cx: Cx) -> Verdict {
    let packed = Packed::made(&id("order")?, 6);
    publish(&cx, plan(1, 7), None).await?;
    cx.relocation()?.import(packed.part(0..4)).await?;
    publish(&cx, plan(1, 7), None).await?;
    check_eq!(
        cx.relocation()?.import(packed.part(4..6)).await?,
        Imported::Visible,
        "the answer to the rest"
    );
    Ok(())
}

async fn a_new_plan_keeps_what_is_visible_and_what_is_sealed(cx: Cx) -> Verdict {
    let (moved, sealed) = (id("moved")?, id("sealed")?);
    cx.relocation()?;
    cx.ledger()?;
    Packed::made(&moved, 3).send(&cx, 2).await?;
    cx.append(&sealed, 0, 3).await?;
    seal(&cx, &sealed).await?;
    // Requests outside a plan are served under the first one.
    publish(&cx, plan(1, 7), None).await?;
    check_eq!(cx.log(&moved).await?, stored(0, 3), "what was moved");
    check_refused!(
        cx.append(&sealed, 3, 1).await,
        StoreErrorKind::Sealed,
        "an append to what was sealed"
    );
    retire(&cx, &sealed).await?;
    Ok(())
}
