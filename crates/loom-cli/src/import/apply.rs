//! Storing a window.

use std::collections::hash_map::Entry;

use ahash::{AHashMap, RandomState};
use futures_util::stream::{self, StreamExt as _};
use loom_spi::{
    Append, Event, EventStore, ExecutionId, Head, Limits, NewEvent, Read, StoreErrorKind,
};

use super::Totals;
use super::window::Numbered;
use crate::failure::Failure;
use crate::jsonl::write_line;
use crate::output::shortened;

/// How many stored events are compared at a time.
const PAGE: usize = 512;

/// Keeps, for each execution that the file names, how far the file and the store are: about 150 bytes for each until the end,
/// since a file may come back to any of them, and what follows the end of one is an error of the file.
pub(super) struct Importer<'a> {
    store: &'a dyn EventStore,
    name: String,
    appends: usize,
    logs: AHashMap<ExecutionId, Log>,
    events: u64,
    skipped: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Log {
    /// How many lines of it the file had so far.
    lines: u64,
    /// The line that closed it.
    closed_at: Option<u64>,
    /// How many events are stored, once that was looked up.
    stored: Option<u64>,
}

/// The lines of one execution in one window.
struct Group {
    id: ExecutionId,
    first: u64,
    stored: Option<u64>,
    lines: Vec<Numbered>,
}

/// What became of a group.
#[derive(Clone, Copy, Debug, Default)]
struct Applied {
    stored: u64,
    events: u64,
    skipped: u64,
}

/// Why a group, or the rest of it, was not stored.
enum Stopped {
    /// Its log in the store is another one. The other groups go on.
    Differs { line: u64, failure: Failure },
    /// The store did not do what was asked. Nothing goes on.
    Store(Failure),
}

impl<'a> Importer<'a> {
    pub(super) fn new(store: &'a dyn EventStore, name: String, appends: usize) -> Self {
        Self {
            store,
            name,
            appends,
            logs: AHashMap::with_hasher(RandomState::new()),
            events: 0,
            skipped: 0,
        }
    }

    pub(super) fn totals(&self) -> Totals {
        Totals {
            executions: self.logs.len() as u64,
            events: self.events,
            skipped: self.skipped,
        }
    }

    /// Stores the lines, all executions at the same time, each in order.
    pub(super) async fn apply(&mut self, lines: Vec<Numbered>) -> Result<(), Failure> {
        let (groups, bad) = self.group(lines);
        let (store, name) = (self.store, self.name.as_str());
        let mut results = stream::iter(groups)
            .map(|group| async move {
                let id = group.id.clone();
                (id, apply_group(store, name, group).await)
            })
            .buffer_unordered(self.appends);
        // The failure of the earliest line is the one to report, whichever came first.
        let mut first: Option<(u64, Failure)> = None;
        while let Some((id, result)) = results.next().await {
            match result {
                Ok(applied) => {
                    self.events += applied.events;
                    self.skipped += applied.skipped;
                    if let Some(log) = self.logs.get_mut(&id) {
                        log.stored = Some(applied.stored);
                    }
                }
                Err(Stopped::Differs { line, failure }) => {
                    if first.as_ref().is_none_or(|(earlier, _)| line < *earlier) {
                        first = Some((line, failure));
                    }
                }
                Err(Stopped::Store(failure)) => {
                    return Err(failure.context(format_args!("the import of {name} stopped")).with_help(
                        "run it again: what is stored is skipped, and it goes on where it stopped",
                    ));
                }
            }
        }
        match (first, bad) {
            (Some((_, failure)), _) => Err(failure),
            (None, Some(failure)) => Err(failure),
            (None, None) => Ok(()),
        }
    }

    /// Sorts lines by execution, up to the first one that follows the end of its execution.
    fn group(&mut self, lines: Vec<Numbered>) -> (Vec<Group>, Option<Failure>) {
        let mut groups: Vec<Group> = Vec::new();
        let mut places: AHashMap<ExecutionId, usize> = AHashMap::with_hasher(RandomState::new());
        for numbered in lines {
            let id = &numbered.line.execution;
            let log = self.logs.entry(id.clone()).or_default();
            if let Some(closed_at) = log.closed_at {
                let failure = Failure::usage(format!(
                    "{}:{}: execution `{id}` ended with `\"last\": true` on line {closed_at}: expected no event after it",
                    self.name, numbered.number
                ))
                .with_help("what stands before it is stored: correct it and run the import again");
                return (groups, Some(failure));
            }
            let position = log.lines;
            log.lines += 1;
            log.closed_at = numbered.line.last.then_some(numbered.number);
            let index = match places.entry(id.clone()) {
                Entry::Occupied(place) => *place.get(),
                Entry::Vacant(place) => {
                    groups.push(Group {
                        id: id.clone(),
                        first: position,
                        stored: log.stored,
                        lines: Vec::new(),
                    });
                    *place.insert(groups.len() - 1)
                }
            };
            groups[index].lines.push(numbered);
        }
        (groups, None)
    }
}

/// Brings one log up to the end of the group.
async fn apply_group(store: &dyn EventStore, name: &str, group: Group) -> Result<Applied, Stopped> {
    let Group {
        id, first, lines, ..
    } = &group;
    let limits = store.capabilities().limits;
    let mut applied = Applied {
        stored: match group.stored {
            Some(stored) => stored,
            None => store
                .head(Head::new(id.clone()))
                .await
                .map_err(|error| Stopped::Store(error.into()))?
                .map_or(0, |head| head.next_sequence),
        },
        ..Applied::default()
    };
    let mut rest: &[Numbered] = lines;
    while let Some(next) = rest.first() {
        let position = first + (lines.len() - rest.len()) as u64;
        let differs = |message: String| {
            Stopped::Differs {
            line: next.number,
            failure: Failure::failed(format!(
                "{name}:{}: execution `{id}` is stored differently: {message}",
                next.number
            ))
            .with_help("nothing of this line was stored: export the execution and compare, or import it under another id"),
        }
        };
        if position < applied.stored {
            let same = compare(store, name, id, position, rest).await?;
            applied.skipped += same as u64;
            rest = &rest[same..];
            continue;
        }
        if position > applied.stored {
            return Err(differs(format!(
                "it has {} events now, the import is at event {position}; it was removed or replaced meanwhile",
                applied.stored
            )));
        }
        let (events, taken) = batch(rest, limits);
        match store
            .append(Append::new(id.clone(), position, events))
            .await
        {
            Ok(appended) => {
                applied.stored = appended.next_sequence;
                applied.events += taken as u64;
                rest = &rest[taken..];
            }
            Err(error) => match *error.kind() {
                // Somebody else stored events meanwhile, the same ones perhaps.
                StoreErrorKind::SequenceConflict { actual, .. } if actual > position => {
                    applied.stored = actual;
                }
                StoreErrorKind::Closed { next_sequence } if next_sequence > position => {
                    applied.stored = next_sequence;
                }
                StoreErrorKind::SequenceConflict { actual, .. } => {
                    return Err(differs(format!(
                        "it has {actual} events now, the import is at event {position}; it was removed or replaced meanwhile"
                    )));
                }
                StoreErrorKind::Closed { next_sequence } => {
                    return Err(differs(format!(
                        "it ends after {next_sequence} events, and the file goes on"
                    )));
                }
                // A journal writes it, and nobody else may.
                StoreErrorKind::Fenced { .. } => {
                    return Err(Stopped::Differs {
                        line: next.number,
                        failure: Failure::from(error)
                            .context(format_args!("{name}:{}", next.number)),
                    });
                }
                _ => return Err(Stopped::Store(error.into())),
            },
        }
    }
    Ok(applied)
}

/// Compares stored events with the lines that claim their places, and says how many there are.
async fn compare(
    store: &dyn EventStore,
    name: &str,
    id: &ExecutionId,
    position: u64,
    lines: &[Numbered],
) -> Result<usize, Stopped> {
    let read = Read::new(id.clone(), position, lines.len().min(PAGE));
    let page = store
        .read(read)
        .await
        .map_err(|error| Stopped::Store(error.into()))?;
    for (event, numbered) in page.events.iter().zip(lines) {
        if !numbered.line.matches(event) {
            let failure = Failure::failed(format!(
                "{name}:{}: execution `{id}` is stored differently: event {} is\n    {}\n  and the line has\n    {}",
                numbered.number,
                event.sequence,
                shown(id, event),
                shown(id, &Event::from_new(event.sequence, numbered.line.to_event())),
            ))
            .with_help("nothing of this line was stored: export the execution and compare, or import it under another id");
            return Err(Stopped::Differs {
                line: numbered.number,
                failure,
            });
        }
    }
    if page.events.is_empty() {
        let line = lines.first().map_or(0, |line| line.number);
        let failure = Failure::failed(format!(
            "{name}:{line}: execution `{id}` lost its event {position} while it was compared"
        ));
        return Err(Stopped::Differs { line, failure });
    }
    Ok(page.events.len().min(lines.len()))
}

fn shown(id: &ExecutionId, event: &Event) -> String {
    let mut out = Vec::new();
    write_line(&mut out, id, event);
    shortened(String::from_utf8_lossy(&out).trim_end(), 300)
}

/// As many events as one append may carry, at least one.
fn batch(lines: &[Numbered], limits: Limits) -> (Vec<NewEvent>, usize) {
    let mut bytes = 0;
    let mut events = Vec::with_capacity(lines.len().min(limits.max_append_events));
    for numbered in lines.iter().take(limits.max_append_events) {
        bytes += numbered.line.kind.len() + numbered.line.payload.len();
        if bytes > limits.max_append_bytes && !events.is_empty() {
            break;
        }
        events.push(numbered.line.to_event());
    }
    let taken = events.len();
    (events, taken)
}
