//! Listing: what is listed, and in which order.

use std::slice::from_ref;

use loom_spi::{AcquireFence, Append, Delete, ExecutionState, List, NewEvent, RecordLineage};
use loom_spi::{EventStoreExt as _, StoreErrorKind};

use crate::context::Cx;
use crate::outcome::{Verdict, check, check_eq, check_refused};
use crate::support::{id, ids_of, in_list_order, many_ids};

crate::macros::suite! { ($) Store list as __list_order;
    an_empty_store_lists_nothing,
    every_execution_is_listed_once_in_list_order,
    list_order_is_neither_the_order_of_ids_nor_of_creation,
    a_listing_tells_the_state_of_each_log,
    a_listing_follows_appends,
    a_deleted_execution_is_not_listed,
    a_fence_or_an_edge_without_a_log_is_not_listed,
    only_open_or_only_closed_executions_can_be_listed,
    an_execution_that_closes_changes_lists,
    a_limit_of_zero_is_refused,
    the_stream_of_all_executions_is_the_listing,
}

async fn an_empty_store_lists_nothing(cx: Cx) -> Verdict {
    check_eq!(cx.ids(List::new(10)).await?, [], "the listing");
    check_eq!(
        cx.ids(List::new(1)).await?,
        [],
        "the listing, one at a time"
    );
    Ok(())
}

async fn every_execution_is_listed_once_in_list_order(cx: Cx) -> Verdict {
    let ids = many_ids(cx.effort().many)?;
    for id in &ids {
        cx.append(id, 0, 1).await?;
    }
    let expected = in_list_order(ids);
    check_eq!(cx.ids(List::new(100)).await?, expected, "the listing");
    Ok(())
}

async fn list_order_is_neither_the_order_of_ids_nor_of_creation(cx: Cx) -> Verdict {
    // Created so that all three orders differ; the order itself is checked by `listing`.
    let ids = many_ids(20)?;
    let expected = in_list_order(ids.clone());
    let mut sorted = ids.clone();
    sorted.sort();
    check!(
        expected != sorted && expected != ids,
        "the example has lost its point"
    );
    for id in &ids {
        cx.append(id, 0, 1).await?;
    }
    check_eq!(cx.ids(List::new(7)).await?, expected, "the listing");
    Ok(())
}

async fn a_listing_tells_the_state_of_each_log(cx: Cx) -> Verdict {
    for (index, id) in (1..).zip(many_ids(30)?) {
        cx.append(&id, 0, index).await?;
        if index % 3 == 0 {
            cx.close(&id, index).await?;
        }
    }
    for summary in cx.listing(List::new(10)).await? {
        let id = &summary.id;
        check_eq!(cx.head(id).await?, Some(summary.head), "the head of {id}");
    }
    Ok(())
}

async fn a_listing_follows_appends(cx: Cx) -> Verdict {
    let id = id("order")?;
    for next in 0..5 {
        cx.append(&id, next, 1).await?;
        let listing = cx.listing(List::new(10)).await?;
        let lengths: Vec<_> = listing
            .iter()
            .map(|found| found.head.next_sequence)
            .collect();
        check_eq!(lengths, [next + 1], "the lengths in the listing");
    }
    Ok(())
}

async fn a_deleted_execution_is_not_listed(cx: Cx) -> Verdict {
    let ids = many_ids(50)?;
    for id in &ids {
        cx.append(id, 0, 1).await?;
    }
    let (gone, left): (Vec<_>, Vec<_>) = (0..)
        .zip(ids)
        .partition::<Vec<(usize, _)>, _>(|(index, _)| index % 3 == 0);
    for (_, id) in &gone {
        cx.store().delete(Delete::new(id.clone())).await?;
    }
    let left = in_list_order(left.into_iter().map(|(_, id)| id).collect());
    check_eq!(cx.ids(List::new(4)).await?, left, "the listing");
    // Created anew it is listed again, once.
    let mut all = left;
    for (_, id) in gone {
        cx.append(&id, 0, 1).await?;
        all.push(id);
    }
    check_eq!(
        cx.ids(List::new(4)).await?,
        in_list_order(all),
        "the second listing"
    );
    Ok(())
}

async fn a_fence_or_an_edge_without_a_log_is_not_listed(cx: Cx) -> Verdict {
    let fencing = cx.fencing()?;
    for name in ["fenced, not created", "order"] {
        fencing.acquire_fence(AcquireFence::new(id(name)?)).await?;
    }
    if let Ok(branches) = cx.branches() {
        let edge = RecordLineage::new(id("parent, not created")?, id("child")?, String::new());
        branches.record_lineage(edge).await?;
    }
    check_eq!(
        cx.ids(List::new(10)).await?,
        [],
        "the listing before creation"
    );
    let second = AcquireFence::new(id("order")?);
    let token = fencing.acquire_fence(second).await?;
    let create = Append::new(id("order")?, 0, vec![NewEvent::new("created", "")]);
    cx.store().append(create.with_fence(token)).await?;
    check_eq!(
        cx.ids(List::new(1)).await?,
        [id("order")?],
        "the listing after creation"
    );
    cx.store().delete(Delete::new(id("order")?)).await?;
    check_eq!(
        cx.ids(List::new(1)).await?,
        [],
        "the listing after deletion"
    );
    Ok(())
}

async fn only_open_or_only_closed_executions_can_be_listed(cx: Cx) -> Verdict {
    let (mut open, mut closed) = (Vec::new(), Vec::new());
    for (index, id) in (0..).zip(many_ids(cx.effort().many / 2)?) {
        cx.append(&id, 0, 1).await?;
        if index % 4 == 1 {
            cx.close(&id, 1).await?;
            closed.push(id);
        } else {
            open.push(id);
        }
    }
    let (open, closed) = (in_list_order(open), in_list_order(closed));
    for size in [1, 9, 1000] {
        let only_open = List::new(size).with_state(ExecutionState::Open);
        check_eq!(
            cx.ids(only_open).await?,
            open,
            "open ones in pages of {size}"
        );
        let only_closed = List::new(size).with_state(ExecutionState::Closed);
        check_eq!(
            cx.ids(only_closed).await?,
            closed,
            "closed ones in pages of {size}"
        );
    }
    Ok(())
}

async fn an_execution_that_closes_changes_lists(cx: Cx) -> Verdict {
    let id = id("order")?;
    let only = |state| List::new(10).with_state(state);
    cx.append(&id, 0, 1).await?;
    check_eq!(
        cx.ids(only(ExecutionState::Open)).await?,
        from_ref(&id),
        "open before"
    );
    check_eq!(
        cx.ids(only(ExecutionState::Closed)).await?,
        [],
        "closed before"
    );
    cx.close(&id, 1).await?;
    check_eq!(cx.ids(only(ExecutionState::Open)).await?, [], "open after");
    check_eq!(
        cx.ids(only(ExecutionState::Closed)).await?,
        from_ref(&id),
        "closed after"
    );
    Ok(())
}

async fn a_limit_of_zero_is_refused(cx: Cx) -> Verdict {
    check_refused!(
        cx.store().list(List::new(0)).await,
        StoreErrorKind::InvalidArgument { .. },
        "listing with the limit 0, nothing stored"
    );
    cx.append(&id("order")?, 0, 1).await?;
    check_refused!(
        cx.store().list(List::new(0)).await,
        StoreErrorKind::InvalidArgument { .. },
        "listing with the limit 0"
    );
    Ok(())
}

async fn the_stream_of_all_executions_is_the_listing(cx: Cx) -> Verdict {
    use futures_util::TryStreamExt as _;

    for id in many_ids(50)? {
        cx.append(&id, 0, 1).await?;
    }
    let expected = cx.ids(List::new(100)).await?;
    for size in [1, 7, 50, 51] {
        let all: Vec<_> = cx.store().list_all(List::new(size)).try_collect().await?;
        check_eq!(ids_of(all), expected, "the stream with pages of {size}");
    }
    Ok(())
}
