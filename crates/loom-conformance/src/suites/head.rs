//! Looking at a log without reading it.

use loom_spi::{Append, Delete, ExecutionState, List, LogHead, Read, Timestamp};

use crate::context::Cx;
use crate::outcome::{Verdict, check, check_eq};
use crate::support::{event, id};

crate::macros::suite! { ($) Store head as __head;
    what_does_not_exist_has_no_head,
    a_head_counts_the_events,
    a_head_has_the_times_of_the_first_and_the_last_event,
    a_head_follows_every_append,
    a_terminal_event_closes_the_head,
    a_log_that_nobody_moves_is_not_sealed,
    head_read_and_list_agree,
    a_deleted_execution_has_no_head,
}

async fn what_does_not_exist_has_no_head(cx: Cx) -> Verdict {
    check_eq!(cx.head(&id("absent")?).await?, None, "in an empty store");
    cx.append(&id("here")?, 0, 1).await?;
    check_eq!(cx.head(&id("absent")?).await?, None, "beside another");
    Ok(())
}

async fn a_head_counts_the_events(cx: Cx) -> Verdict {
    for count in [1, 2, 50] {
        let id = id(format!("order-{count}"))?;
        cx.append(&id, 0, count).await?;
        let length = cx.head(&id).await?.map(|head| head.next_sequence);
        check_eq!(length, Some(count), "the length");
    }
    Ok(())
}

async fn a_head_has_the_times_of_the_first_and_the_last_event(cx: Cx) -> Verdict {
    let id = id("order")?;
    // The last is neither the latest nor the earliest.
    for (expected, moment) in (0..).zip([500, 100, 900, 700]) {
        let event = event(expected).recorded_at(Timestamp::from_millis(moment));
        let append = Append::new(id.clone(), expected, vec![event]);
        cx.store().append(append).await?;
    }
    let head = cx.head(&id).await?;
    let times = head.map(|head| (head.created_at.as_millis(), head.updated_at.as_millis()));
    check_eq!(times, Some((500, 700)), "created and updated");
    Ok(())
}

async fn a_head_follows_every_append(cx: Cx) -> Verdict {
    let id = id("order")?;
    for next in 0..20 {
        cx.append(&id, next, 1).await?;
        let expected = LogHead::new(
            next + 1,
            ExecutionState::Open,
            event(0).recorded_at,
            event(next).recorded_at,
        );
        check_eq!(cx.head(&id).await?, Some(expected), "after append {next}");
    }
    Ok(())
}

async fn a_terminal_event_closes_the_head(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 2).await?;
    check!(
        cx.head(&id).await?.is_some_and(|head| !head.is_closed()),
        "closed too early"
    );
    cx.close(&id, 2).await?;
    check!(
        cx.head(&id).await?.is_some_and(|head| head.is_closed()),
        "not closed"
    );
    Ok(())
}

async fn a_log_that_nobody_moves_is_not_sealed(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 1).await?;
    check_eq!(
        cx.head(&id).await?.map(|head| head.sealed),
        Some(false),
        "sealed, open"
    );
    cx.close(&id, 1).await?;
    check_eq!(
        cx.head(&id).await?.map(|head| head.sealed),
        Some(false),
        "sealed, closed"
    );
    Ok(())
}

async fn head_read_and_list_agree(cx: Cx) -> Verdict {
    for count in 1..6 {
        let id = id(format!("order-{count}"))?;
        cx.append(&id, 0, count).await?;
        if count % 2 == 0 {
            cx.close(&id, count).await?;
        }
    }
    let listing = cx.listing(List::new(2)).await?;
    check_eq!(listing.len(), 5, "the length of the listing");
    for summary in listing {
        let id = summary.id;
        check_eq!(
            cx.head(&id).await?,
            Some(summary.head),
            "head and list of {id}"
        );
        let page = cx.store().read(Read::new(id.clone(), 0, 1)).await?;
        check_eq!(page.head, summary.head, "read and list of {id}");
    }
    Ok(())
}

async fn a_deleted_execution_has_no_head(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 3).await?;
    cx.store().delete(Delete::new(id.clone())).await?;
    check_eq!(cx.head(&id).await?, None, "the head");
    Ok(())
}
