//! Paging through a listing: sizes, cursors, and what changes on the way.

use std::collections::BTreeSet;

use loom_spi::{Delete, ExecutionId, List, ListCursor};

use crate::context::Cx;
use crate::outcome::{Verdict, check, check_eq};
use crate::support::{id, in_list_order, many_ids, place};

crate::macros::suite! { ($) Store pages as __pages;
    pages_of_every_size_join_to_the_same_listing,
    the_largest_limit_is_as_good_as_any,
    a_listing_can_go_on_after_any_execution,
    a_listing_goes_on_after_an_execution_that_was_deleted,
    a_cursor_may_name_an_execution_that_never_was_here,
    after_the_last_execution_there_is_nothing,
    a_cursor_is_used_twice_with_the_same_result,
    what_comes_and_goes_between_pages_hides_nothing_else,
    an_execution_that_is_created_anew_on_the_way_is_not_listed_twice,
}

async fn filled(cx: &Cx, count: usize) -> Result<Vec<ExecutionId>, crate::outcome::Stop> {
    let ids = in_list_order(many_ids(count)?);
    for id in &ids {
        cx.append(id, 0, 1).await?;
    }
    Ok(ids)
}

async fn pages_of_every_size_join_to_the_same_listing(cx: Cx) -> Verdict {
    let ids = filled(&cx, 40).await?;
    for size in 1..=42 {
        check_eq!(
            cx.ids(List::new(size)).await?,
            ids,
            "the listing in pages of {size}"
        );
    }
    Ok(())
}

async fn the_largest_limit_is_as_good_as_any(cx: Cx) -> Verdict {
    let ids = filled(&cx, 40).await?;
    check_eq!(cx.ids(List::new(usize::MAX)).await?, ids, "the listing");
    Ok(())
}

async fn a_listing_can_go_on_after_any_execution(cx: Cx) -> Verdict {
    let ids = filled(&cx, 40).await?;
    for (index, last) in ids.iter().enumerate() {
        let request = List::new(6).with_cursor(ListCursor::after(last));
        check_eq!(
            cx.ids(request).await?,
            ids[index + 1..],
            "the listing after {last}"
        );
    }
    Ok(())
}

async fn a_listing_goes_on_after_an_execution_that_was_deleted(cx: Cx) -> Verdict {
    let ids = filled(&cx, 40).await?;
    for (index, last) in ids.iter().enumerate() {
        cx.store().delete(Delete::new(last.clone())).await?;
        let request = List::new(6).with_cursor(ListCursor::after(last));
        check_eq!(
            cx.ids(request).await?,
            ids[index + 1..],
            "the listing after {last}"
        );
    }
    Ok(())
}

async fn a_cursor_may_name_an_execution_that_never_was_here(cx: Cx) -> Verdict {
    let ids = filled(&cx, 40).await?;
    for index in 0..60 {
        let elsewhere = id(format!("elsewhere-{index}"))?;
        let rest: Vec<_> = ids
            .iter()
            .filter(|id| place(id) > place(&elsewhere))
            .collect();
        let request = List::new(6).with_cursor(ListCursor::after(&elsewhere));
        let found = cx.ids(request).await?;
        check_eq!(
            found.iter().collect::<Vec<_>>(),
            rest,
            "the listing after {elsewhere}"
        );
    }
    Ok(())
}

async fn after_the_last_execution_there_is_nothing(cx: Cx) -> Verdict {
    let ids = filled(&cx, 40).await?;
    if let Some(last) = ids.last() {
        let request = List::new(6).with_cursor(ListCursor::after(last));
        check_eq!(cx.ids(request).await?, [], "the listing after the last");
    }
    Ok(())
}

async fn a_cursor_is_used_twice_with_the_same_result(cx: Cx) -> Verdict {
    filled(&cx, 40).await?;
    let mut request = List::new(7);
    loop {
        let first = cx.store().list(request.clone()).await?;
        let second = cx.store().list(request.clone()).await?;
        // How much of it a page holds is the store's affair, so the rest of the listing is compared.
        let rest = cx.ids(request.clone()).await?;
        for page in [&first, &second] {
            let found: Vec<_> = page.executions.iter().map(|summary| &summary.id).collect();
            let expected: Vec<_> = rest.iter().take(found.len()).collect();
            check_eq!(found, expected, "a page that was asked for again");
        }
        match first.next {
            None => return Ok(()),
            next => request.cursor = next,
        }
    }
}

async fn what_comes_and_goes_between_pages_hides_nothing_else(cx: Cx) -> Verdict {
    let stay: BTreeSet<_> = filled(&cx, cx.effort().many / 2)
        .await?
        .into_iter()
        .collect();
    let passing = many_ids(1000)?
        .iter()
        .map(|name| id(format!("passing {name}")))
        .collect::<Result<Vec<_>, _>>()?;
    let mut passing = passing.into_iter();
    let mut there = Vec::new();
    let mut listed = Vec::new();
    let mut request = List::new(5);
    loop {
        // Before each page three come and two go, the one that the cursor names among them.
        for id in passing.by_ref().take(3) {
            cx.append(&id, 0, 1).await?;
            there.push(id);
        }
        let last: Option<ExecutionId> = request.cursor.as_ref().map(|at| at.position().1.clone());
        let named = there.iter().position(|id| Some(id) == last.as_ref());
        for index in [named, Some(0)].into_iter().flatten() {
            if index >= there.len() {
                continue;
            }
            let gone = there.remove(index);
            cx.store().delete(Delete::new(gone)).await?;
        }
        let page = cx.store().list(request.clone()).await?;
        listed.extend(page.executions.into_iter().map(|summary| summary.id));
        match page.next {
            None => break,
            next => request.cursor = next,
        }
    }
    let unique: BTreeSet<_> = listed.iter().cloned().collect();
    check_eq!(unique.len(), listed.len(), "each at most once");
    let missed: Vec<_> = stay.difference(&unique).collect();
    check!(
        missed.is_empty(),
        "not listed, though it was there all the time: {missed:?}"
    );
    Ok(())
}

async fn an_execution_that_is_created_anew_on_the_way_is_not_listed_twice(cx: Cx) -> Verdict {
    let ids = filled(&cx, 40).await?;
    let mut listed = Vec::new();
    let mut request = List::new(5);
    loop {
        let page = cx.store().list(request.clone()).await?;
        for summary in page.executions {
            cx.store().delete(Delete::new(summary.id.clone())).await?;
            cx.append(&summary.id, 0, 2).await?;
            listed.push(summary.id);
        }
        match page.next {
            None => break,
            next => request.cursor = next,
        }
    }
    check_eq!(listed, ids, "the listing");
    Ok(())
}
