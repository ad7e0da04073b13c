//! Appending: atomic, contiguous, exactly what was given.

use std::slice::from_ref;

use bytes::Bytes;
use loom_spi::{Append, Event, List, NewEvent, StoreErrorKind, Timestamp};

use crate::context::Cx;
use crate::outcome::{Verdict, check, check_eq, check_refused};
use crate::support::{event, events, id, stored};

crate::macros::suite! { ($) Store append as __append;
    appending_at_zero_creates_the_execution,
    an_append_returns_the_sequence_that_comes_next,
    events_get_contiguous_sequences_in_the_order_given,
    events_come_back_exactly_as_they_were_given,
    the_time_of_an_event_is_never_rewritten,
    expecting_too_little_is_a_conflict_that_names_both_lengths,
    expecting_too_much_is_a_conflict_that_names_both_lengths,
    creating_what_exists_is_a_conflict,
    appending_to_what_does_not_exist_is_a_conflict,
    the_same_append_again_is_a_conflict_and_not_a_second_copy,
    a_refused_append_leaves_no_trace,
    an_append_without_events_is_refused,
    executions_do_not_share_events,
    a_long_log_keeps_every_event,
}

async fn appending_at_zero_creates_the_execution(cx: Cx) -> Verdict {
    let id = id("order")?;
    check_eq!(cx.head(&id).await?, None, "the head before");
    cx.append(&id, 0, 1).await?;
    check_eq!(cx.log(&id).await?, stored(0, 1), "the log");
    Ok(())
}

async fn an_append_returns_the_sequence_that_comes_next(cx: Cx) -> Verdict {
    let id = id("order")?;
    check_eq!(
        cx.append(&id, 0, 1).await?.next_sequence,
        1,
        "after the first"
    );
    check_eq!(
        cx.append(&id, 1, 3).await?.next_sequence,
        4,
        "after three more"
    );
    check_eq!(
        cx.append(&id, 4, 1).await?.next_sequence,
        5,
        "after one more"
    );
    Ok(())
}

async fn events_get_contiguous_sequences_in_the_order_given(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 3).await?;
    cx.append(&id, 3, 1).await?;
    cx.append(&id, 4, 5).await?;
    check_eq!(cx.log(&id).await?, stored(0, 9), "the log");
    Ok(())
}

async fn events_come_back_exactly_as_they_were_given(cx: Cx) -> Verdict {
    let id = id("order")?;
    let at = Timestamp::from_millis(1_600_000_000_123);
    let every_byte: Bytes = (0..=u8::MAX).collect();
    let given: Vec<NewEvent> = [
        NewEvent::new("plain", "text"),
        NewEvent::new("empty payload", ""),
        NewEvent::new("every byte", every_byte),
        NewEvent::new("not UTF-8", vec![0xff, 0xfe, 0x00, 0xc3]),
        NewEvent::new("zeros", vec![0; 100]),
        NewEvent::new("größer/名前/🧵 ", " ends in a space "),
        NewEvent::new("Kind", "A"),
        NewEvent::new("kind", "a"),
        NewEvent::new("'; --", "\"'\\%_"),
        NewEvent::new("last", "one").terminal(),
    ]
    .into_iter()
    .map(|event| event.recorded_at(at))
    .collect();
    let append = Append::new(id.clone(), 0, given.clone());
    cx.store().append(append).await?;
    let log = cx.log(&id).await?;
    check_eq!(log.len(), given.len(), "how many events came back");
    for ((sequence, new), found) in (0..).zip(given).zip(log) {
        check_eq!(found, Event::from_new(sequence, new), "event {sequence}");
    }
    Ok(())
}

async fn the_time_of_an_event_is_never_rewritten(cx: Cx) -> Verdict {
    let id = id("order")?;
    // Not in order, before 1970, at both ends: the writer's clock is the writer's affair.
    let moments = [5, 0, -1, 1_700_000_000_000, 3, i64::MAX, i64::MIN, 7];
    for (expected, moment) in (0..).zip(moments) {
        let event = event(expected).recorded_at(Timestamp::from_millis(moment));
        let append = Append::new(id.clone(), expected, vec![event]);
        cx.store().append(append).await?;
    }
    let log = cx.log(&id).await?;
    let found: Vec<_> = log
        .iter()
        .map(|event| event.recorded_at.as_millis())
        .collect();
    check_eq!(found, moments, "the times");
    Ok(())
}

async fn expecting_too_little_is_a_conflict_that_names_both_lengths(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 3).await?;
    for expected in [1, 2] {
        check_refused!(
            cx.append(&id, expected, 1).await,
            StoreErrorKind::SequenceConflict { expected: found, actual: 3 } if *found == expected,
            "expecting {expected} of 3"
        );
    }
    check_eq!(cx.log(&id).await?, stored(0, 3), "the log");
    Ok(())
}

async fn expecting_too_much_is_a_conflict_that_names_both_lengths(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 3).await?;
    for expected in [4, 5, 1000] {
        check_refused!(
            cx.append(&id, expected, 1).await,
            StoreErrorKind::SequenceConflict { expected: found, actual: 3 } if *found == expected,
            "expecting {expected} of 3"
        );
    }
    check_eq!(cx.log(&id).await?, stored(0, 3), "the log");
    Ok(())
}

async fn creating_what_exists_is_a_conflict(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 2).await?;
    let other = Append::new(id.clone(), 0, vec![NewEvent::new("usurper", "")]);
    check_refused!(
        cx.store().append(other).await,
        StoreErrorKind::SequenceConflict {
            expected: 0,
            actual: 2
        },
        "creating it a second time"
    );
    check_eq!(cx.log(&id).await?, stored(0, 2), "the log");
    Ok(())
}

async fn appending_to_what_does_not_exist_is_a_conflict(cx: Cx) -> Verdict {
    let id = id("order")?;
    for expected in [1, 7] {
        check_refused!(
            cx.append(&id, expected, 1).await,
            StoreErrorKind::SequenceConflict { expected: found, actual: 0 } if *found == expected,
            "expecting {expected} of nothing"
        );
    }
    check_eq!(cx.head(&id).await?, None, "the head");
    Ok(())
}

async fn the_same_append_again_is_a_conflict_and_not_a_second_copy(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 1).await?;
    cx.append(&id, 1, 2).await?;
    check_refused!(
        cx.append(&id, 1, 2).await,
        StoreErrorKind::SequenceConflict {
            expected: 1,
            actual: 3
        },
        "the same append again"
    );
    check_eq!(cx.log(&id).await?, stored(0, 3), "the log");
    Ok(())
}

async fn a_refused_append_leaves_no_trace(cx: Cx) -> Verdict {
    let (here, absent) = (id("here")?, id("absent")?);
    cx.append(&here, 0, 2).await?;
    let before = cx.head(&here).await?;
    check!(
        cx.append(&here, 1, 4).await.is_err(),
        "a wrong length was accepted"
    );
    check!(
        cx.append(&absent, 3, 4).await.is_err(),
        "a wrong length was accepted"
    );
    check_eq!(cx.head(&here).await?, before, "the head of what exists");
    check_eq!(cx.head(&absent).await?, None, "the head of what does not");
    check_eq!(cx.ids(List::new(10)).await?, from_ref(&here), "the listing");
    // The sequences of the refused events are not used up.
    cx.append(&here, 2, 1).await?;
    check_eq!(cx.log(&here).await?, stored(0, 3), "the log");
    Ok(())
}

async fn an_append_without_events_is_refused(cx: Cx) -> Verdict {
    let (here, absent) = (id("here")?, id("absent")?);
    cx.append(&here, 0, 1).await?;
    for (id, expected) in [(&here, 1), (&here, 0), (&absent, 0)] {
        check_refused!(
            cx.store()
                .append(Append::new(id.clone(), expected, vec![]))
                .await,
            StoreErrorKind::InvalidArgument { .. },
            "no events for {id}"
        );
    }
    check_eq!(
        cx.head(&absent).await?,
        None,
        "the head of what does not exist"
    );
    check_eq!(cx.length(&here).await?, 1, "the length of what exists");
    Ok(())
}

async fn executions_do_not_share_events(cx: Cx) -> Verdict {
    let (left, right) = (id("left")?, id("right")?);
    for round in 0..5 {
        cx.append(&left, round * 2, 2).await?;
        cx.append(&right, round, 1).await?;
    }
    check_eq!(cx.log(&left).await?, stored(0, 10), "the one log");
    check_eq!(cx.log(&right).await?, stored(0, 5), "the other log");
    Ok(())
}

async fn a_long_log_keeps_every_event(cx: Cx) -> Verdict {
    let id = id("order")?;
    let mut next = 0;
    for _ in 0..10 {
        let append = Append::new(id.clone(), next, events(next, 100));
        next = cx.store().append(append).await?.next_sequence;
    }
    check_eq!(cx.log(&id).await?, stored(0, 1000), "the log");
    Ok(())
}
