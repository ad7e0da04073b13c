//! `loom ls`.

use loom_spi::{EventStore as _, ExecutionState, ExecutionSummary, List, ListCursor};
use serde::Serialize;

use crate::args::{Ls, State};
use crate::deployment::{Deployment, under_own_plan};
use crate::failure::Failure;
use crate::output::{Output, Table, Tone, count, moment};

#[derive(Serialize)]
struct Listed {
    executions: Vec<Row>,
    /// Whether there are more, after the last of these.
    more: bool,
}

#[derive(Serialize)]
struct Row {
    execution: String,
    state: &'static str,
    events: u64,
    created_at: i64,
    updated_at: i64,
    #[serde(skip)]
    updated: String,
}

impl Row {
    fn of(summary: &ExecutionSummary) -> Self {
        let head = summary.head;
        Self {
            execution: summary.id.to_string(),
            state: state_name(head.state),
            events: head.next_sequence,
            created_at: head.created_at.as_millis(),
            updated_at: head.updated_at.as_millis(),
            updated: moment(head.updated_at),
        }
    }
}

pub(super) fn state_name(state: ExecutionState) -> &'static str {
    match state {
        ExecutionState::Open => "open",
        ExecutionState::Closed => "closed",
    }
}

pub(super) async fn run(args: &Ls, deployment: &Deployment, output: Output) -> Result<(), Failure> {
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let mut request = List::new(limit.clamp(1, 1024))
        .with_cursor(args.after.as_ref().map(ListCursor::after))
        .with_state(args.state.map(|state| match state {
            State::Open => ExecutionState::Open,
            State::Closed => ExecutionState::Closed,
        }));
    let shards = deployment.shards().await;
    let only = match args.shard {
        None => None,
        Some(shard) => Some(
            shards
                .get(&shard)
                .ok_or_else(|| no_shard(shard, shards.keys().copied()))?,
        ),
    };
    let mut listed = Listed {
        executions: Vec::new(),
        more: false,
    };
    loop {
        let page = match only {
            None => deployment.store.list(request.clone()).await?,
            Some(store) => {
                let page = under_own_plan(&**store, async |epoch| {
                    store.list(request.clone().with_epoch(epoch)).await
                });
                page.await?
            }
        };
        let space = limit - listed.executions.len();
        let rows = page.executions.iter().take(space).map(Row::of);
        listed.executions.extend(rows);
        listed.more = page.executions.len() > space;
        match page.next {
            Some(next) if !listed.more => request = request.with_cursor(next),
            _ => break,
        }
    }
    output.print(&listed, |output| listed.text(output))
}

pub(super) fn no_shard(shard: u16, known: impl Iterator<Item = u16>) -> Failure {
    let known: Vec<String> = known.map(|shard| shard.to_string()).collect();
    Failure::usage(format!(
        "there is no shard {shard}: expected one of {}",
        known.join(", ")
    ))
}

impl Listed {
    fn text(&self, output: Output) -> String {
        let mut table = Table::new(&["execution", "state", ">events", "last event"]);
        for row in &self.executions {
            table.row([
                row.execution.clone(),
                row.state.to_owned(),
                count(row.events),
                row.updated.clone(),
            ]);
        }
        let mut text = table.render(output);
        if let (true, Some(last)) = (self.more, self.executions.last()) {
            let hint = format!("there are more: --after {}", last.execution);
            text.push_str(&output.paint(Tone::Quiet, &hint));
            text.push('\n');
        }
        text
    }
}
