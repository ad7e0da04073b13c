//! Many callers at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom_spi::{Append, EventStore, ExecutionId, Head, NewEvent, Read, StoreErrorKind};

use crate::context::Cx;
use crate::outcome::{Stop, Verdict, check, check_eq, check_refused};
use crate::support::{event, id, log_in_pages};

crate::macros::suite! { ($) Store concurrency as __concurrency;
    of_racing_creators_one_wins,
    of_racing_terminal_events_one_wins,
    racing_appenders_leave_a_contiguous_log_without_losses,
    the_events_of_one_append_stay_together,
    a_reader_never_sees_a_gap_or_half_an_append,
}

/// An append of `count` events that say who wrote them.
pub(super) fn signed(id: &ExecutionId, expected: u64, writer: usize, count: u64) -> Append {
    let events = (expected..expected + count).map(|sequence| {
        let kind = format!("writer {writer}");
        NewEvent::new(kind, format!("{writer}/{sequence}")).recorded_at(event(0).recorded_at)
    });
    Append::new(id.clone(), expected, events.collect())
}

/// Appends, and tries again with the length that a conflict names, until it succeeds. There cannot be more
/// conflicts than other appends succeed.
async fn append_at_last(
    store: &dyn EventStore,
    id: &ExecutionId,
    writer: usize,
    count: u64,
    guess: u64,
    others: usize,
) -> Result<u64, Stop> {
    let mut expected = guess;
    for _ in 0..=others {
        match store.append(signed(id, expected, writer, count)).await {
            Ok(appended) => return Ok(appended.next_sequence),
            Err(error) => match error.kind() {
                StoreErrorKind::SequenceConflict { actual, .. } if *actual != expected => {
                    expected = *actual;
                }
                _ => return Err(error.into()),
            },
        }
    }
    Err(Stop::failed(
        "an append met more conflicts than others succeeded",
    ))
}

async fn of_racing_creators_one_wins(cx: Cx) -> Verdict {
    for round in 0..cx.effort().rounds {
        let id = id(format!("order-{round}"))?;
        let results = cx
            .race(|racer, store| {
                let append = signed(&id, 0, racer, 2);
                async move { (racer, store.append(append).await) }
            })
            .await?;
        let mut winners = Vec::new();
        for (racer, result) in results {
            match result {
                Ok(_) => winners.push(racer),
                lost => check_refused!(
                    lost,
                    StoreErrorKind::SequenceConflict {
                        expected: 0,
                        actual: 2
                    },
                    "creating it too late"
                ),
            }
        }
        check_eq!(winners.len(), 1, "how many creators won");
        let writers: Vec<_> = cx
            .log(&id)
            .await?
            .iter()
            .map(|event| event.kind.to_string())
            .collect();
        let winner = format!("writer {}", winners[0]);
        check_eq!(writers, [winner.clone(), winner], "whose events are there");
    }
    Ok(())
}

async fn of_racing_terminal_events_one_wins(cx: Cx) -> Verdict {
    for round in 0..cx.effort().rounds {
        let id = id(format!("order-{round}"))?;
        cx.append(&id, 0, 1).await?;
        let results = cx
            .race(|racer, store| {
                let kind = format!("end {racer}");
                let end = NewEvent::new(kind.clone(), "").terminal();
                let append = Append::new(id.clone(), 1, vec![end]);
                async move { (kind, store.append(append).await) }
            })
            .await?;
        let mut winners = Vec::new();
        for (kind, result) in results {
            match result {
                Ok(_) => winners.push(kind),
                lost => check_refused!(
                    lost,
                    StoreErrorKind::Closed { next_sequence: 2 },
                    "closing it a second time"
                ),
            }
        }
        check_eq!(winners.len(), 1, "how many terminal events were accepted");
        let log = cx.log(&id).await?;
        let end = log.last().map(|event| event.kind.to_string());
        check_eq!(end, winners.pop(), "the last event");
        check_eq!(log.len(), 2, "the length");
    }
    Ok(())
}

async fn racing_appenders_leave_a_contiguous_log_without_losses(cx: Cx) -> Verdict {
    let id = id("order")?;
    let (racers, rounds) = (cx.effort().racers, cx.effort().rounds);
    let results = cx
        .race(|racer, store| {
            let id = id.clone();
            async move {
                let mut acknowledged = Vec::new();
                for _ in 0..rounds {
                    let guess = acknowledged.last().copied().unwrap_or(0);
                    let next =
                        append_at_last(&*store, &id, racer, 1, guess, racers * rounds).await?;
                    acknowledged.push(next);
                }
                Ok::<_, Stop>((racer, acknowledged))
            }
        })
        .await?;
    let log = cx.log(&id).await?;
    check_eq!(log.len(), racers * rounds, "the length");
    for result in results {
        let (racer, acknowledged) = result?;
        for next in acknowledged {
            let found = usize::try_from(next - 1)
                .ok()
                .and_then(|index| log.get(index));
            let payload = found.map(|event| event.payload.clone());
            let expected = format!("{racer}/{}", next - 1);
            check_eq!(
                payload,
                Some(expected.into()),
                "the event acknowledged at {}",
                next - 1
            );
        }
    }
    Ok(())
}

async fn the_events_of_one_append_stay_together(cx: Cx) -> Verdict {
    let id = id("order")?;
    let (racers, rounds) = (cx.effort().racers, cx.effort().rounds);
    let results = cx
        .race(|racer, store| {
            let id = id.clone();
            async move {
                let mut guess = 0;
                for _ in 0..rounds {
                    guess = append_at_last(&*store, &id, racer, 4, guess, racers * rounds).await?;
                }
                Ok::<_, Stop>(())
            }
        })
        .await?;
    for result in results {
        result?;
    }
    let log = cx.log(&id).await?;
    for batch in log.chunks(4) {
        let one_writer = batch.iter().all(|event| event.kind == batch[0].kind);
        check!(
            one_writer && batch.len() == 4,
            "torn apart at sequence {}",
            batch[0].sequence
        );
    }
    Ok(())
}

async fn a_reader_never_sees_a_gap_or_half_an_append(cx: Cx) -> Verdict {
    let id = id("order")?;
    let (racers, rounds) = (cx.effort().racers, cx.effort().rounds);
    let writing = Arc::new(AtomicUsize::new(racers / 2));
    let results = cx
        .race(|racer, store| {
            let (id, writing) = (id.clone(), Arc::clone(&writing));
            async move {
                if racer < racers / 2 {
                    let mut guess = 0;
                    let mut result = Ok(());
                    for _ in 0..rounds {
                        match append_at_last(&*store, &id, racer, 3, guess, racers * rounds).await {
                            Ok(next) => guess = next,
                            Err(stop) => {
                                result = Err(stop);
                                break;
                            }
                        }
                    }
                    writing.fetch_sub(1, Ordering::SeqCst);
                    return result;
                }
                let mut seen = 0;
                while writing.load(Ordering::SeqCst) > 0 {
                    let head = store.head(Head::new(id.clone())).await?;
                    let length = head.map_or(0, |head| head.next_sequence);
                    check_eq!(length % 3, 0, "the rest of {length} events by threes");
                    check!(
                        length >= seen,
                        "the log shrank from {seen} to {length} events"
                    );
                    seen = length;
                    if length > 0 {
                        let log = log_in_pages(&*store, Read::new(id.clone(), 0, 7)).await?;
                        check_eq!(log.len() % 3, 0, "the rest of {} events read", log.len());
                        check!(log.len() as u64 >= seen, "read less than was there before");
                    }
                    tokio::task::yield_now().await;
                }
                Ok(())
            }
        })
        .await?;
    results.into_iter().collect()
}
