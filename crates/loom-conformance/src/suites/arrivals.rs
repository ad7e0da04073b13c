//! Movers that are not alone, and what is in the way of an import.

use loom_spi::{Branch, Imported, List, ParentLink, StoreErrorKind};

use super::moving::{Packed, acquire, children, inspect, parent, record, retire, seal, seen};
use crate::context::Cx;
use crate::outcome::{Verdict, check_eq, check_refused};
use crate::support::{id, stored};

crate::macros::suite! { ($) Store arrivals as __arrivals;
    two_movers_complete_one_import_between_them,
    a_part_that_was_staged_before_is_skipped,
    another_incarnation_replaces_what_was_staged,
    parts_of_different_records_are_kept_apart,
    a_sealed_record_is_not_imported_over,
    a_child_of_another_parent_is_a_conflict,
    a_conflict_of_lineage_changes_nothing,
}

async fn two_movers_complete_one_import_between_them(cx: Cx) -> Verdict {
    let packed = Packed::made(&id("order")?, 8);
    for (from, until, reached) in [
        (0, 3, 3),
        (0, 2, 3),
        (0, 3, 3),
        (2, 5, 5),
        (1, 3, 5),
        (3, 6, 6),
    ] {
        let next_sequence = reached;
        check_eq!(
            cx.relocation()?.import(packed.part(from..until)).await?,
            Imported::Staged { next_sequence },
            "the answer to the part from {from} until {until}"
        );
    }
    check_eq!(
        cx.relocation()?.import(packed.part(5..8)).await?,
        Imported::Visible,
        "the answer to the last part"
    );
    check_eq!(cx.log(&packed.id).await?, stored(0, 8), "the log");
    Ok(())
}

async fn a_part_that_was_staged_before_is_skipped(cx: Cx) -> Verdict {
    let packed = Packed::made(&id("order")?, 5);
    for _ in 0..3 {
        check_eq!(
            cx.relocation()?.import(packed.part(0..4)).await?,
            Imported::Staged { next_sequence: 4 },
            "the answer"
        );
    }
    // Whoever begins anew gets through as well.
    check_eq!(packed.send(&cx, 5).await?, Imported::Visible, "the answer");
    check_eq!(cx.log(&packed.id).await?, stored(0, 5), "the log");
    Ok(())
}

async fn another_incarnation_replaces_what_was_staged(cx: Cx) -> Verdict {
    let order = id("order")?;
    let old = Packed::made(&order, 6);
    let mut events = stored(0, 5);
    for event in &mut events {
        event.payload = format!("anew {}", event.sequence).into();
    }
    let new = Packed::of_events(&order, events);
    cx.relocation()?.import(old.part(0..4)).await?;
    check_eq!(new.send(&cx, 2).await?, Imported::Visible, "the answer");
    check_eq!(cx.log(&order).await?, new.events, "the log");
    check_refused!(
        cx.relocation()?.import(old.part(4..6)).await,
        StoreErrorKind::RecordConflict { .. },
        "the rest of the older one"
    );
    check_eq!(cx.log(&order).await?, new.events, "the log");
    Ok(())
}

async fn parts_of_different_records_are_kept_apart(cx: Cx) -> Verdict {
    cx.relocation()?;
    let names = ["order", "order-1", "orde", "ORDER"];
    let mut imports = Vec::new();
    for (count, name) in (3..).zip(names) {
        imports.push(Packed::made(&id(name)?, count));
    }
    for packed in &imports {
        cx.relocation()?.import(packed.part(0..2)).await?;
    }
    for packed in &imports {
        check_eq!(
            cx.relocation()?
                .import(packed.part(2..packed.events.len()))
                .await?,
            Imported::Visible,
            "the answer"
        );
        let expected = stored(0, packed.events.len() as u64);
        check_eq!(cx.log(&packed.id).await?, expected, "the log");
    }
    Ok(())
}

async fn a_sealed_record_is_not_imported_over(cx: Cx) -> Verdict {
    cx.relocation()?;
    let order = id("order")?;
    let packed = Packed::made(&order, 3);
    packed.send(&cx, 3).await?;
    let mut leftovers = vec![order];
    if cx.fencing().is_ok() {
        let fenced = id("fenced")?;
        acquire(&cx, &fenced, "one").await?;
        leftovers.push(fenced);
    }
    for id in leftovers {
        seal(&cx, &id).await?;
        let before = seen(&cx, &id).await?;
        let packed = Packed::made(&id, 3);
        for part in [packed.whole(), packed.part(0..2)] {
            check_refused!(
                cx.relocation()?.import(part).await,
                StoreErrorKind::Sealed,
                "importing over a sealed record"
            );
            check_eq!(seen(&cx, &id).await?, before, "the record");
            check_eq!(
                inspect(&cx, &id).await?.map(|record| record.sealed),
                Some(true),
                "whether it is sealed"
            );
        }
        retire(&cx, &id).await?;
        check_eq!(packed.send(&cx, 2).await?, Imported::Visible, "then");
    }
    Ok(())
}

async fn a_child_of_another_parent_is_a_conflict(cx: Cx) -> Verdict {
    cx.branches()?;
    let (incident, other) = (id("incident")?, id("other")?);
    record(&cx, &other, &["b"]).await?;
    for count in [0, 3] {
        let packed = Packed::made(&incident, count).with_branches(&["a", "b"])?;
        check_refused!(
            cx.relocation()?.import(packed.whole()).await,
            StoreErrorKind::LineageConflict { parent, label } if *parent == other && label == "b",
            "importing a child of another parent"
        );
    }
    Ok(())
}

async fn a_conflict_of_lineage_changes_nothing(cx: Cx) -> Verdict {
    cx.branches()?;
    let (incident, other) = (id("incident")?, id("other")?);
    record(&cx, &other, &["b"]).await?;
    let mut packed = Packed::made(&incident, 3).with_branches(&["a", "b", "c"])?;
    if cx.fencing().is_ok() {
        packed = packed.with_fence(7, Some("one"));
    }
    check_refused!(
        cx.relocation()?.import(packed.whole()).await,
        StoreErrorKind::LineageConflict { .. },
        "importing a child of another parent"
    );
    check_eq!(inspect(&cx, &incident).await?, None, "the record");
    check_eq!(cx.ids(List::new(9)).await?, [], "the listing");
    for child in ["a", "c"] {
        check_eq!(parent(&cx, &id(child)?).await?, None, "the parent");
    }
    let link = ParentLink::new(other.clone(), "b");
    check_eq!(parent(&cx, &id("b")?).await?, Some(link), "the parent");
    check_eq!(
        children(&cx, &other).await?,
        [Branch::new(id("b")?, "b")],
        "the branches"
    );
    // Without the conflict it comes through.
    let forget = loom_spi::Forget::new(other);
    cx.branches()?.forget(forget).await?;
    check_eq!(packed.send(&cx, 2).await?, Imported::Visible, "then");
    Ok(())
}
