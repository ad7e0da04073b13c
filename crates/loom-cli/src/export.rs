//! `loom export`: a store as JSON lines, the inverse of an import.

use std::io::Write;
use std::pin::pin;

use futures_util::stream::TryStreamExt as _;
use loom_spi::{
    EventStore, EventStoreExt as _, ExecutionId, ExecutionSummary, List, Read, ReadPage,
    StoreError, StoreErrorKind,
};
use serde::Serialize;

use crate::failure::Failure;
use crate::jsonl::write_line;
use crate::output::count;
use crate::progress::Progress;

/// Executions whose first page is read ahead.
const AHEAD: usize = 32;
/// Events that are read at a time.
const PAGE: usize = 256;

/// What was exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    pub(crate) executions: u64,
    pub(crate) events: u64,
    /// Executions that were removed before their turn.
    pub(crate) skipped: u64,
}

/// Why an export ended early.
#[derive(Debug)]
pub(crate) enum Stopped {
    Store(Failure),
    Sink(std::io::Error),
}

/// Writes every execution, one after the other in list order, each as long as it is when its turn comes.
/// One that is removed before its turn is left out.
pub(crate) async fn export(
    store: &dyn EventStore,
    sink: &mut (impl Write + ?Sized),
    progress: &Progress,
) -> Result<Totals, Stopped> {
    let mut totals = Totals::default();
    let logs = store
        .list_all(List::new(PAGE))
        .map_ok(|summary| first_page(store, summary))
        .try_buffered(AHEAD);
    let mut logs = pin!(logs);
    let mut buffer = Vec::new();
    while let Some((id, page)) = logs.try_next().await.map_err(store_failure)? {
        let Some(mut page) = page else {
            totals.skipped += 1;
            continue;
        };
        let mut next = 0;
        loop {
            for event in &page.events {
                write_line(&mut buffer, &id, event);
            }
            next += page.events.len() as u64;
            totals.events += page.events.len() as u64;
            if buffer.len() >= 1 << 16 {
                sink.write_all(&buffer).map_err(Stopped::Sink)?;
                buffer.clear();
            }
            if next >= page.head.next_sequence {
                break;
            }
            page = store
                .read(Read::new(id.clone(), next, PAGE))
                .await
                .map_err(store_failure)?;
            if page.events.is_empty() {
                return Err(Stopped::Store(Failure::failed(format!(
                    "execution `{id}` has {} events, but none at {next}",
                    page.head.next_sequence
                ))));
            }
        }
        totals.executions += 1;
        if totals.executions.is_multiple_of(256) {
            progress.at(
                totals.executions,
                format_args!(
                    "{} executions, {} events, {:.0}/s",
                    count(totals.executions),
                    count(totals.events),
                    progress.rate(totals.events)
                ),
            );
        }
    }
    sink.write_all(&buffer).map_err(Stopped::Sink)?;
    sink.flush().map_err(Stopped::Sink)?;
    Ok(totals)
}

async fn first_page(
    store: &dyn EventStore,
    summary: ExecutionSummary,
) -> Result<(ExecutionId, Option<ReadPage>), StoreError> {
    let id = summary.id;
    match store.read(Read::new(id.clone(), 0, PAGE)).await {
        Ok(page) => Ok((id, Some(page))),
        Err(error) if *error.kind() == StoreErrorKind::NotFound => Ok((id, None)),
        Err(error) => Err(error),
    }
}

fn store_failure(error: StoreError) -> Stopped {
    Stopped::Store(error.into())
}
