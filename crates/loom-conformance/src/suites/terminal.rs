//! Closed is for ever.

use loom_spi::{Append, Delete, ExecutionState, Retry, StoreErrorKind};

use crate::context::Cx;
use crate::outcome::{Stop, Verdict, check_eq, check_refused};
use crate::support::{event, id, stored};

crate::macros::suite! { ($) Store terminal as __terminal;
    nothing_is_appended_after_a_terminal_event,
    of_two_terminal_events_the_first_stands,
    closed_is_reported_before_a_wrong_length,
    a_first_event_can_be_terminal,
    the_last_event_of_an_append_can_be_terminal,
    a_closed_log_can_still_be_read,
    a_refusal_as_closed_is_permanent,
    deleting_a_closed_execution_makes_its_id_free,
}

async fn nothing_is_appended_after_a_terminal_event(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 2).await?;
    cx.close(&id, 2).await?;
    let before = (cx.head(&id).await?, cx.log(&id).await?);
    check_refused!(
        cx.append(&id, 3, 1).await,
        StoreErrorKind::Closed { next_sequence: 3 },
        "one more event"
    );
    check_refused!(
        cx.append(&id, 3, 5).await,
        StoreErrorKind::Closed { next_sequence: 3 },
        "five more events"
    );
    check_eq!((cx.head(&id).await?, cx.log(&id).await?), before, "the log");
    Ok(())
}

async fn of_two_terminal_events_the_first_stands(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 1).await?;
    cx.close(&id, 1).await?;
    for expected in [1, 2] {
        let events = vec![event(77).terminal()];
        check_refused!(
            cx.store()
                .append(Append::new(id.clone(), expected, events))
                .await,
            StoreErrorKind::Closed { next_sequence: 2 },
            "a second terminal event at {expected}"
        );
    }
    let log = cx.log(&id).await?;
    let end = log
        .last()
        .map(|event| (event.sequence, &*event.kind, event.terminal));
    check_eq!(end, Some((1, "kind-1", true)), "the last event");
    Ok(())
}

async fn closed_is_reported_before_a_wrong_length(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 2).await?;
    cx.close(&id, 2).await?;
    for expected in [0, 1, 2, 4] {
        check_refused!(
            cx.append(&id, expected, 1).await,
            StoreErrorKind::Closed { next_sequence: 3 },
            "expecting {expected} of 3"
        );
    }
    Ok(())
}

async fn a_first_event_can_be_terminal(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.close(&id, 0).await?;
    let head = cx.head(&id).await?;
    let state = head.map(|head| (head.next_sequence, head.state));
    check_eq!(state, Some((1, ExecutionState::Closed)), "the head");
    check_refused!(
        cx.append(&id, 1, 1).await,
        StoreErrorKind::Closed { next_sequence: 1 },
        "a second event"
    );
    Ok(())
}

async fn the_last_event_of_an_append_can_be_terminal(cx: Cx) -> Verdict {
    let id = id("order")?;
    let events = vec![event(0), event(1), event(2).terminal()];
    cx.store()
        .append(Append::new(id.clone(), 0, events))
        .await?;
    let log = cx.log(&id).await?;
    let terminal: Vec<_> = log.iter().map(|event| event.terminal).collect();
    check_eq!(terminal, [false, false, true], "which events are terminal");
    check_refused!(
        cx.append(&id, 3, 1).await,
        StoreErrorKind::Closed { next_sequence: 3 },
        "one more event"
    );
    Ok(())
}

async fn a_closed_log_can_still_be_read(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.append(&id, 0, 4).await?;
    cx.close(&id, 4).await?;
    let mut expected = stored(0, 5);
    if let Some(last) = expected.last_mut() {
        last.terminal = true;
    }
    check_eq!(cx.log(&id).await?, expected, "the log");
    Ok(())
}

async fn a_refusal_as_closed_is_permanent(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.close(&id, 0).await?;
    match cx.append(&id, 1, 1).await {
        Err(error) => check_eq!(error.retry(), Retry::Never, "whether a retry helps"),
        Ok(done) => return Err(Stop::failed(format_args!("it was accepted: {done:?}"))),
    }
    Ok(())
}

async fn deleting_a_closed_execution_makes_its_id_free(cx: Cx) -> Verdict {
    let id = id("order")?;
    cx.close(&id, 0).await?;
    cx.store().delete(Delete::new(id.clone())).await?;
    cx.append(&id, 0, 2).await?;
    let state = cx.head(&id).await?.map(|head| head.state);
    check_eq!(
        state,
        Some(ExecutionState::Open),
        "the state of the new log"
    );
    Ok(())
}
