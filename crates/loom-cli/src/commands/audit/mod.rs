//! `loom audit`.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::{self, BoxStream, Peekable, StreamExt as _, TryStreamExt as _};
use loom_shard_plan::{Placement, ShardPlan};
use loom_spi::{
    Event, EventStore as _, EventStoreExt as _, ExecutionId, ExecutionSummary, Head, List,
    ListCursor, PlanEpoch, Read, StoreError, StoreErrorKind,
};
use loom_store_sqlite::SqliteStore;
use serde::Serialize;

use crate::deployment::{Deployment, ledger_epoch};
use crate::failure::Failure;
use crate::output::{Output, Tone, counted};

/// Executions or events that are read at a time.
const PAGE: usize = 512;
/// Executions that are checked at a time.
const AT_ONCE: usize = 16;

#[derive(Default, Serialize)]
struct Report {
    epoch: u64,
    executions: u64,
    events: u64,
    violations: u64,
    findings: Vec<Finding>,
}

#[derive(Serialize)]
struct Finding {
    execution: String,
    shard: u16,
    problem: String,
}

/// One shard, under the plan that it is under by itself.
struct Side {
    shard: u16,
    store: Arc<SqliteStore>,
    epoch: Option<PlanEpoch>,
}

pub(super) async fn run(deployment: &Deployment, output: Output) -> Result<(), Failure> {
    let plan = deployment.plan()?;
    let mut sides = Vec::new();
    for (shard, store) in deployment.shards().await {
        let epoch = ledger_epoch(&store).await?;
        sides.push(Side {
            shard,
            store,
            epoch,
        });
    }
    let mut report = Report {
        epoch: plan.epoch(),
        ..Report::default()
    };
    let (plan, sides) = (&*plan, &*sides);
    let mut checked = merged(sides)
        .map_ok(|(id, on)| check(plan, sides, id, on))
        .try_buffer_unordered(AT_ONCE)
        .boxed();
    while let Some((events, findings)) = checked.try_next().await? {
        report.executions += 1;
        report.events += events;
        report.findings.extend(findings);
    }
    report
        .findings
        .sort_by(|a, b| (&a.execution, a.shard).cmp(&(&b.execution, b.shard)));
    report.violations = report.findings.len() as u64;
    output.print(&report, |output| report.text(output))?;
    match report.violations {
        0 => Ok(()),
        found => Err(Failure::failed(format!(
            "the audit found {}",
            counted(found, "violation")
        ))),
    }
}

/// Every id once, and the sides that list it. All shards list in the same order, so that one pass over
/// them side by side meets the copies of an id together.
fn merged(sides: &[Side]) -> BoxStream<'_, Result<(ExecutionId, Vec<usize>), StoreError>> {
    type Listing<'a> = Peekable<BoxStream<'a, Result<ExecutionSummary, StoreError>>>;
    let listings: Vec<Listing<'_>> = sides
        .iter()
        .map(|side| {
            let request = List::new(PAGE).with_epoch(side.epoch);
            side.store.list_all(request).boxed().peekable()
        })
        .collect();
    stream::try_unfold(listings, |mut listings| async move {
        let mut next: Option<ListCursor> = None;
        let mut on = Vec::new();
        for (index, listing) in listings.iter_mut().enumerate() {
            let cursor = match Pin::new(&mut *listing).peek().await {
                None => continue,
                Some(Ok(summary)) => ListCursor::after(&summary.id),
                // Taken, not peeked at, so that it can be passed on.
                Some(Err(_)) => match listing.next().await {
                    Some(Err(error)) => return Err(error),
                    _ => continue,
                },
            };
            match &next {
                Some(first) if cursor.position() > first.position() => {}
                Some(first) if cursor.position() == first.position() => on.push(index),
                _ => {
                    next = Some(cursor);
                    on = vec![index];
                }
            }
        }
        let Some(cursor) = next else { return Ok(None) };
        for index in &on {
            if let Some(listing) = listings.get_mut(*index) {
                listing.next().await;
            }
        }
        let (_, id) = cursor.position();
        Ok(Some(((id.clone(), on), listings)))
    })
    .boxed()
}

/// Checks an execution wherever it is; returns how many events the copy that counts has, and what is wrong.
async fn check(
    plan: &ShardPlan,
    sides: &[Side],
    id: ExecutionId,
    on: Vec<usize>,
) -> Result<(u64, Vec<Finding>), StoreError> {
    let placement = plan.route_id(id.as_str());
    let mut findings = Vec::new();
    let mut find = |shard: u16, problem: String| {
        findings.push(Finding {
            execution: id.to_string(),
            shard,
            problem,
        });
    };
    let mut copies = Vec::new();
    for side in on.iter().filter_map(|index| sides.get(*index)) {
        match whole(side, &id).await? {
            Log::Gone => continue,
            Log::Sound { events, sealed } => copies.push((side.shard, events, sealed)),
            Log::Broken { events, problem } => {
                copies.push((side.shard, events, false));
                find(side.shard, problem);
            }
        }
        if !placement.names(side.shard.into()) {
            find(
                side.shard,
                format!("the plan permits it on {} only", permitted(placement)),
            );
        }
    }
    if copies.len() > 1 {
        // One that is being moved was on both sides for a moment.
        let mut there = Vec::new();
        for side in on.iter().filter_map(|index| sides.get(*index)) {
            let head = Head::new(id.clone()).with_epoch(side.epoch);
            if let Some(head) = side.store.head(head).await? {
                there.push((side.shard, head.sealed));
            }
        }
        // A move that was cut off leaves one of them sealed, and whoever comes next finishes it.
        let finishable = placement.is_migrating() && there.iter().any(|(_, sealed)| *sealed);
        let there: Vec<u16> = there.into_iter().map(|(shard, _)| shard).collect();
        for shard in there.iter().skip(if finishable { 2 } else { 1 }) {
            find(
                *shard,
                format!(
                    "it is on shard {} too; the copy on shard {} is served, and `loom drain` finishes a move that was interrupted",
                    there.first().copied().unwrap_or_default(),
                    placement.destination()
                ),
            );
        }
    }
    let served = placement.destination().get();
    // An unsealed copy counts before a sealed one, and of equals the destination's.
    copies.sort_by_key(|(shard, _, sealed)| (*sealed, *shard != served));
    let counted = copies.first();
    Ok((counted.map_or(0, |(_, events, _)| *events), findings))
}

fn permitted(placement: Placement) -> String {
    match placement {
        Placement::Settled(shard) => format!("shard {shard}"),
        Placement::Migrating { from, to } => format!("shards {from} and {to}"),
    }
}

enum Log {
    /// Moved or removed meanwhile.
    Gone,
    Sound {
        events: u64,
        sealed: bool,
    },
    Broken {
        events: u64,
        problem: String,
    },
}

/// Reads a log from its anchor to its end.
async fn whole(side: &Side, id: &ExecutionId) -> Result<Log, StoreError> {
    let mut next = 0;
    let mut last: Option<Event> = None;
    loop {
        let read = Read::new(id.clone(), next, PAGE).with_epoch(side.epoch);
        let page = match side.store.read(read).await {
            Ok(page) => page,
            Err(error) => match error.kind() {
                StoreErrorKind::NotFound => return Ok(Log::Gone),
                StoreErrorKind::Corrupt { reason } => {
                    let problem = reason.clone();
                    return Ok(Log::Broken {
                        events: next,
                        problem,
                    });
                }
                _ => return Err(error),
            },
        };
        let empty = page.events.is_empty();
        for event in page.events {
            let closed = last.as_ref().is_some_and(|last| last.terminal);
            if event.sequence != next || closed {
                let problem = if closed {
                    format!("event {} stands behind the terminal event", event.sequence)
                } else {
                    format!("event {} stands where event {next} should", event.sequence)
                };
                return Ok(Log::Broken {
                    events: next,
                    problem,
                });
            }
            next += 1;
            last = Some(event);
        }
        let end = page.head.next_sequence;
        let terminal = last.as_ref().is_some_and(|last| last.terminal);
        if next >= end {
            return Ok(if page.head.is_closed() == terminal {
                Log::Sound {
                    events: next,
                    sealed: page.head.sealed,
                }
            } else {
                let problem = format!(
                    "its head says that it is {}, its last event says otherwise",
                    super::ls::state_name(page.head.state)
                );
                Log::Broken {
                    events: next,
                    problem,
                }
            });
        }
        if empty {
            let problem = format!("it has {end} events by its head, and none at {next}");
            return Ok(Log::Broken {
                events: next,
                problem,
            });
        }
    }
}

impl Report {
    fn text(&self, output: Output) -> String {
        let tone = if self.violations == 0 {
            Tone::Good
        } else {
            Tone::Bad
        };
        let mut text = format!(
            "{}: {} with {} under plan epoch {}, {}\n",
            output.paint(
                tone,
                if self.violations == 0 {
                    "sound"
                } else {
                    "not sound"
                }
            ),
            counted(self.executions, "execution"),
            counted(self.events, "event"),
            self.epoch,
            counted(self.violations, "violation"),
        );
        for finding in &self.findings {
            text.push_str(&format!(
                "  `{}` on shard {}: {}\n",
                finding.execution, finding.shard, finding.problem
            ));
        }
        text
    }
}
