//! Reading: in order, from where it was asked, with the state of the log.

use loom_spi::{Append, EventStoreExt as _, ExecutionState, NewEvent, Read, StoreErrorKind};

use crate::context::Cx;
use crate::outcome::{Verdict, check, check_eq, check_refused};
use crate::support::{event, id, log_in_pages, stored};

crate::macros::suite! { ($) Store read as __read;
    a_read_starts_where_it_was_asked_to,
    a_page_has_at_most_as_many_events_as_asked_for,
    a_page_is_never_empty_while_there_are_events,
    a_page_carries_the_state_of_the_whole_log,
    reading_at_or_past_the_end_is_an_empty_page,
    reading_what_does_not_exist_is_not_found,
    a_limit_of_zero_is_refused,
    the_largest_limit_is_as_good_as_any,
    pages_of_every_size_join_to_the_same_log,
    what_was_acknowledged_is_there_to_be_read,
    the_stream_of_all_events_is_the_log,
}

async fn a_read_starts_where_it_was_asked_to(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 10).await?;
    for from in 0..10 {
        let log = log_in_pages(cx.store(), Read::new(id.clone(), from, 100)).await?;
        check_eq!(log, stored(from, 10 - from), "the log from {from}");
    }
    Ok(())
}

async fn a_page_has_at_most_as_many_events_as_asked_for(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 10).await?;
    for limit in 1..12 {
        for from in 0..10 {
            let page = cx.store().read(Read::new(id.clone(), from, limit)).await?;
            let count = page.events.len();
            check!(
                count <= limit,
                "{count} events from {from} with the limit {limit}"
            );
            let expected = stored(from, count as u64);
            check_eq!(page.events, expected, "{limit} events from {from}");
        }
    }
    Ok(())
}

async fn a_page_is_never_empty_while_there_are_events(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 10).await?;
    for limit in [1, 3, 100] {
        for from in 0..10 {
            let page = cx.store().read(Read::new(id.clone(), from, limit)).await?;
            check!(
                !page.events.is_empty(),
                "no events from {from} of 10, limit {limit}"
            );
        }
    }
    Ok(())
}

async fn a_page_carries_the_state_of_the_whole_log(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 5).await?;
    for (from, limit) in [(0, 1), (2, 2), (4, 10), (5, 1)] {
        let page = cx.store().read(Read::new(id.clone(), from, limit)).await?;
        check_eq!(Some(page.head), cx.head(&id).await?, "the head from {from}");
        check_eq!(page.head.next_sequence, 5, "the length from {from}");
        check_eq!(
            page.head.state,
            ExecutionState::Open,
            "the state from {from}"
        );
    }
    cx.close(&id, 5).await?;
    let page = cx.store().read(Read::new(id.clone(), 0, 1)).await?;
    check_eq!(
        page.head.state,
        ExecutionState::Closed,
        "the state after the end"
    );
    Ok(())
}

async fn reading_at_or_past_the_end_is_an_empty_page(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 3).await?;
    for from in [
        3,
        4,
        1000,
        u64::from(u32::MAX) + 2,
        i64::MAX as u64,
        u64::MAX,
    ] {
        let page = cx.store().read(Read::new(id.clone(), from, 10)).await?;
        check_eq!(page.events, [], "the events from {from}");
        check_eq!(page.head.next_sequence, 3, "the length, read from {from}");
    }
    Ok(())
}

async fn reading_what_does_not_exist_is_not_found(cx: Cx) -> Verdict {
    let absent = id("absent")?;
    cx.append(&id("absent too, but there")?, 0, 1).await?;
    for from in [0, 1, u64::MAX] {
        check_refused!(
            cx.store().read(Read::new(absent.clone(), from, 10)).await,
            StoreErrorKind::NotFound,
            "reading from {from}"
        );
    }
    Ok(())
}

async fn a_limit_of_zero_is_refused(cx: Cx) -> Verdict {
    let (here, absent) = (id("here")?, id("absent")?);
    cx.append(&here, 0, 3).await?;
    for id in [here, absent] {
        check_refused!(
            cx.store().read(Read::new(id.clone(), 0, 0)).await,
            StoreErrorKind::InvalidArgument { .. },
            "reading {id} with the limit 0"
        );
    }
    Ok(())
}

async fn the_largest_limit_is_as_good_as_any(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 20).await?;
    let log = log_in_pages(cx.store(), Read::new(id, 0, usize::MAX)).await?;
    check_eq!(log, stored(0, 20), "the log");
    Ok(())
}

async fn pages_of_every_size_join_to_the_same_log(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 17).await?;
    cx.close(&id, 17).await?;
    let mut whole = stored(0, 18);
    if let Some(last) = whole.last_mut() {
        last.terminal = true;
    }
    for size in 1..20 {
        let log = log_in_pages(cx.store(), Read::new(id.clone(), 0, size)).await?;
        check_eq!(log, whole, "the log in pages of {size}");
    }
    Ok(())
}

async fn what_was_acknowledged_is_there_to_be_read(cx: Cx) -> Verdict {
    let id = id("order")?;
    for next in 0..30 {
        cx.append(&id, next, 1).await?;
        let page = cx.store().read(Read::new(id.clone(), next, 10)).await?;
        check_eq!(page.events, stored(next, 1), "right after append {next}");
        check_eq!(
            cx.length(&id).await?,
            next + 1,
            "the length after append {next}"
        );
    }
    Ok(())
}

async fn the_stream_of_all_events_is_the_log(cx: Cx) -> Verdict {
    use futures_util::TryStreamExt as _;

    let id = id("order")?;
    // More than any page that the stream asks for.
    for round in 0..10 {
        let large = (round * 100..round * 100 + 99)
            .map(event)
            .collect::<Vec<_>>();
        let append = Append::new(id.clone(), round * 100, large);
        cx.store().append(append).await?;
        cx.append(&id, round * 100 + 99, 1).await?;
    }
    let all: Vec<_> = cx.store().read_all(&id, 0).try_collect().await?;
    check_eq!(all, stored(0, 1000), "the stream from the start");
    let tail: Vec<_> = cx.store().read_all(&id, 990).try_collect().await?;
    check_eq!(tail, stored(990, 10), "the stream from 990");
    let new = NewEvent::new("more", "");
    cx.store()
        .append(Append::new(id.clone(), 1000, vec![new]))
        .await?;
    let tail: Vec<_> = cx.store().read_all(&id, 1000).try_collect().await?;
    check_eq!(tail.len(), 1, "the events from 1000");
    Ok(())
}
