//! What is sealed is still there to be seen, and says that it is sealed.

use loom_spi::{ExecutionState, List, ParentLink, Read, Records};

use super::moving::{branches, children, inspect, parent, record, records, seal, unseal};
use crate::context::Cx;
use crate::outcome::{Verdict, check, check_eq};
use crate::support::{id, stored};

crate::macros::suite! { ($) Store sealed as __sealed;
    a_sealed_log_is_read_and_says_so,
    a_sealed_log_is_looked_up_and_says_so,
    a_sealed_log_is_listed_and_says_so,
    the_branches_of_a_sealed_record_are_seen_from_both_ends,
    a_sealed_record_is_inspected_and_says_so,
    what_was_unsealed_says_so,
    other_records_do_not_say_that_they_are_sealed,
}

async fn a_sealed_log_is_read_and_says_so(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    cx.append(&order, 0, 9).await?;
    let before = cx.store().read(Read::new(order.clone(), 9, 1)).await?;
    seal(&cx, &order).await?;
    let page = cx.store().read(Read::new(order.clone(), 2, 3)).await?;
    check!(
        stored(2, 3).starts_with(&page.events) && !page.events.is_empty(),
        "other events: {:?}",
        page.events
    );
    check_eq!(
        page.head,
        before.head.with_sealed(true),
        "the head of the page"
    );
    check_eq!(cx.log(&order).await?, stored(0, 9), "the log");
    let end = cx.store().read(Read::new(order, 9, 1)).await?;
    check_eq!(end.events, [], "the events past the end");
    check!(end.head.sealed, "a page past the end does not say so");
    Ok(())
}

async fn a_sealed_log_is_looked_up_and_says_so(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    cx.append(&order, 0, 9).await?;
    let head = cx.head(&order).await?;
    seal(&cx, &order).await?;
    check_eq!(
        cx.head(&order).await?,
        head.map(|head| head.with_sealed(true)),
        "the head"
    );
    Ok(())
}

async fn a_sealed_log_is_listed_and_says_so(cx: Cx) -> Verdict {
    let (open, closed) = (id("open")?, id("closed")?);
    cx.relocation()?;
    cx.append(&open, 0, 2).await?;
    cx.close(&closed, 0).await?;
    let mut expected = cx.listing(List::new(10)).await?;
    for id in [&open, &closed] {
        seal(&cx, id).await?;
    }
    for summary in &mut expected {
        summary.head.sealed = true;
    }
    check_eq!(cx.listing(List::new(10)).await?, expected, "the listing");
    for (state, id) in [
        (ExecutionState::Open, open),
        (ExecutionState::Closed, closed),
    ] {
        let request = List::new(10).with_state(state);
        check_eq!(cx.ids(request).await?, [id], "those that are {state:?}");
    }
    Ok(())
}

async fn the_branches_of_a_sealed_record_are_seen_from_both_ends(cx: Cx) -> Verdict {
    let incident = id("incident")?;
    cx.relocation()?;
    record(&cx, &incident, &["m", "a", "z"]).await?;
    seal(&cx, &incident).await?;
    check_eq!(
        children(&cx, &incident).await?,
        branches(&["m", "a", "z"])?,
        "the branches"
    );
    check_eq!(
        parent(&cx, &id("z")?).await?,
        Some(ParentLink::new(incident, "z")),
        "the parent"
    );
    Ok(())
}

async fn a_sealed_record_is_inspected_and_says_so(cx: Cx) -> Verdict {
    let (order, incident) = (id("order")?, id("incident")?);
    cx.relocation()?;
    cx.append(&order, 0, 2).await?;
    let mut expected = vec![inspect(&cx, &order).await?];
    if cx.branches().is_ok() {
        record(&cx, &incident, &["a"]).await?;
        expected.push(inspect(&cx, &incident).await?);
    }
    for mut before in expected.into_iter().flatten() {
        let id = before.id.clone();
        seal(&cx, &id).await?;
        before.head = before.head.map(|head| head.with_sealed(true));
        before.sealed = true;
        let after = inspect(&cx, &id).await?;
        check_eq!(after, Some(before.clone()), "the record");
        let listed = records(&cx, Records::new(10)).await?;
        check!(listed.contains(&before), "listed as {listed:?}");
    }
    Ok(())
}

async fn what_was_unsealed_says_so(cx: Cx) -> Verdict {
    let order = id("order")?;
    cx.relocation()?;
    cx.append(&order, 0, 2).await?;
    let before = (
        cx.head(&order).await?,
        inspect(&cx, &order).await?,
        cx.store().read(Read::new(order.clone(), 2, 1)).await?,
        cx.listing(List::new(10)).await?,
        records(&cx, Records::new(10)).await?,
    );
    seal(&cx, &order).await?;
    unseal(&cx, &order).await?;
    let after = (
        cx.head(&order).await?,
        inspect(&cx, &order).await?,
        cx.store().read(Read::new(order.clone(), 2, 1)).await?,
        cx.listing(List::new(10)).await?,
        records(&cx, Records::new(10)).await?,
    );
    check_eq!(after, before, "what is seen of it");
    Ok(())
}

async fn other_records_do_not_say_that_they_are_sealed(cx: Cx) -> Verdict {
    let (order, other) = (id("order")?, id("order-1")?);
    cx.relocation()?;
    for id in [&order, &other] {
        cx.append(id, 0, 2).await?;
    }
    let head = cx.head(&other).await?;
    let before = inspect(&cx, &other).await?;
    seal(&cx, &order).await?;
    check_eq!(cx.head(&other).await?, head, "the head of the other");
    check_eq!(inspect(&cx, &other).await?, before, "the other record");
    for summary in cx.listing(List::new(10)).await? {
        check_eq!(
            summary.head.sealed,
            summary.id == order,
            "whether {} is listed as sealed",
            summary.id
        );
    }
    Ok(())
}
