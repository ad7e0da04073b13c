//! `loom resolve`: an execution has two logs that differ, and somebody has decided which one stays.

use std::fmt::Write as _;

use loom_sharded_store::ShardedStore;
use loom_spi::{
    Append, Children, Event, EventStore as _, ExecutionId, Import, Inspect, Limits, NewEvent,
    Operation, RecordSummary, Relocation, Retire, Seal, SealedRecord, StoreError, StoreErrorKind,
};
use serde::Serialize;

use super::change::consented;
use super::log::not_found;
use super::ls::state_name;
use crate::args::Resolve;
use crate::deployment::Deployment;
use crate::failure::Failure;
use crate::output::{Output, Tone, counted, moment, printable, shortened, write_stderr};
use crate::sides::{Copy, Look as _, Relation, Side, Stop, View, compare, copy_of, read_log};

/// The most bytes of a payload that are shown.
const SHOWN: usize = 60;

#[derive(Serialize)]
struct Report {
    execution: String,
    /// Whether anything was done: not in a dry run.
    resolved: bool,
    /// The shard whose log stays.
    kept: u16,
    /// The shard whose log went.
    removed: u16,
    /// What that log is called now.
    other_as: String,
    /// How many events it has.
    events: u64,
    /// The first sequence at which the two differ.
    differs_at: u64,
}

pub(super) async fn run(
    args: &Resolve,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    if args.id == args.other_as {
        return Err(Failure::usage(format!(
            "--other-as is `{}` itself: expected an id that no execution has",
            args.id
        )));
    }
    let mut asked = false;
    loop {
        let view = deployment.look().await?;
        match attempt(args, deployment, &view, output, &mut asked).await {
            Ok((report, summary)) => {
                return output.print(&report, |output| report.text(&summary, output));
            }
            // What was done is found again under the new plan.
            Err(Stop::Changed) => {}
            Err(Stop::Failed(failure)) => return Err(failure),
        }
    }
}

async fn attempt(
    args: &Resolve,
    deployment: &Deployment,
    view: &View,
    output: Output,
    asked: &mut bool,
) -> Result<(Report, String), Stop> {
    let dispute = Dispute::find(args, view).await?;
    let written = refuse_taken(&deployment.store, &dispute, &args.other_as).await?;
    let mut report = Report {
        execution: args.id.to_string(),
        resolved: false,
        kept: dispute.kept.shard,
        removed: dispute.other.shard,
        other_as: args.other_as.to_string(),
        events: dispute.other_copy.head.next_sequence,
        differs_at: dispute.at,
    };
    let summary = dispute.summary(&args.other_as);
    if !*asked {
        if !consented(&args.consent, output, &summary, "Do that?")? {
            return Ok((report, summary));
        }
        if args.consent.yes {
            write_stderr(&summary);
        }
        *asked = true;
    }
    report.events = dispute.settle(&deployment.store, args, written).await?;
    report.resolved = true;
    Ok((report, summary))
}

/// Two logs of one execution, of which one is to stay.
struct Dispute {
    id: ExecutionId,
    kept: Side,
    kept_copy: Copy,
    other: Side,
    other_copy: Copy,
    /// The first sequence at which they differ.
    at: u64,
    /// What the one that stays and the other one have there, where both have something.
    events: Option<(Event, Event)>,
}

impl Dispute {
    async fn find(args: &Resolve, view: &View) -> Result<Self, Stop> {
        let id = &args.id;
        let mut copies = Vec::new();
        for side in view.sides.iter() {
            if let Some(copy) = copy_of(side, id).await? {
                copies.push((side, copy));
            }
        }
        let on: Vec<String> = copies
            .iter()
            .map(|(side, _)| side.shard.to_string())
            .collect();
        let placement = view.placement(id);
        let (kept, other) = match &*copies {
            [] => return Err(not_found(id.as_str()).into()),
            [(only, _)] => {
                return Err(Failure::refused(format!(
                    "there is nothing to decide: `{id}` is on shard {} alone",
                    only.shard
                ))
                .into());
            }
            [first, second] if first.0.shard == args.keep => (first, second),
            [first, second] if second.0.shard == args.keep => (second, first),
            [_, _] => {
                return Err(Failure::usage(format!(
                    "--keep {}: expected one of the shards that `{id}` is on, {}",
                    args.keep,
                    on.join(" and ")
                ))
                .into());
            }
            _ => {
                return Err(Failure::refused(format!(
                    "`{id}` is on shards {}: two of them have to be left before one can be chosen",
                    on.join(", ")
                ))
                .with_help("`loom repair` of a shard removes what the plan does not permit there")
                .into());
            }
        };
        if !placement.names(args.keep.into()) {
            return Err(Failure::refused(format!(
                "the plan does not permit `{id}` on shard {}, so that it cannot stay there",
                args.keep
            ))
            .with_help(format!(
                "keep the one on shard {}: the other one becomes an execution of its own, with all of its events",
                other.0.shard
            ))
            .into());
        }
        let turn = |(side, copy): &&(&Side, Copy)| view.turn(id, side.shard, copy.head.sealed);
        let served_is_kept = turn(&kept) < turn(&other);
        let (served, second) = if served_is_kept {
            (kept, other)
        } else {
            (other, kept)
        };
        let (at, events) = match compare(id, second.0, served.0).await? {
            Relation::Differ { at, events } => (at, Some(events)),
            Relation::Continues { at } => (at, None),
            // Moved or removed meanwhile.
            Relation::Gone => return Err(Stop::Changed),
            Relation::Same | Relation::Begins => {
                let help = if placement.names(second.0.shard.into()) {
                    "`loom drain` removes it".to_owned()
                } else {
                    format!("`loom repair {}` removes it", second.0.shard)
                };
                return Err(Failure::refused(format!(
                    "there is nothing to decide: the log on shard {} is served, and has all that is on shard {}",
                    served.0.shard, second.0.shard
                ))
                .with_help(help)
                .into());
            }
        };
        Ok(Self {
            id: id.clone(),
            kept: kept.0.clone(),
            kept_copy: kept.1.clone(),
            other: other.0.clone(),
            other_copy: other.1.clone(),
            at,
            events: events.map(|events| {
                let (second, served) = *events;
                if served_is_kept {
                    (served, second)
                } else {
                    (second, served)
                }
            }),
        })
    }

    /// Writes the other log down under its new id, takes its fence and its branches over to the one that stays, and
    /// removes it. Each step may be repeated; nothing is removed before it is somewhere else.
    async fn settle(
        &self,
        store: &ShardedStore,
        args: &Resolve,
        written: u64,
    ) -> Result<u64, Stop> {
        let id = &self.id;
        let (kept, other) = (relocation(&self.kept)?, relocation(&self.other)?);
        self.refuse_sealed(kept, other).await?;
        // From now on nobody changes it.
        let sealed = Seal::new(id.clone()).with_epoch(self.other.epoch);
        let sealed = other.seal(sealed).await?;
        let events = self.write_down(store, &args.other_as, written).await?;
        if sealed.fence.is_some() || !sealed.branches.is_empty() {
            let record = SealedRecord::new(None, sealed.fence, sealed.branches);
            let record = record.with_holder(sealed.holder);
            let import = Import::new(id.clone(), record, Vec::new());
            match kept.import(import.with_epoch(self.kept.epoch)).await {
                // It has all that there is to take over: that was looked at.
                Err(error) if *error.kind() == StoreErrorKind::Sealed => {}
                imported => drop(imported?),
            }
        }
        let retire = Retire::new(id.clone()).with_epoch(self.other.epoch);
        other.retire(retire).await?;
        Ok(events)
    }

    /// A record that is being moved takes nothing over, so that what the other one has beside its log would be lost.
    async fn refuse_sealed(
        &self,
        kept: &dyn Relocation,
        other: &dyn Relocation,
    ) -> Result<(), Stop> {
        let inspect = Inspect::new(self.id.clone());
        let here = kept.inspect(inspect.clone().with_epoch(self.kept.epoch));
        let there = other.inspect(inspect.with_epoch(self.other.epoch));
        let (Some(here), Some(there)) = (here.await?, there.await?) else {
            return Err(Stop::Changed);
        };
        if !here.sealed
            || (there.fence <= here.fence && self.has_branches_of(&here, &there).await?)
        {
            return Ok(());
        }
        Err(Failure::refused(format!(
            "the log on shard {} is sealed by a move that cannot end, and the other one has a fence or branches that it would have to take over",
            self.kept.shard
        ))
        .with_help(format!(
            "keep the one on shard {}: the other one becomes an execution of its own, with all of its events",
            self.other.shard
        ))
        .into())
    }

    /// Whether the record that stays has all branches of the other one.
    async fn has_branches_of(
        &self,
        here: &RecordSummary,
        there: &RecordSummary,
    ) -> Result<bool, Stop> {
        if there.branches == 0 {
            return Ok(true);
        }
        if here.branches < there.branches {
            return Ok(false);
        }
        let of = async |side: &Side| -> Result<Vec<loom_spi::Branch>, Stop> {
            let Some(registry) = side.store.capabilities().branches else {
                return Ok(Vec::new());
            };
            let children = Children::new(self.id.clone()).with_epoch(side.epoch);
            Ok(registry.children(children).await?)
        };
        let here = of(&self.kept).await?;
        let there = of(&self.other).await?;
        Ok(there.iter().all(|branch| here.contains(branch)))
    }

    /// Appends what is not there yet of the other log to the execution that it becomes; returns how many events it has.
    async fn write_down(
        &self,
        store: &ShardedStore,
        to: &ExecutionId,
        mut next: u64,
    ) -> Result<u64, Stop> {
        let limits = store.capabilities().limits;
        loop {
            let page = read_log(&self.other, &self.id, next).await?;
            let Some(page) = page else {
                return Err(Stop::Changed);
            };
            if next >= page.head.next_sequence {
                return Ok(next);
            }
            for events in split(page.events, &limits) {
                let count = events.len() as u64;
                // Through the one store, under whatever plan: what another plan refuses is sent again there.
                store.append(Append::new(to.clone(), next, events)).await?;
                next += count;
            }
        }
    }

    fn summary(&self, other_as: &ExecutionId) -> String {
        // Writing to a String cannot fail.
        let mut text = format!("`{}` has two logs:\n", self.id);
        for (copy, becomes) in [
            (&self.kept_copy, "stays".to_owned()),
            (&self.other_copy, format!("becomes `{other_as}`")),
        ] {
            let head = copy.head;
            let sealed = if head.sealed { ", sealed" } else { "" };
            let _ = writeln!(
                text,
                "  on shard {}: {}{sealed}, {}, the last one at {}: {becomes}",
                copy.shard,
                state_name(head.state),
                counted(head.next_sequence, "event"),
                moment(head.updated_at),
            );
        }
        let _ = match &self.events {
            Some(events) => {
                let _ = writeln!(text, "they differ from event {} on:", self.at);
                for (shard, event) in [(self.kept.shard, &events.0), (self.other.shard, &events.1)]
                {
                    let payload = String::from_utf8_lossy(&event.payload);
                    let _ = writeln!(
                        text,
                        "  on shard {shard}: {}  {}  {}",
                        moment(event.recorded_at),
                        printable(&event.kind),
                        shortened(&printable(&payload), SHOWN),
                    );
                }
                Ok(())
            }
            None => writeln!(text, "one of them ends before event {}", self.at),
        };
        text
    }
}

/// Refuses an id that is somebody else's; returns how many events an attempt before this one wrote down.
async fn refuse_taken(
    store: &ShardedStore,
    dispute: &Dispute,
    other_as: &ExecutionId,
) -> Result<u64, Stop> {
    let mut next = 0;
    loop {
        let read = loom_spi::Read::new(other_as.clone(), next, 256);
        let page = match store.read(read).await {
            Ok(page) => page,
            Err(error) if *error.kind() == StoreErrorKind::NotFound => return Ok(next),
            Err(error) => return Err(error.into()),
        };
        if next >= page.head.next_sequence {
            return Ok(next);
        }
        let there = read_log(&dispute.other, &dispute.id, next).await?;
        let there = there.map_or_else(Vec::new, |page| page.events);
        let same = page
            .events
            .iter()
            .zip(&there)
            .all(|(this, that)| this == that);
        if page.events.is_empty() || !same || page.events.len() > there.len() {
            return Err(Failure::refused(format!(
                "there is an execution `{other_as}` already: expected an id that no execution has"
            ))
            .into());
        }
        next += page.events.len() as u64;
    }
}

/// Events as they are, in as many appends as the limits ask for.
fn split(events: Vec<Event>, limits: &Limits) -> Vec<Vec<NewEvent>> {
    let mut parts = Vec::new();
    let (mut part, mut bytes) = (Vec::new(), 0);
    for event in events {
        let size = event.kind.len() + event.payload.len();
        let full = part.len() == limits.max_append_events
            || (!part.is_empty() && bytes + size > limits.max_append_bytes);
        if full {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
        bytes += size;
        let new = NewEvent::new(event.kind, event.payload).recorded_at(event.recorded_at);
        part.push(if event.terminal { new.terminal() } else { new });
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}

fn relocation(side: &Side) -> Result<&dyn Relocation, StoreError> {
    side.store.capabilities().relocation.ok_or_else(|| {
        let capability = "relocation, which this needs";
        StoreError::new(
            Operation::Migrate,
            StoreErrorKind::Unsupported { capability },
        )
        .with_shard(side.shard)
    })
}

impl Report {
    fn text(&self, summary: &str, output: Output) -> String {
        if !self.resolved {
            return format!("{summary}nothing was changed: this was a dry run\n");
        }
        format!(
            "{} `{}` is on shard {} alone; what was on shard {} is `{}` now, with {}\n",
            output.paint(Tone::Good, "resolved:"),
            self.execution,
            self.kept,
            self.removed,
            self.other_as,
            counted(self.events, "event"),
        )
    }
}
