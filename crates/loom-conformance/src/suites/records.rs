//! Looking at records, one by one and in list order, whatever they consist of.

use std::collections::BTreeSet;

use loom_spi::{
    Append, Delete, ExecutionId, FenceToken, ListCursor, RecordSummary, Records, RouteFilter,
    StoreErrorKind,
};

use super::moving::{acquire, inspect, record, records, retire, seal};
use crate::context::Cx;
use crate::outcome::{Stop, Verdict, check, check_eq, check_refused};
use crate::support::{event, id, in_list_order, many_ids};

crate::macros::suite! { ($) Store records as __records;
    what_does_not_exist_has_no_record,
    a_log_is_a_record,
    a_fence_alone_is_a_record,
    lineage_alone_is_a_record,
    a_record_tells_all_its_parts,
    a_record_follows_every_change,
    what_is_left_after_a_delete_is_a_record,
    every_record_is_listed_once_in_list_order,
    record_pages_of_every_size_join_to_the_same_listing,
    a_listing_of_records_goes_on_after_any_id,
    a_filter_selects_records_by_their_hash,
    a_record_limit_of_zero_is_refused,
    records_that_come_and_go_between_pages_hide_no_other,
}

async fn what_does_not_exist_has_no_record(cx: Cx) -> Verdict {
    cx.relocation()?;
    let order = id("order")?;
    check_eq!(inspect(&cx, &order).await?, None, "the record");
    cx.append(&id("order-1")?, 0, 1).await?;
    if cx.branches().is_ok() {
        // Being a branch makes no record.
        record(&cx, &id("order-1")?, &["order"]).await?;
    }
    check_eq!(inspect(&cx, &order).await?, None, "the record");
    cx.append(&order, 0, 1).await?;
    cx.store().delete(Delete::new(order.clone())).await?;
    check_eq!(inspect(&cx, &order).await?, None, "what was deleted");
    Ok(())
}

async fn a_log_is_a_record(cx: Cx) -> Verdict {
    cx.relocation()?;
    let (open, closed) = (id("open")?, id("closed")?);
    cx.append(&open, 0, 3).await?;
    cx.close(&closed, 0).await?;
    for id in [open, closed] {
        let head = cx.head(&id).await?;
        let expected = RecordSummary::new(id.clone(), head, None, 0, false);
        check_eq!(inspect(&cx, &id).await?, Some(expected), "the record");
    }
    Ok(())
}

async fn a_fence_alone_is_a_record(cx: Cx) -> Verdict {
    cx.relocation()?;
    let order = id("order")?;
    let token = acquire(&cx, &order, "one").await?;
    let expected = RecordSummary::new(order.clone(), None, Some(token), 0, false);
    check_eq!(inspect(&cx, &order).await?, Some(expected), "the record");
    Ok(())
}

async fn lineage_alone_is_a_record(cx: Cx) -> Verdict {
    cx.relocation()?;
    let incident = id("incident")?;
    record(&cx, &incident, &["a", "b"]).await?;
    let expected = RecordSummary::new(incident.clone(), None, None, 2, false);
    check_eq!(inspect(&cx, &incident).await?, Some(expected), "the record");
    Ok(())
}

async fn a_record_tells_all_its_parts(cx: Cx) -> Verdict {
    cx.relocation()?;
    let order = id("order")?;
    cx.append(&order, 0, 3).await?;
    record(&cx, &order, &["a", "b", "c"]).await?;
    let token = acquire(&cx, &order, "one").await?;
    let head = cx.head(&order).await?;
    let expected = RecordSummary::new(order.clone(), head, Some(token), 3, false);
    check_eq!(inspect(&cx, &order).await?, Some(expected), "the record");
    Ok(())
}

async fn a_record_follows_every_change(cx: Cx) -> Verdict {
    cx.relocation()?;
    let order = id("order")?;
    for length in 1..5 {
        cx.append(&order, length - 1, 1).await?;
        let head = inspect(&cx, &order).await?.and_then(|record| record.head);
        check_eq!(head, cx.head(&order).await?, "the head");
        check_eq!(
            head.map(|head| head.next_sequence),
            Some(length),
            "the length"
        );
    }
    if cx.fencing().is_ok() {
        let append = Append::new(order.clone(), 4, vec![event(4)]).with_fence(FenceToken(9));
        cx.store().append(append).await?;
        let fence = inspect(&cx, &order).await?.and_then(|record| record.fence);
        check_eq!(
            fence,
            Some(FenceToken(9)),
            "the token that an append brought"
        );
    }
    Ok(())
}

async fn what_is_left_after_a_delete_is_a_record(cx: Cx) -> Verdict {
    cx.relocation()?;
    let order = id("order")?;
    cx.append(&order, 0, 3).await?;
    record(&cx, &order, &["a"]).await?;
    let token = acquire(&cx, &order, "one").await?;
    cx.store().delete(Delete::new(order.clone())).await?;
    let expected = RecordSummary::new(order.clone(), None, Some(token), 1, false);
    check_eq!(inspect(&cx, &order).await?, Some(expected), "the record");
    Ok(())
}

/// Records of every shape that the store knows, in list order, and nothing else.
async fn filled(cx: &Cx, count: usize) -> Result<Vec<RecordSummary>, Stop> {
    cx.relocation()?;
    let ids = in_list_order(many_ids(count)?);
    let mut filled = Vec::new();
    for (index, id) in ids.iter().enumerate() {
        match index % 4 {
            1 if cx.fencing().is_ok() => drop(acquire(cx, id, "one").await?),
            2 if cx.branches().is_ok() => {
                record(cx, id, &[&format!("child of {id}")]).await?;
            }
            3 => {
                cx.append(id, 0, 1).await?;
                seal(cx, id).await?;
            }
            _ => drop(cx.append(id, 0, 2).await?),
        }
        let summary = inspect(cx, id).await?;
        filled.push(summary.ok_or_else(|| Stop::failed(format_args!("{id} is not there")))?);
    }
    Ok(filled)
}

async fn every_record_is_listed_once_in_list_order(cx: Cx) -> Verdict {
    let expected = filled(&cx, cx.effort().many).await?;
    let gone = id("gone")?;
    cx.append(&gone, 0, 1).await?;
    seal(&cx, &gone).await?;
    retire(&cx, &gone).await?;
    let found = records(&cx, Records::new(64)).await?;
    check_eq!(found, expected, "the listing");
    Ok(())
}

async fn record_pages_of_every_size_join_to_the_same_listing(cx: Cx) -> Verdict {
    let expected = filled(&cx, 30).await?;
    for size in (1..=32).chain([usize::MAX]) {
        let found = records(&cx, Records::new(size)).await?;
        check_eq!(found, expected, "the listing in pages of {size}");
    }
    Ok(())
}

async fn a_listing_of_records_goes_on_after_any_id(cx: Cx) -> Verdict {
    let all = filled(&cx, 30).await?;
    for (index, last) in all.iter().enumerate() {
        let request = Records::new(7).with_cursor(ListCursor::after(&last.id));
        let found = records(&cx, request).await?;
        check_eq!(found, all[index + 1..], "the listing after {}", last.id);
    }
    let absent = in_list_order(many_ids(60)?.split_off(30));
    for id in &absent {
        let request = Records::new(7).with_cursor(ListCursor::after(id));
        let after = |record: &&RecordSummary| {
            ListCursor::after(&record.id).position() > ListCursor::after(id).position()
        };
        let expected: Vec<_> = all.iter().filter(after).cloned().collect();
        check_eq!(
            records(&cx, request).await?,
            expected,
            "the listing after {id}, which is not there"
        );
    }
    Ok(())
}

async fn a_filter_selects_records_by_their_hash(cx: Cx) -> Verdict {
    let all = filled(&cx, 60).await?;
    for modulus in [1, 2, 3, 4, 6, 7, 64, 3 << 20, 1 << 63] {
        for residue in (0..modulus.min(64)).chain([modulus - 1]) {
            let filter = RouteFilter::new(modulus, residue)?;
            let selected = |record: &&RecordSummary| record.id.route_hash().0 % modulus == residue;
            let expected: Vec<_> = all.iter().filter(selected).cloned().collect();
            // The filter holds on every page.
            let found = records(&cx, Records::new(3).with_route(filter)).await?;
            check_eq!(found, expected, "hash % {modulus} == {residue}");
        }
    }
    Ok(())
}

async fn a_record_limit_of_zero_is_refused(cx: Cx) -> Verdict {
    filled(&cx, 5).await?;
    check_refused!(
        cx.relocation()?.records(Records::new(0)).await,
        StoreErrorKind::InvalidArgument { .. },
        "listing no records"
    );
    Ok(())
}

async fn records_that_come_and_go_between_pages_hide_no_other(cx: Cx) -> Verdict {
    cx.relocation()?;
    let stays = many_ids(40)?;
    for id in &stays {
        cx.append(id, 0, 1).await?;
    }
    let comes: Vec<ExecutionId> = (0..40)
        .map(|index| id(format!("comes and goes {index}")))
        .collect::<Result<_, _>>()?;
    let mut request = Records::new(3);
    let mut seen: Vec<ExecutionId> = Vec::new();
    for round in 0..200 {
        let page = cx.relocation()?.records(request.clone()).await?;
        seen.extend(page.records.into_iter().map(|record| record.id));
        let Some(next) = page.next else {
            seen.retain(|id| stays.contains(id));
            let once: BTreeSet<_> = seen.iter().collect();
            check_eq!(once.len(), seen.len(), "how many were listed, each once");
            check_eq!(seen, in_list_order(stays), "those that were there");
            return Ok(());
        };
        request = request.with_cursor(next);
        let place = round % comes.len();
        cx.append(&comes[place], 0, 1).await?;
        if let Some(gone) = place.checked_sub(2).and_then(|place| comes.get(place)) {
            seal(&cx, gone).await?;
            retire(&cx, gone).await?;
        }
    }
    check!(false, "the listing does not end");
    Ok(())
}
