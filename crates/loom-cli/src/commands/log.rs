//! `loom log`.

use std::fmt::Write as _;
use std::pin::pin;

use futures_util::TryStreamExt as _;
use loom_shard_plan::ShardId;
use loom_spi::{
    Event, EventStore as _, EventStoreExt as _, Head, Read, StoreError, StoreErrorKind,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::ls::{no_shard, state_name};
use crate::args::Log;
use crate::deployment::{Deployment, under_own_plan};
use crate::failure::Failure;
use crate::output::{Output, Tone, count, counted, moment, printable};

#[derive(Serialize)]
struct Shown {
    execution: String,
    shard: Option<u16>,
    file: Option<String>,
    state: &'static str,
    next_sequence: u64,
    events: Vec<ShownEvent>,
}

#[derive(Serialize)]
struct ShownEvent {
    sequence: u64,
    at: i64,
    #[serde(rename = "type")]
    kind: String,
    last: bool,
    /// As JSON where it is, as text or a list of bytes where it is not.
    payload: Box<RawValue>,
    #[serde(skip)]
    text: String,
}

pub(super) async fn run(
    args: &Log,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    if let Some(shard) = args.shard {
        return on_shard(args, shard, deployment, output).await;
    }
    let head = deployment.store.head(Head::new(args.id.clone())).await?;
    let Some(head) = head else {
        return Err(not_found(args.id.as_str()));
    };
    let shard = deployment.locate(&args.id).await?;
    let mut shown = Shown {
        execution: args.id.to_string(),
        shard: shard.map(ShardId::get),
        file: shard
            .and_then(|shard| deployment.file(shard))
            .map(|file| file.display().to_string()),
        state: state_name(head.state),
        next_sequence: head.next_sequence,
        events: Vec::new(),
    };
    let mut events = pin!(deployment.store.read_all(&args.id, args.from));
    let limit = args.limit.unwrap_or(u64::MAX);
    while (shown.events.len() as u64) < limit {
        let Some(event) = events.try_next().await? else {
            break;
        };
        shown.events.push(ShownEvent::of(&event)?);
    }
    output.print(&shown, |output| shown.text(output))
}

/// What one shard has, whether it counts or not.
async fn on_shard(
    args: &Log,
    shard: u16,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    let shards = deployment.shards().await;
    let store = shards
        .get(&shard)
        .ok_or_else(|| no_shard(shard, shards.keys().copied()))?;
    let mut next = args.from;
    let mut shown: Option<Shown> = None;
    loop {
        let read = Read::new(args.id.clone(), next, 256);
        let page = under_own_plan(&**store, async |epoch| {
            store.read(read.clone().with_epoch(epoch)).await
        });
        let page = match page.await {
            Err(failure) if is_not_found(&failure) => {
                return Err(
                    Failure::failed(format!("shard {shard} has no log of `{}`", args.id))
                        .with_help(format!("`loom log {}` shows the one that counts", args.id)),
                );
            }
            page => page?,
        };
        let shown = shown.get_or_insert_with(|| Shown {
            execution: args.id.to_string(),
            shard: Some(shard),
            file: deployment
                .file(ShardId(shard))
                .map(|file| file.display().to_string()),
            state: state_name(page.head.state),
            next_sequence: page.head.next_sequence,
            events: Vec::new(),
        });
        let left = args.limit.unwrap_or(u64::MAX) - shown.events.len() as u64;
        next += page.events.len() as u64;
        let enough = page.events.is_empty() || page.events.len() as u64 >= left;
        let wanted = usize::try_from(left).unwrap_or(usize::MAX);
        for event in page.events.iter().take(wanted) {
            shown.events.push(ShownEvent::of(event)?);
        }
        if enough || next >= page.head.next_sequence {
            return output.print(&*shown, |output| shown.text(output));
        }
    }
}

fn is_not_found(failure: &Failure) -> bool {
    let error = failure
        .cause()
        .and_then(|cause| cause.downcast_ref::<StoreError>());
    error.is_some_and(|error| *error.kind() == StoreErrorKind::NotFound)
}

pub(super) fn not_found(id: &str) -> Failure {
    Failure::failed(format!("there is no execution `{id}`"))
        .with_help("`loom ls` lists what there is")
}

impl ShownEvent {
    fn of(event: &Event) -> Result<Self, Failure> {
        let text = String::from_utf8_lossy(&event.payload).into_owned();
        let payload = match serde_json::from_slice::<Box<RawValue>>(&event.payload) {
            Ok(json) => Ok(json),
            Err(_) => match std::str::from_utf8(&event.payload) {
                Ok(text) => serde_json::value::to_raw_value(text),
                Err(_) => serde_json::value::to_raw_value(event.payload.as_ref()),
            },
        };
        Ok(Self {
            sequence: event.sequence,
            at: event.recorded_at.as_millis(),
            kind: event.kind.to_string(),
            last: event.terminal,
            payload: payload
                .map_err(|error| Failure::failed("cannot print a payload").with_cause(error))?,
            text: format!(
                "{}  {}  {}",
                moment(event.recorded_at),
                printable(&event.kind),
                printable(&text)
            ),
        })
    }
}

impl Shown {
    fn text(&self, output: Output) -> String {
        let place = match (self.shard, &self.file) {
            (Some(shard), Some(file)) => format!(" on shard {shard} ({file})"),
            (Some(shard), None) => format!(" on shard {shard}"),
            (None, _) => String::new(),
        };
        let mut text = format!(
            "{}: {}, {}{place}\n",
            output.paint(Tone::Strong, &self.execution),
            self.state,
            counted(self.next_sequence, "event"),
        );
        let width = self.next_sequence.to_string().len();
        for event in &self.events {
            let mark = if event.last { "■" } else { " " };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{:>width$} {mark} {}", event.sequence, event.text);
        }
        let last = self.events.last().map_or(0, |event| event.sequence + 1);
        if self.events.is_empty() || last < self.next_sequence {
            let hint = format!("{} in all", count(self.next_sequence));
            text.push_str(&output.paint(Tone::Quiet, &hint));
            text.push('\n');
        }
        text
    }
}
