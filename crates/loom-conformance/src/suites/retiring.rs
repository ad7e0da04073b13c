//! The two ways out of a seal: being made writable again, and being removed whole.

use loom_spi::{
    AcquireFence, Append, Delete, Forget, List, Operation, Read, RecordLineage, Records,
    RenewLease, Retire, StoreErrorKind, Unseal,
};

use super::moving::{
    MINUTE, Packed, acquire, branches, children, inspect, parent, record, records, retire, seal,
    seen, unseal,
};
use super::operations::{FENCING, LINEAGE, perform, subject};
use crate::context::Cx;
use crate::outcome::{Verdict, check, check_eq, check_refused};
use crate::support::{event, id, stored};

crate::macros::suite! { ($) Store retiring as __retiring;
    an_unsealed_record_changes_again,
    an_unsealed_record_is_as_it_was,
    unsealing_what_is_not_sealed_does_nothing,
    what_does_not_exist_cannot_be_unsealed,
    only_a_sealed_record_is_retired,
    retiring_what_does_not_exist_does_nothing,
    retiring_removes_the_log,
    retiring_removes_the_fence,
    retiring_removes_the_lineage_from_both_ends,
    after_retiring_the_id_begins_anew,
    retiring_one_record_touches_no_other,
    what_was_retired_can_come_back,
}

async fn an_unsealed_record_changes_again(cx: Cx) -> Verdict {
    cx.relocation()?;
    let mut operations = vec![Operation::Append, Operation::Delete];
    if cx.fencing().is_ok() {
        operations.extend(FENCING);
    }
    if cx.branches().is_ok() {
        operations.extend(LINEAGE);
    }
    for operation in operations {
        let on = subject(&cx, &format!("{operation:?}")).await?;
        seal(&cx, &on.id).await?;
        unseal(&cx, &on.id).await?;
        perform(&cx, operation, &on, None).await??;
    }
    Ok(())
}

async fn an_unsealed_record_is_as_it_was(cx: Cx) -> Verdict {
    cx.relocation()?;
    let on = subject(&cx, "order").await?;
    let before = seen(&cx, &on.id).await?;
    seal(&cx, &on.id).await?;
    unseal(&cx, &on.id).await?;
    check_eq!(seen(&cx, &on.id).await?, before, "the record");
    if let (Ok(fencing), Some(token)) = (cx.fencing(), on.token) {
        let other = AcquireFence::new(on.id.clone()).with_holder("two".to_owned());
        check_refused!(
            fencing.acquire_fence(other).await,
            StoreErrorKind::Leased { .. },
            "an acquisition while the lease runs that was there before"
        );
        let renewal = RenewLease::new(on.id.clone(), token, MINUTE);
        fencing.renew_lease(renewal).await?;
    }
    let append = Append::new(on.id.clone(), 1, vec![event(1)]).with_fence(on.token);
    cx.store().append(append).await?;
    check_eq!(cx.log(&on.id).await?, stored(0, 2), "the log, continued");
    Ok(())
}

async fn unsealing_what_is_not_sealed_does_nothing(cx: Cx) -> Verdict {
    cx.relocation()?;
    let on = subject(&cx, "order").await?;
    let before = seen(&cx, &on.id).await?;
    for _ in 0..2 {
        unseal(&cx, &on.id).await?;
        check_eq!(seen(&cx, &on.id).await?, before, "the record");
    }
    Ok(())
}

async fn what_does_not_exist_cannot_be_unsealed(cx: Cx) -> Verdict {
    let absent = id("absent")?;
    check_refused!(
        cx.relocation()?.unseal(Unseal::new(absent.clone())).await,
        StoreErrorKind::NotFound,
        "unsealing what does not exist"
    );
    cx.append(&absent, 0, 1).await?;
    seal(&cx, &absent).await?;
    retire(&cx, &absent).await?;
    check_refused!(
        cx.relocation()?.unseal(Unseal::new(absent)).await,
        StoreErrorKind::NotFound,
        "unsealing what was retired"
    );
    Ok(())
}

async fn only_a_sealed_record_is_retired(cx: Cx) -> Verdict {
    cx.relocation()?;
    let order = id("order")?;
    cx.append(&order, 0, 2).await?;
    let mut unsealed = vec![order];
    if cx.fencing().is_ok() {
        let fenced = id("fenced")?;
        acquire(&cx, &fenced, "one").await?;
        unsealed.push(fenced);
    }
    if cx.branches().is_ok() {
        let incident = id("incident")?;
        record(&cx, &incident, &["a"]).await?;
        unsealed.push(incident);
    }
    let again = id("unsealed again")?;
    cx.append(&again, 0, 2).await?;
    seal(&cx, &again).await?;
    unseal(&cx, &again).await?;
    unsealed.push(again);
    for id in unsealed {
        let before = seen(&cx, &id).await?;
        check_refused!(
            cx.relocation()?.retire(Retire::new(id.clone())).await,
            StoreErrorKind::NotSealed,
            "retiring {id}"
        );
        check_eq!(seen(&cx, &id).await?, before, "the record of {id}");
    }
    Ok(())
}

async fn retiring_what_does_not_exist_does_nothing(cx: Cx) -> Verdict {
    let (absent, order) = (id("absent")?, id("order")?);
    retire(&cx, &absent).await?;
    cx.append(&order, 0, 2).await?;
    seal(&cx, &order).await?;
    for _ in 0..3 {
        retire(&cx, &order).await?;
    }
    check_eq!(inspect(&cx, &absent).await?, None, "the record");
    check_eq!(records(&cx, Records::new(9)).await?, [], "the records");
    cx.append(&absent, 0, 1).await?;
    Ok(())
}

async fn retiring_removes_the_log(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    cx.append(&order, 0, 5).await?;
    seal(&cx, &order).await?;
    retire(&cx, &order).await?;
    check_eq!(cx.head(&order).await?, None, "the head");
    check_refused!(
        cx.store().read(Read::new(order.clone(), 0, 9)).await,
        StoreErrorKind::NotFound,
        "reading it"
    );
    check_eq!(cx.ids(List::new(9)).await?, [], "the listing");
    check_eq!(inspect(&cx, &order).await?, None, "the record");
    check_eq!(records(&cx, Records::new(9)).await?, [], "the records");
    Ok(())
}

async fn retiring_removes_the_fence(cx: Cx) -> Verdict {
    let (order, alone) = (id("order")?, id("alone")?);
    cx.relocation()?;
    cx.fencing()?;
    cx.append(&order, 0, 1).await?;
    for id in [&order, &alone] {
        acquire(&cx, id, "one").await?;
        seal(&cx, id).await?;
        retire(&cx, id).await?;
        check_eq!(inspect(&cx, id).await?, None, "the record of {id}");
        // Neither its token nor its lease is in the way.
        cx.append(id, 0, 1).await?;
        acquire(&cx, id, "two").await?;
    }
    Ok(())
}

async fn retiring_removes_the_lineage_from_both_ends(cx: Cx) -> Verdict {
    let (incident, other) = (id("incident")?, id("other")?);
    cx.relocation()?;
    record(&cx, &incident, &["a", "b"]).await?;
    seal(&cx, &incident).await?;
    retire(&cx, &incident).await?;
    check_eq!(children(&cx, &incident).await?, [], "the branches");
    check_eq!(inspect(&cx, &incident).await?, None, "the record");
    for child in ["a", "b"] {
        check_eq!(parent(&cx, &id(child)?).await?, None, "the parent");
    }
    record(&cx, &other, &["b"]).await?;
    check_eq!(children(&cx, &other).await?, branches(&["b"])?, "elsewhere");
    Ok(())
}

async fn after_retiring_the_id_begins_anew(cx: Cx) -> Verdict {
    cx.relocation()?;
    let on = subject(&cx, "order").await?;
    seal(&cx, &on.id).await?;
    retire(&cx, &on.id).await?;
    check_refused!(
        cx.append(&on.id, 1, 1).await,
        StoreErrorKind::SequenceConflict {
            expected: 1,
            actual: 0
        },
        "going on after the end of what was retired"
    );
    check_refused!(
        cx.store().delete(Delete::new(on.id.clone())).await,
        StoreErrorKind::NotFound,
        "deleting what was retired"
    );
    cx.append(&on.id, 0, 3).await?;
    check_eq!(cx.log(&on.id).await?, stored(0, 3), "the new log");
    let head = cx.head(&on.id).await?;
    check!(head.is_some_and(|head| !head.sealed), "it is sealed");
    if cx.branches().is_ok() {
        let request = Forget::new(on.id.clone());
        check_eq!(cx.branches()?.forget(request).await?, 0, "edges left");
        let edge = RecordLineage::new(id("other")?, on.child, "other".to_owned());
        cx.branches()?.record_lineage(edge).await?;
    }
    Ok(())
}

async fn retiring_one_record_touches_no_other(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    let others = [id("order-1")?, id("orde")?, id("ORDER")?, id("child")?];
    for other in others.iter().chain([&order]) {
        cx.append(other, 0, 2).await?;
        if cx.branches().is_ok() {
            record(&cx, other, &[&format!("child of {other}")]).await?;
        }
    }
    if cx.branches().is_ok() {
        record(&cx, &order, &["child"]).await?;
    }
    let mut before = Vec::new();
    for other in &others {
        before.push(seen(&cx, other).await?);
    }
    seal(&cx, &order).await?;
    retire(&cx, &order).await?;
    for (other, before) in others.iter().zip(before) {
        check_eq!(seen(&cx, other).await?, before, "the record of {other}");
        cx.append(other, 2, 1).await?;
    }
    Ok(())
}

async fn what_was_retired_can_come_back(cx: Cx) -> Verdict {
    cx.relocation()?;
    let on = subject(&cx, "order").await?;
    let before = seen(&cx, &on.id).await?;
    let packed = Packed::of(&cx, &on.id).await?;
    retire(&cx, &on.id).await?;
    packed.send(&cx, 1).await?;
    check_eq!(seen(&cx, &on.id).await?, before, "the record");
    Ok(())
}
