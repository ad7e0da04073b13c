//! What is wrong with one execution.

use std::collections::BTreeSet;

use loom_shard_plan::Placement;
use loom_spi::{Event, ExecutionId, LogHead, StoreErrorKind};
use serde::Serialize;

use super::walk::Listed;
use crate::commands::ls::state_name;
use crate::failure::Failure;
use crate::sides::{Look, Relation, Side, Stop, View, compare, read_log};

/// What is wrong, as scripts read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// A log has a gap, or goes on behind its end.
    Broken,
    /// It is where the plan does not permit it, and nowhere else.
    Misplaced,
    /// A second copy, which has nothing that the one that is served has not.
    SecondCopy,
    /// A second log, which differs from the one that is served.
    TwoLogs,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) kind: Kind,
    pub(super) execution: String,
    pub(super) shard: u16,
    /// The shard whose log is served, where it is on two.
    pub(super) served: Option<u16>,
    /// The first sequence at which two logs differ.
    pub(super) differs_at: Option<u64>,
    pub(super) problem: String,
    /// What to do about it.
    pub(super) advice: Option<String>,
}

/// What an audit of one execution says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Audited {
    /// How many events the copy that is served has; `None` when there is none any more.
    pub(super) events: Option<u64>,
    pub(super) findings: Vec<Finding>,
}

/// Checks an execution wherever it is.
///
/// Others may move it, and publish plans, at the same time. So nothing is believed to be wrong that was not seen twice,
/// with everything in between as it was; whenever it was not, others have got on, and it is looked at again.
pub(super) async fn check(
    deployment: &dyn Look,
    mut view: View,
    (id, listed): Listed,
) -> Result<Audited, Failure> {
    loop {
        match judged(&view, &id, &listed).await {
            Ok(Some(audited)) => return Ok(audited),
            Ok(None) => view = deployment.look().await?,
            Err(Stop::Changed) => view = deployment.look().await?,
            Err(Stop::Failed(failure)) => return Err(failure),
        }
    }
}

/// The verdict, unless something has changed while it was being made.
async fn judged(
    view: &View,
    id: &ExecutionId,
    listed: &BTreeSet<u16>,
) -> Result<Option<Audited>, Stop> {
    let placement = view.placement(id);
    let copies = collect(view, id, listed).await?;
    if let [copy] = &*copies
        && placement.names(copy.side.shard.into())
        && copy.problem.is_none()
    {
        return Ok(Some(Audited {
            events: Some(copy.events),
            findings: Vec::new(),
        }));
    }
    let Some(audited) = judge(view, id, &copies).await? else {
        return Ok(None);
    };
    let again = collect(view, id, listed).await?;
    let unchanged = copies
        .iter()
        .map(Found::key)
        .eq(again.iter().map(Found::key));
    Ok(unchanged.then_some(audited))
}

/// A log on a shard, read from its anchor to its end.
struct Found<'a> {
    side: &'a Side,
    /// `None` where nothing of it can be read.
    head: Option<LogHead>,
    events: u64,
    problem: Option<String>,
}

impl Found<'_> {
    fn sealed(&self) -> bool {
        self.head.is_some_and(|head| head.sealed)
    }

    /// What stays the same while others only append to it.
    fn key(&self) -> impl PartialEq {
        let created = self.head.map(|head| head.created_at);
        let broken = self.problem.is_some();
        (self.side.shard, self.sealed(), created, broken)
    }
}

/// Reads it on all shards that it may be on: those that listed it, and those that the plan names.
async fn collect<'a>(
    view: &'a View,
    id: &ExecutionId,
    listed: &BTreeSet<u16>,
) -> Result<Vec<Found<'a>>, Stop> {
    let placement = view.placement(id);
    let mut found = Vec::new();
    for side in view.sides.iter() {
        if listed.contains(&side.shard) || placement.names(side.shard.into()) {
            found.extend(whole(side, id).await?);
        }
    }
    Ok(found)
}

/// The findings; `None` when a copy is not there any more.
async fn judge(
    view: &View,
    id: &ExecutionId,
    copies: &[Found<'_>],
) -> Result<Option<Audited>, Stop> {
    let placement = view.placement(id);
    let permitted = |copy: &Found<'_>| placement.names(copy.side.shard.into());
    let turn = |copy: &&Found<'_>| view.turn(id, copy.side.shard, copy.sealed());
    let Some(served) = copies.iter().min_by_key(turn) else {
        return Ok(Some(Audited::default()));
    };
    let mut findings = Vec::new();
    for copy in copies {
        let shard = copy.side.shard;
        let mut finding = Finding {
            kind: Kind::Broken,
            execution: id.to_string(),
            shard,
            served: (copies.len() > 1).then_some(served.side.shard),
            differs_at: None,
            problem: String::new(),
            advice: None,
        };
        if let Some(problem) = &copy.problem {
            findings.push(Finding {
                problem: problem.clone(),
                ..finding.clone()
            });
        }
        if shard == served.side.shard {
            if !permitted(copy) {
                finding.kind = Kind::Misplaced;
                finding.problem = format!("the plan permits it on {} only", named(placement));
                finding.advice = Some(format!("`loom repair {shard}` moves it there"));
                findings.push(finding);
            }
            continue;
        }
        if copy.problem.is_some() || served.problem.is_some() {
            finding.kind = Kind::SecondCopy;
            finding.problem = format!(
                "it is on shard {} too, and the two cannot be compared, since one of them is broken",
                served.side.shard
            );
            findings.push(finding);
            continue;
        }
        let relation = compare(id, copy.side, served.side).await?;
        if relation == Relation::Gone {
            return Ok(None);
        }
        // A move that was cut off leaves one of them sealed, and whoever comes next finishes it.
        let moving =
            placement.is_migrating() && permitted(copy) && (copy.sealed() || served.sealed());
        findings.extend(finding.of_second(permitted(copy), moving, &relation));
    }
    Ok(Some(Audited {
        events: Some(served.events),
        findings,
    }))
}

impl Finding {
    /// Of a copy that is not the one that is served.
    fn of_second(mut self, permitted: bool, moving: bool, relation: &Relation) -> Option<Self> {
        let (shard, execution) = (self.shard, self.execution.clone());
        let served = self.served.unwrap_or(shard);
        let (differs_at, how) = match relation {
            Relation::Differ { at, .. } => (*at, format!("they differ from event {at} on")),
            Relation::Continues { at } => (
                *at,
                format!("it has an event {at}, and that one ends before"),
            ),
            _ if moving => return None,
            _ => {
                self.kind = Kind::SecondCopy;
                self.problem =
                    format!("it is on shard {served} too, which is served and has all of it");
                self.advice = Some(if permitted {
                    "`loom drain` removes it".to_owned()
                } else {
                    format!("`loom repair {shard}` removes it")
                });
                return Some(self);
            }
        };
        self.kind = Kind::TwoLogs;
        self.problem =
            format!("it is another log than the one on shard {served}, which is served: {how}");
        self.advice = Some(format!(
            "look at both with `loom log {execution} --shard {shard}` and `--shard {served}`, then decide with `loom resolve`"
        ));
        self.differs_at = Some(differs_at);
        Some(self)
    }
}

fn named(placement: Placement) -> String {
    match placement {
        Placement::Settled(shard) => format!("shard {shard}"),
        Placement::Migrating { from, to } => format!("shards {from} and {to}"),
    }
}

/// Reads a log from its anchor to its end; `None` when there is none.
async fn whole<'a>(side: &'a Side, id: &ExecutionId) -> Result<Option<Found<'a>>, Stop> {
    let mut next = 0;
    let mut last: Option<Event> = None;
    let mut known: Option<LogHead> = None;
    loop {
        let found = |head, events, problem| {
            Ok(Some(Found {
                side,
                head,
                events,
                problem,
            }))
        };
        let page = match read_log(side, id, next).await {
            Ok(Some(page)) => page,
            Ok(None) => return Ok(None),
            Err(error) => match error.kind() {
                StoreErrorKind::Corrupt { reason } => {
                    return found(known, next, Some(reason.clone()));
                }
                _ => return Err(error.into()),
            },
        };
        let (head, empty) = (page.head, page.events.is_empty());
        known = Some(head);
        for event in page.events {
            let closed = last.as_ref().is_some_and(|last| last.terminal);
            if event.sequence != next || closed {
                let problem = if closed {
                    format!("event {} stands behind the terminal event", event.sequence)
                } else {
                    format!("event {} stands where event {next} should", event.sequence)
                };
                return found(Some(head), next, Some(problem));
            }
            next += 1;
            last = Some(event);
        }
        let end = head.next_sequence;
        if next >= end {
            let terminal = last.as_ref().is_some_and(|last| last.terminal);
            let problem = (head.is_closed() != terminal).then(|| {
                format!(
                    "its head says that it is {}, its last event says otherwise",
                    state_name(head.state)
                )
            });
            return found(Some(head), next, problem);
        }
        if empty {
            let problem = format!("it has {end} events by its head, and none at {next}");
            return found(Some(head), next, Some(problem));
        }
    }
}
