//! What cases share: ids, events, pages and races.

use std::future::Future;
use std::sync::Arc;

use loom_spi::{Event, EventStore, ExecutionId, ExecutionSummary, List, NewEvent, Read, Timestamp};
use tokio::task::JoinSet;

use crate::outcome::{Stop, check, check_eq};

/// Runs tasks at once, all released at the same moment.
pub(crate) async fn race<T, F>(racers: usize, racer: impl Fn(usize) -> F) -> Result<Vec<T>, Stop>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let start = Arc::new(tokio::sync::Barrier::new(racers));
    let mut tasks = JoinSet::new();
    for index in 0..racers {
        let (start, task) = (Arc::clone(&start), racer(index));
        tasks.spawn(async move {
            start.wait().await;
            task.await
        });
    }
    let mut done = Vec::with_capacity(racers);
    while let Some(ended) = tasks.join_next().await {
        done.push(ended.map_err(|ended| Stop::failed(format_args!("a racer ended: {ended}")))?);
    }
    Ok(done)
}

/// Reads a log in pages of `request.limit` from `request.from` to its end, checking each page.
pub(crate) async fn log_in_pages(
    store: &dyn EventStore,
    mut request: Read,
) -> Result<Vec<Event>, Stop> {
    let mut log = Vec::new();
    loop {
        let page = store.read(request.clone()).await?;
        let progress = !page.events.is_empty();
        check!(
            page.events.len() <= request.limit,
            "a page of at most {} events has {}",
            request.limit,
            page.events.len()
        );
        for event in page.events {
            check_eq!(event.sequence, request.from, "the next sequence in a page");
            request.from += 1;
            log.push(event);
        }
        if request.from >= page.head.next_sequence {
            return Ok(log);
        }
        check!(
            progress,
            "a page is empty although the log has {} events",
            page.head.next_sequence
        );
    }
}

/// Lists in pages of `request.limit`, checking the order and the size of each.
pub(crate) async fn listing(
    store: &dyn EventStore,
    mut request: List,
) -> Result<Vec<ExecutionSummary>, Stop> {
    let mut all: Vec<ExecutionSummary> = Vec::new();
    // Pages may be short or empty, but a listing has to get on.
    for _ in 0..20_000 {
        let page = store.list(request.clone()).await?;
        check!(
            page.executions.len() <= request.limit,
            "a page of at most {} executions has {}",
            request.limit,
            page.executions.len()
        );
        for summary in page.executions {
            if let Some(last) = all.last() {
                check!(
                    place(&last.id) < place(&summary.id),
                    "not in list order: {:?} comes before {:?}",
                    last.id,
                    summary.id
                );
            }
            all.push(summary);
        }
        match page.next {
            None => return Ok(all),
            next => request.cursor = next,
        }
    }
    Err(Stop::failed("the listing does not end"))
}

/// Where an id stands in list order.
pub(crate) fn place(id: &ExecutionId) -> (i64, &ExecutionId) {
    (id.route_hash().index_key(), id)
}

pub(crate) fn in_list_order(mut ids: Vec<ExecutionId>) -> Vec<ExecutionId> {
    ids.sort_by(|a, b| place(a).cmp(&place(b)));
    ids
}

pub(crate) fn ids_of(summaries: Vec<ExecutionSummary>) -> Vec<ExecutionId> {
    summaries.into_iter().map(|summary| summary.id).collect()
}

pub(crate) fn id(text: impl AsRef<str>) -> Result<ExecutionId, Stop> {
    Ok(ExecutionId::new(text)?)
}

/// Ids spread over the list order.
pub(crate) fn many_ids(count: usize) -> Result<Vec<ExecutionId>, Stop> {
    (0..count)
        .map(|index| id(format!("execution-{index}")))
        .collect()
}

/// An event that differs for every sequence.
pub(crate) fn event(sequence: u64) -> NewEvent {
    let moment = 1_700_000_000_000 + i64::try_from(sequence).unwrap_or(0) * 10;
    NewEvent::new(format!("kind-{sequence}"), format!("payload {sequence}"))
        .recorded_at(Timestamp::from_millis(moment))
}

/// The events that [`event`] makes from `first` on.
pub(crate) fn events(first: u64, count: u64) -> Vec<NewEvent> {
    (first..first + count).map(event).collect()
}

/// What a log that was filled with [`events`] holds.
pub(crate) fn stored(first: u64, count: u64) -> Vec<Event> {
    (first..)
        .zip(events(first, count))
        .map(|(sequence, event)| Event::from_new(sequence, event))
        .collect()
}
