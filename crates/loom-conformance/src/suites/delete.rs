//! Deleting a log.

use std::slice::from_ref;

use loom_spi::{Append, Delete, List, NewEvent, Read, StoreErrorKind};

use crate::context::Cx;
use crate::outcome::{Verdict, check_eq, check_refused};
use crate::support::{id, in_list_order, stored};

crate::macros::suite! { ($) Store delete as __delete;
    a_deleted_execution_is_gone,
    a_delete_counts_the_events_it_removed,
    deleting_what_does_not_exist_is_not_found,
    deleting_twice_is_not_found,
    a_delete_that_expects_the_right_length_happens,
    a_delete_that_expects_another_length_is_a_conflict,
    a_closed_execution_can_be_deleted,
    a_deleted_execution_can_be_created_anew,
    a_delete_touches_no_other_execution,
}

async fn a_deleted_execution_is_gone(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 3).await?;
    cx.store().delete(Delete::new(id.clone())).await?;
    check_eq!(cx.head(&id).await?, None, "the head");
    check_refused!(
        cx.store().read(Read::new(id.clone(), 0, 10)).await,
        StoreErrorKind::NotFound,
        "reading it"
    );
    check_eq!(cx.ids(List::new(10)).await?, [], "the listing");
    check_refused!(
        cx.append(&id, 3, 1).await,
        StoreErrorKind::SequenceConflict {
            expected: 3,
            actual: 0
        },
        "going on where it was"
    );
    Ok(())
}

async fn a_delete_counts_the_events_it_removed(cx: Cx) -> Verdict {
    for count in [1, 2, 700] {
        let id = id(format!("order-{count}"))?;
        for next in (0..count).step_by(100) {
            cx.append(&id, next, 100.min(count - next)).await?;
        }
        let deleted = cx.store().delete(Delete::new(id)).await?;
        check_eq!(deleted.events, count, "how many events were removed");
    }
    Ok(())
}

async fn deleting_what_does_not_exist_is_not_found(cx: Cx) -> Verdict {
    let absent = id("absent")?;
    for request in [
        Delete::new(absent.clone()),
        Delete::new(absent.clone()).with_expected(0),
        Delete::new(absent.clone()).with_expected(3),
    ] {
        check_refused!(
            cx.store().delete(request.clone()).await,
            StoreErrorKind::NotFound,
            "expecting {:?}",
            request.expected
        );
    }
    Ok(())
}

async fn deleting_twice_is_not_found(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 2).await?;
    cx.store().delete(Delete::new(id.clone())).await?;
    check_refused!(
        cx.store().delete(Delete::new(id)).await,
        StoreErrorKind::NotFound,
        "the second time"
    );
    Ok(())
}

async fn a_delete_that_expects_the_right_length_happens(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 3).await?;
    let request = Delete::new(id.clone()).with_expected(3);
    check_eq!(
        cx.store().delete(request).await?.events,
        3,
        "events removed"
    );
    check_eq!(cx.head(&id).await?, None, "the head");
    Ok(())
}

async fn a_delete_that_expects_another_length_is_a_conflict(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 3).await?;
    for expected in [0, 2, 4] {
        check_refused!(
            cx.store().delete(Delete::new(id.clone()).with_expected(expected)).await,
            StoreErrorKind::SequenceConflict { expected: found, actual: 3 } if *found == expected,
            "expecting {expected} of 3"
        );
    }
    check_eq!(cx.log(&id).await?, stored(0, 3), "the log");
    Ok(())
}

async fn a_closed_execution_can_be_deleted(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 2).await?;
    cx.close(&id, 2).await?;
    let request = Delete::new(id.clone()).with_expected(3);
    check_eq!(
        cx.store().delete(request).await?.events,
        3,
        "events removed"
    );
    check_eq!(cx.head(&id).await?, None, "the head");
    Ok(())
}

async fn a_deleted_execution_can_be_created_anew(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 5).await?;
    cx.close(&id, 5).await?;
    cx.store().delete(Delete::new(id.clone())).await?;
    let again = Append::new(id.clone(), 0, vec![NewEvent::new("again", "new")]);
    cx.store().append(again).await?;
    let log = cx.log(&id).await?;
    let kinds: Vec<_> = log.iter().map(|event| &*event.kind).collect();
    check_eq!(kinds, ["again"], "nothing of the old log comes back");
    check_eq!(cx.ids(List::new(10)).await?, from_ref(&id), "the listing");
    cx.append(&id, 1, 1).await?;
    check_eq!(cx.length(&id).await?, 2, "the length of the new log");
    Ok(())
}

async fn a_delete_touches_no_other_execution(cx: Cx) -> Verdict {
    let names = [
        "order", "order-1", "order-10", "orde", "order%", "ord_r", "ORDER", "order ",
    ];
    let ids = names.into_iter().map(id).collect::<Result<Vec<_>, _>>()?;
    for id in &ids {
        cx.append(id, 0, 2).await?;
    }
    for gone in ["order", "order%", "ord_r"] {
        cx.store().delete(Delete::new(id(gone)?)).await?;
    }
    let left = ["order-1", "order-10", "orde", "ORDER", "order "];
    let left = left.into_iter().map(id).collect::<Result<Vec<_>, _>>()?;
    for id in &left {
        check_eq!(cx.log(id).await?, stored(0, 2), "the log of {id:?}");
    }
    check_eq!(
        cx.ids(List::new(3)).await?,
        in_list_order(left),
        "the listing"
    );
    Ok(())
}
