//! Importing: a record appears whole, as it was.

use loom_spi::{Event, Imported, List, NewEvent, Read, Records, StoreErrorKind, Timestamp};

use super::moving::{Packed, branches, children, inspect, parent, records, seal, unseal};
use crate::context::Cx;
use crate::outcome::{Verdict, check, check_eq, check_refused};
use crate::support::{id, stored};

crate::macros::suite! { ($) Store imports as __imports;
    a_record_arrives_in_one_part,
    a_record_arrives_in_parts_of_any_size,
    each_part_is_answered_with_where_to_go_on,
    nothing_is_seen_of_parts_until_the_last_one,
    events_arrive_byte_for_byte,
    a_closed_log_arrives_closed,
    what_arrives_is_not_sealed,
    an_imported_log_goes_on_where_it_ended,
    the_limits_of_appends_do_not_apply,
    an_unfinished_import_does_not_keep_others_from_creating_the_log,
}

async fn a_record_arrives_in_one_part(cx: Cx) -> Verdict {
    let order = id("order")?;
    let packed = Packed::made(&order, 7);
    let answer = cx.relocation()?.import(packed.whole()).await?;
    check_eq!(answer, Imported::Visible, "the answer");
    check_eq!(cx.log(&order).await?, stored(0, 7), "the log");
    let head = packed.sealed.head.map(|head| head.with_sealed(false));
    check_eq!(cx.head(&order).await?, head, "the head");
    check_eq!(cx.ids(List::new(9)).await?, [order], "the listing");
    Ok(())
}

async fn a_record_arrives_in_parts_of_any_size(cx: Cx) -> Verdict {
    cx.relocation()?;
    for size in [1, 2, 3, 6, 7] {
        let order = id(format!("order in parts of {size}"))?;
        let packed = Packed::made(&order, 7);
        check_eq!(
            packed.send(&cx, size).await?,
            Imported::Visible,
            "the answer"
        );
        check_eq!(cx.log(&order).await?, stored(0, 7), "the log");
        check_eq!(
            cx.head(&order).await?,
            packed.sealed.head.map(|head| head.with_sealed(false)),
            "the head"
        );
    }
    Ok(())
}

async fn each_part_is_answered_with_where_to_go_on(cx: Cx) -> Verdict {
    let packed = Packed::made(&id("order")?, 7);
    for (from, until) in [(0, 2), (2, 3), (3, 6)] {
        let next_sequence = until as u64;
        check_eq!(
            cx.relocation()?.import(packed.part(from..until)).await?,
            Imported::Staged { next_sequence },
            "the answer to the part from {from} on"
        );
    }
    check_eq!(
        cx.relocation()?.import(packed.part(6..7)).await?,
        Imported::Visible,
        "the answer to the last part"
    );
    Ok(())
}

async fn nothing_is_seen_of_parts_until_the_last_one(cx: Cx) -> Verdict {
    let order = id("order")?;
    let mut packed = Packed::made(&order, 6);
    if cx.fencing().is_ok() {
        packed = packed.with_fence(5, Some("one"));
    }
    if cx.branches().is_ok() {
        packed = packed.with_branches(&["a", "b"])?;
    }
    for from in 0..5 {
        cx.relocation()?.import(packed.part(from..from + 1)).await?;
        check_eq!(cx.head(&order).await?, None, "the head");
        check_refused!(
            cx.store().read(Read::new(order.clone(), 0, 9)).await,
            StoreErrorKind::NotFound,
            "reading it"
        );
        check_eq!(cx.ids(List::new(9)).await?, [], "the listing");
        check_eq!(inspect(&cx, &order).await?, None, "the record");
        check_eq!(records(&cx, Records::new(9)).await?, [], "the records");
        if cx.branches().is_ok() {
            check_eq!(children(&cx, &order).await?, [], "the branches");
            check_eq!(parent(&cx, &id("a")?).await?, None, "the parent");
        }
    }
    cx.relocation()?.import(packed.part(5..6)).await?;
    let summary = inspect(&cx, &order).await?;
    check!(summary.is_some(), "it is not there after the last part");
    check_eq!(cx.log(&order).await?, stored(0, 6), "the log");
    if cx.branches().is_ok() {
        check_eq!(
            children(&cx, &order).await?,
            branches(&["a", "b"])?,
            "the branches"
        );
    }
    Ok(())
}

async fn events_arrive_byte_for_byte(cx: Cx) -> Verdict {
    let order = id("order")?;
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    let times = [0, -1, 1_700_000_000_001, i64::MIN, i64::MAX, 999];
    let payloads = [
        every_byte,
        vec![],
        vec![0],
        b"{ \"a\" : 1 }".to_vec(),
        vec![0xff; 4096],
        vec![0xc3, 0x28],
    ];
    let kinds = ["k", "Kind", "kind ", "\u{0}", "été €", "🦀"];
    let events: Vec<Event> = (0..)
        .zip(kinds.into_iter().zip(payloads).zip(times))
        .map(|(sequence, ((kind, payload), at))| {
            let event = NewEvent::new(kind, payload).recorded_at(Timestamp::from_millis(at));
            Event::from_new(sequence, event)
        })
        .collect();
    let packed = Packed::of_events(&order, events.clone());
    packed.send(&cx, 2).await?;
    check_eq!(cx.log(&order).await?, events, "the log");
    check_eq!(
        cx.head(&order).await?,
        packed.sealed.head.map(|head| head.with_sealed(false)),
        "the head"
    );
    Ok(())
}

async fn a_closed_log_arrives_closed(cx: Cx) -> Verdict {
    cx.relocation()?;
    for size in [1, 3] {
        let order = id(format!("order in parts of {size}"))?;
        let mut events = stored(0, 3);
        events[2].terminal = true;
        let packed = Packed::of_events(&order, events.clone());
        packed.send(&cx, size).await?;
        check_eq!(cx.log(&order).await?, events, "the log");
        check_refused!(
            cx.append(&order, 3, 1).await,
            StoreErrorKind::Closed { next_sequence: 3 },
            "one more event"
        );
    }
    Ok(())
}

async fn what_arrives_is_not_sealed(cx: Cx) -> Verdict {
    let order = id("order")?;
    Packed::made(&order, 4).send(&cx, 2).await?;
    let head = cx.head(&order).await?;
    check!(head.is_some_and(|head| !head.sealed), "its head says so");
    let sealed = inspect(&cx, &order).await?.map(|record| record.sealed);
    check_eq!(sealed, Some(false), "whether the record is sealed");
    cx.append(&order, 4, 1).await?;
    Ok(())
}

async fn an_imported_log_goes_on_where_it_ended(cx: Cx) -> Verdict {
    let order = id("order")?;
    Packed::made(&order, 4).send(&cx, 3).await?;
    for wrong in [0, 3, 5] {
        check_refused!(
            cx.append(&order, wrong, 1).await,
            StoreErrorKind::SequenceConflict { actual: 4, .. },
            "an append that expects {wrong}"
        );
    }
    cx.append(&order, 4, 2).await?;
    check_eq!(cx.log(&order).await?, stored(0, 6), "the log, continued");
    seal(&cx, &order).await?;
    unseal(&cx, &order).await?;
    cx.append(&order, 6, 1).await?;
    Ok(())
}

async fn the_limits_of_appends_do_not_apply(cx: Cx) -> Verdict {
    cx.relocation()?;
    let limits = cx.store().capabilities().limits;
    let reachable = limits.max_append_bytes <= 64 << 20;
    check_reachable(reachable)?;
    let order = id("order")?;
    // Each event was small enough once, for another store.
    let large = vec![7; limits.max_payload_bytes + 1];
    let count = limits.max_append_events.min(2000) as u64 + 1;
    let mut events = stored(0, count);
    events[0].payload = large.into();
    let packed = Packed::of_events(&order, events);
    check_eq!(
        cx.relocation()?.import(packed.whole()).await?,
        Imported::Visible,
        "the answer"
    );
    check!(cx.log(&order).await? == packed.events, "the log differs");
    Ok(())
}

fn check_reachable(reachable: bool) -> Verdict {
    match reachable {
        true => Ok(()),
        false => Err(crate::outcome::Stop::Skipped(crate::Need::ReachableLimits)),
    }
}

async fn an_unfinished_import_does_not_keep_others_from_creating_the_log(cx: Cx) -> Verdict {
    let order = id("order")?;
    let packed = Packed::made(&order, 4);
    cx.relocation()?.import(packed.part(0..2)).await?;
    cx.append(&order, 0, 1).await?;
    check_eq!(cx.log(&order).await?, stored(0, 1), "the log");
    check_refused!(
        cx.relocation()?.import(packed.part(2..4)).await,
        StoreErrorKind::RecordConflict { .. },
        "the rest of the import"
    );
    check_eq!(cx.log(&order).await?, stored(0, 1), "the log");
    Ok(())
}
