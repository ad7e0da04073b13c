//! Marks: what was removed in the middle of a move must not come any more.

use loom_spi::{Delete, ExecutionId, Forget, Imported, Records, StoreErrorKind};

use super::moving::{
    Packed, acquire, branches, children, inspect, record, records, retire, seal, seen,
};
use crate::context::Cx;
use crate::outcome::{Verdict, check_eq, check_refused};
use crate::support::{id, stored};

crate::macros::suite! { ($) Store marks as __marks;
    what_was_deleted_with_a_mark_is_not_imported,
    what_was_deleted_without_a_mark_is_imported,
    what_was_forgotten_with_a_mark_is_not_imported,
    what_was_forgotten_without_a_mark_is_imported,
    forgetting_nothing_with_a_mark_leaves_one,
    a_marked_delete_deletes_as_any_other,
    a_refused_delete_leaves_no_mark,
    a_mark_stops_an_import_that_has_begun,
    a_mark_is_no_record,
    a_marked_execution_can_be_created_anew,
    a_mark_is_about_one_execution,
    retiring_leaves_no_mark,
}

/// Checks that an import is refused as deleted here, whole, in its first part, and without a log.
pub(super) async fn deleted_here(cx: &Cx, packed: &Packed) -> Verdict {
    let before = seen(cx, &packed.id).await?;
    let mut alone = Packed::made(&packed.id, 0).with_fence(99, None);
    alone.epoch = packed.epoch;
    for part in [packed.whole(), packed.part(0..1), alone.whole()] {
        check_refused!(
            cx.relocation()?.import(part).await,
            StoreErrorKind::DeletedHere,
            "importing what was removed"
        );
        check_eq!(seen(cx, &packed.id).await?, before, "the record");
    }
    Ok(())
}

pub(super) async fn delete(cx: &Cx, id: &ExecutionId, mark: bool) -> Verdict {
    let request = Delete::new(id.clone()).with_mark(mark);
    check_eq!(cx.store().delete(request).await?.events, 3, "how many went");
    Ok(())
}

async fn what_was_deleted_with_a_mark_is_not_imported(cx: Cx) -> Verdict {
    let packed = Packed::made(&id("order")?, 3);
    cx.relocation()?;
    packed.send(&cx, 3).await?;
    delete(&cx, &packed.id, true).await?;
    deleted_here(&cx, &packed).await
}

async fn what_was_deleted_without_a_mark_is_imported(cx: Cx) -> Verdict {
    let packed = Packed::made(&id("order")?, 3);
    cx.relocation()?;
    packed.send(&cx, 3).await?;
    delete(&cx, &packed.id, false).await?;
    check_eq!(packed.send(&cx, 2).await?, Imported::Visible, "the answer");
    check_eq!(cx.log(&packed.id).await?, stored(0, 3), "the log");
    Ok(())
}

async fn what_was_forgotten_with_a_mark_is_not_imported(cx: Cx) -> Verdict {
    let incident = id("incident")?;
    cx.relocation()?;
    record(&cx, &incident, &["a", "b"]).await?;
    let request = Forget::new(incident.clone()).with_mark(true);
    check_eq!(cx.branches()?.forget(request).await?, 2, "how many went");
    let packed = Packed::made(&incident, 3).with_branches(&["a", "b"])?;
    deleted_here(&cx, &packed).await?;
    check_eq!(children(&cx, &incident).await?, [], "the branches");
    Ok(())
}

async fn what_was_forgotten_without_a_mark_is_imported(cx: Cx) -> Verdict {
    let incident = id("incident")?;
    cx.relocation()?;
    record(&cx, &incident, &["a", "b"]).await?;
    let request = Forget::new(incident.clone());
    check_eq!(cx.branches()?.forget(request).await?, 2, "how many went");
    let packed = Packed::made(&incident, 3).with_branches(&["a", "b"])?;
    packed.send(&cx, 2).await?;
    check_eq!(
        children(&cx, &incident).await?,
        branches(&["a", "b"])?,
        "the branches"
    );
    Ok(())
}

async fn forgetting_nothing_with_a_mark_leaves_one(cx: Cx) -> Verdict {
    // The edges are still on their way here.
    let packed = Packed::made(&id("incident")?, 3);
    cx.relocation()?;
    let request = Forget::new(packed.id.clone()).with_mark(true);
    check_eq!(cx.branches()?.forget(request).await?, 0, "how many went");
    deleted_here(&cx, &packed.with_branches(&["a"])?).await
}

async fn a_marked_delete_deletes_as_any_other(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.append(&order, 0, 3).await?;
    let wrong = Delete::new(order.clone()).with_expected(2).with_mark(true);
    check_refused!(
        cx.store().delete(wrong).await,
        StoreErrorKind::SequenceConflict {
            expected: 2,
            actual: 3
        },
        "a delete that expects another length"
    );
    delete(&cx, &order, true).await?;
    check_eq!(cx.head(&order).await?, None, "the head");
    let again = Delete::new(order).with_mark(true);
    check_refused!(
        cx.store().delete(again).await,
        StoreErrorKind::NotFound,
        "deleting it again"
    );
    Ok(())
}

async fn a_refused_delete_leaves_no_mark(cx: Cx) -> Verdict {
    let packed = Packed::made(&id("order")?, 3);
    packed.send(&cx, 3).await?;
    let wrong = Delete::new(packed.id.clone()).with_expected(2);
    check_refused!(
        cx.store().delete(wrong.with_mark(true)).await,
        StoreErrorKind::SequenceConflict { .. },
        "a delete that expects another length"
    );
    check_eq!(
        packed.send(&cx, 3).await?,
        Imported::AlreadyThere,
        "the answer"
    );
    Ok(())
}

async fn a_mark_stops_an_import_that_has_begun(cx: Cx) -> Verdict {
    let packed = Packed::made(&id("incident")?, 4).with_branches(&["a"])?;
    cx.branches()?;
    cx.relocation()?.import(packed.part(0..2)).await?;
    let request = Forget::new(packed.id.clone()).with_mark(true);
    cx.branches()?.forget(request).await?;
    check_refused!(
        cx.relocation()?.import(packed.part(2..4)).await,
        StoreErrorKind::DeletedHere,
        "the rest of the import"
    );
    check_eq!(inspect(&cx, &packed.id).await?, None, "the record");
    Ok(())
}

async fn a_mark_is_no_record(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    cx.append(&order, 0, 3).await?;
    delete(&cx, &order, true).await?;
    check_eq!(inspect(&cx, &order).await?, None, "the record");
    check_eq!(records(&cx, Records::new(9)).await?, [], "the records");
    retire(&cx, &order).await?;
    Ok(())
}

async fn a_marked_execution_can_be_created_anew(cx: Cx) -> Verdict {
    let packed = Packed::made(&id("order")?, 3);
    cx.relocation()?;
    packed.send(&cx, 3).await?;
    delete(&cx, &packed.id, true).await?;
    cx.append(&packed.id, 0, 5).await?;
    check_eq!(cx.log(&packed.id).await?, stored(0, 5), "the new log");
    // The old one stays out, although the new one starts with it.
    deleted_here(&cx, &packed).await?;
    if cx.fencing().is_ok() {
        acquire(&cx, &packed.id, "one").await?;
    }
    Ok(())
}

async fn a_mark_is_about_one_execution(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    cx.append(&order, 0, 3).await?;
    delete(&cx, &order, true).await?;
    for other in ["order-1", "orde", "ORDER"] {
        let packed = Packed::made(&id(other)?, 3);
        let answer = packed.send(&cx, 2).await?;
        check_eq!(answer, Imported::Visible, "the answer for {other}");
    }
    Ok(())
}

async fn retiring_leaves_no_mark(cx: Cx) -> Verdict {
    let packed = Packed::made(&id("order")?, 3);
    packed.send(&cx, 3).await?;
    for _ in 0..2 {
        seal(&cx, &packed.id).await?;
        retire(&cx, &packed.id).await?;
        check_eq!(packed.send(&cx, 2).await?, Imported::Visible, "the answer");
    }
    Ok(())
}
