//! Limits: what is within them is stored, what is over them is refused at once, whole and for good.

use bytes::Bytes;
use loom_spi::{AcquireFence, Append, Limits, NewEvent, Retry, StoreErrorKind};

use crate::Need;
use crate::context::Cx;
use crate::outcome::{Stop, Verdict, check, check_eq, check_refused};
use crate::support::{event, id};

crate::macros::suite! { ($) Store limits as __limits;
    a_kind_has_one_byte_up_to_the_limit,
    the_length_of_a_kind_is_counted_in_bytes,
    a_payload_has_up_to_the_limit_of_bytes,
    an_append_has_up_to_the_limit_of_events,
    an_append_has_up_to_the_limit_of_bytes,
    one_bad_event_refuses_the_whole_append,
    a_terminal_event_has_to_be_the_last,
    a_sequence_past_the_last_one_is_refused,
    an_invalid_append_is_reported_as_such_before_anything_else,
    a_refusal_for_size_is_permanent,
}

/// More than this is not reached by a test.
const REACHABLE: usize = 64 << 20;

fn reachable(limit: usize) -> Result<usize, Stop> {
    if limit <= REACHABLE {
        Ok(limit)
    } else {
        Err(Stop::Skipped(Need::ReachableLimits))
    }
}

fn limits(cx: &Cx) -> Limits {
    cx.store().capabilities().limits
}

/// Tries a first append, and checks that it was stored whole or refused without a trace.
async fn try_append(cx: &Cx, name: &str, events: Vec<NewEvent>, fits: bool) -> Verdict {
    let id = id(name)?;
    let count = events.len() as u64;
    let result = cx
        .store()
        .append(Append::new(id.clone(), 0, events.clone()))
        .await;
    if fits {
        check_eq!(result?.next_sequence, count, "{name}: the next sequence");
        let log = cx.log(&id).await?;
        check_eq!(log.len(), events.len(), "{name}: events stored");
        for (found, given) in log.iter().zip(&events) {
            let same = found.kind == given.kind && found.payload == given.payload;
            check!(same, "{name}: event {} has changed", found.sequence);
        }
    } else {
        check_refused!(result, StoreErrorKind::InvalidArgument { .. }, "{name}");
        check_eq!(cx.head(&id).await?, None, "{name}: the head");
    }
    Ok(())
}

async fn a_kind_has_one_byte_up_to_the_limit(cx: Cx) -> Verdict {
    let max = reachable(limits(&cx).max_kind_bytes)?;
    let kind = |bytes: usize| vec![NewEvent::new("k".repeat(bytes), "p")];
    try_append(&cx, "an empty kind", kind(0), false).await?;
    try_append(&cx, "the shortest kind", kind(1), true).await?;
    try_append(&cx, "the longest kind", kind(max), true).await?;
    try_append(&cx, "a kind that is too long", kind(max + 1), false).await
}

async fn the_length_of_a_kind_is_counted_in_bytes(cx: Cx) -> Verdict {
    let max = reachable(limits(&cx).max_kind_bytes)?;
    // Three bytes each.
    let kind = |characters: usize| vec![NewEvent::new("€".repeat(characters), "p")];
    try_append(&cx, "as many as fit", kind(max / 3), true).await?;
    try_append(&cx, "one more than fits", kind(max / 3 + 1), false).await
}

async fn a_payload_has_up_to_the_limit_of_bytes(cx: Cx) -> Verdict {
    let max = reachable(limits(&cx).max_payload_bytes)?;
    let payload = |bytes: usize| vec![NewEvent::new("k", vec![7; bytes])];
    try_append(&cx, "the empty payload", payload(0), true).await?;
    try_append(&cx, "the largest payload", payload(max), true).await?;
    try_append(&cx, "a payload that is too large", payload(max + 1), false).await
}

async fn an_append_has_up_to_the_limit_of_events(cx: Cx) -> Verdict {
    let max = reachable(limits(&cx).max_append_events)?;
    let many = |count: usize| vec![NewEvent::new("k", "p"); count];
    try_append(&cx, "as many events as fit", many(max), true).await?;
    try_append(&cx, "one event more than fits", many(max + 1), false).await
}

async fn an_append_has_up_to_the_limit_of_bytes(cx: Cx) -> Verdict {
    let limits = limits(&cx);
    let max = reachable(limits.max_append_bytes)?;
    let each = limits.max_payload_bytes.min(max - 1).min(1 << 20);
    // Kinds count as well: one byte each. All full events share one payload.
    let full = Bytes::from(vec![7; each]);
    let events = |bytes: usize| {
        let mut events = vec![NewEvent::new("k", full.clone()); bytes / (each + 1)];
        let rest = bytes % (each + 1);
        if rest > 0 {
            events.push(NewEvent::new("k", full.slice(0..rest - 1)));
        }
        events
    };
    if events(max + 1).len() > limits.max_append_events {
        return Err(Stop::Skipped(Need::ReachableLimits));
    }
    try_append(&cx, "as many bytes as fit", events(max), true).await?;
    try_append(&cx, "one byte more than fits", events(max + 1), false).await
}

async fn one_bad_event_refuses_the_whole_append(cx: Cx) -> Verdict {
    let max = reachable(limits(&cx).max_payload_bytes)?;
    let here = id("here")?;
    cx.append(&here, 0, 2).await?;
    for place in 0..5 {
        let mut events: Vec<_> = (0..5).map(event).collect();
        events[place] = NewEvent::new("too large", vec![0; max + 1]);
        let name = format!("the bad event in place {place}");
        try_append(&cx, &name, events.clone(), false).await?;
        check_refused!(
            cx.store()
                .append(Append::new(here.clone(), 2, events))
                .await,
            StoreErrorKind::InvalidArgument { .. },
            "{name} of a later append"
        );
        check_eq!(cx.length(&here).await?, 2, "the length");
    }
    Ok(())
}

async fn a_terminal_event_has_to_be_the_last(cx: Cx) -> Verdict {
    let first = vec![event(0).terminal(), event(1)];
    try_append(&cx, "terminal, then another", first, false).await?;
    let twice = vec![event(0).terminal(), event(1).terminal()];
    try_append(&cx, "two terminal ones", twice, false).await?;
    let last = vec![event(0), event(1).terminal()];
    try_append(&cx, "terminal at the end", last, true).await
}

async fn a_sequence_past_the_last_one_is_refused(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 1).await?;
    for expected in [u64::MAX, i64::MAX as u64] {
        let append = Append::new(id.clone(), expected, vec![NewEvent::new("k", "p")]);
        check_refused!(
            cx.store().append(append).await,
            StoreErrorKind::InvalidArgument { .. },
            "expecting {expected}"
        );
    }
    check_eq!(cx.length(&id).await?, 1, "the length");
    Ok(())
}

async fn an_invalid_append_is_reported_as_such_before_anything_else(cx: Cx) -> Verdict {
    let (closed, fenced) = (id("closed")?, id("fenced")?);
    cx.close(&closed, 0).await?;
    if let Ok(fencing) = cx.fencing() {
        fencing
            .acquire_fence(AcquireFence::new(fenced.clone()))
            .await?;
    }
    for id in [&closed, &fenced] {
        for events in [vec![], vec![NewEvent::new("", "")]] {
            check_refused!(
                cx.store().append(Append::new(id.clone(), 9, events)).await,
                StoreErrorKind::InvalidArgument { .. },
                "an invalid append to what is {id}, of a wrong length"
            );
        }
    }
    Ok(())
}

async fn a_refusal_for_size_is_permanent(cx: Cx) -> Verdict {
    let max = reachable(limits(&cx).max_payload_bytes)?;
    let events = vec![NewEvent::new("k", vec![0; max + 1])];
    match cx
        .store()
        .append(Append::new(id("order")?, 0, events))
        .await
    {
        Err(error) => check_eq!(error.retry(), Retry::Never, "whether a retry helps"),
        Ok(done) => return Err(Stop::failed(format_args!("it was accepted: {done:?}"))),
    }
    Ok(())
}
