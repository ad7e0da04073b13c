//! What the cases about moving records share.

use std::ops::Range;
use std::time::Duration;

use loom_spi::{
    AcquireFence, Branch, Children, Event, ExecutionId, ExecutionState, FenceToken, Import,
    Imported, Inspect, LogHead, Parent, ParentLink, PlanEpoch, RecordLineage, RecordSummary,
    Records, Retire, Seal, SealedRecord, Unseal,
};

use crate::context::Cx;
use crate::outcome::{Stop, check};
use crate::support::{id, place, stored};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// Everything of a record that has to move.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    pub(super) id: ExecutionId,
    pub(super) sealed: SealedRecord,
    pub(super) events: Vec<Event>,
    pub(super) epoch: Option<PlanEpoch>,
}

impl Packed {
    /// Seals a record and reads its log.
    pub(super) async fn of(cx: &Cx, id: &ExecutionId) -> Result<Self, Stop> {
        let sealed = seal(cx, id).await?;
        let events = match sealed.head {
            Some(_) => cx.log(id).await?,
            None => vec![],
        };
        Ok(Self {
            id: id.clone(),
            sealed,
            events,
            epoch: None,
        })
    }

    /// A record that nobody sealed: an open log of `count` events, or none, without a fence.
    pub(super) fn made(id: &ExecutionId, count: u64) -> Self {
        Self::of_events(id, stored(0, count))
    }

    /// A record with this log.
    pub(super) fn of_events(id: &ExecutionId, events: Vec<Event>) -> Self {
        Self {
            id: id.clone(),
            sealed: SealedRecord::new(head_of(&events), None, vec![]),
            events,
            epoch: None,
        }
    }

    pub(super) fn with_fence(mut self, token: u64, holder: Option<&str>) -> Self {
        self.sealed.fence = Some(FenceToken(token));
        self.sealed.holder = holder.map(str::to_owned);
        self
    }

    pub(super) fn with_branches(mut self, names: &[&str]) -> Result<Self, Stop> {
        self.sealed.branches = branches(names)?;
        Ok(self)
    }

    /// A part of the log.
    pub(super) fn part(&self, range: Range<usize>) -> Import {
        let events = self.events.get(range).unwrap_or_default().to_vec();
        Import::new(self.id.clone(), self.sealed.clone(), events).with_epoch(self.epoch)
    }

    /// All of it at once.
    pub(super) fn whole(&self) -> Import {
        self.part(0..self.events.len())
    }

    /// Imports it in parts of `size` events, going on where the answers say.
    pub(super) async fn send(&self, to: &Cx, size: usize) -> Result<Imported, Stop> {
        let mut from = 0_usize;
        loop {
            let until = from.saturating_add(size).min(self.events.len());
            let answer = to.relocation()?.import(self.part(from..until)).await?;
            let Imported::Staged { next_sequence } = answer else {
                return Ok(answer);
            };
            let next = usize::try_from(next_sequence).unwrap_or(usize::MAX);
            check!(
                next > from && next < self.events.len(),
                "the part from {from} to {until} of {} events is to be followed by {next}",
                self.events.len()
            );
            from = next;
        }
    }
}

/// The sealed head of a log.
pub(super) fn head_of(events: &[Event]) -> Option<LogHead> {
    let (first, last) = (events.first()?, events.last()?);
    let state = match last.terminal {
        true => ExecutionState::Closed,
        false => ExecutionState::Open,
    };
    let length = events.len() as u64;
    let head = LogHead::new(length, state, first.recorded_at, last.recorded_at);
    Some(head.with_sealed(true))
}

/// Edges to children of these names, with the names as labels.
pub(super) fn branches(names: &[&str]) -> Result<Vec<Branch>, Stop> {
    let edge = |name: &&str| Ok(Branch::new(id(name)?, *name));
    names.iter().map(edge).collect()
}

pub(super) async fn seal(cx: &Cx, id: &ExecutionId) -> Result<SealedRecord, Stop> {
    Ok(cx.relocation()?.seal(Seal::new(id.clone())).await?)
}

pub(super) async fn unseal(cx: &Cx, id: &ExecutionId) -> Result<(), Stop> {
    Ok(cx.relocation()?.unseal(Unseal::new(id.clone())).await?)
}

pub(super) async fn retire(cx: &Cx, id: &ExecutionId) -> Result<(), Stop> {
    Ok(cx.relocation()?.retire(Retire::new(id.clone())).await?)
}

pub(super) async fn inspect(cx: &Cx, id: &ExecutionId) -> Result<Option<RecordSummary>, Stop> {
    Ok(cx.relocation()?.inspect(Inspect::new(id.clone())).await?)
}

/// Takes the fence in the name of `holder`, with a lease.
pub(super) async fn acquire(cx: &Cx, id: &ExecutionId, holder: &str) -> Result<FenceToken, Stop> {
    let request = AcquireFence::new(id.clone()).with_holder(holder.to_owned());
    let token = cx.fencing()?.acquire_fence(request.with_lease(MINUTE));
    Ok(token.await?)
}

/// Records edges to children of these names, with the names as labels.
pub(super) async fn record(cx: &Cx, parent: &ExecutionId, names: &[&str]) -> Result<(), Stop> {
    for name in names {
        let edge = RecordLineage::new(parent.clone(), id(name)?, (*name).to_owned());
        cx.branches()?.record_lineage(edge).await?;
    }
    Ok(())
}

pub(super) async fn children(cx: &Cx, parent: &ExecutionId) -> Result<Vec<Branch>, Stop> {
    let request = Children::new(parent.clone());
    Ok(cx.branches()?.children(request).await?)
}

pub(super) async fn parent(cx: &Cx, child: &ExecutionId) -> Result<Option<ParentLink>, Stop> {
    Ok(cx.branches()?.parent(Parent::new(child.clone())).await?)
}

/// Everything that can be seen of a record, but for its seal.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    summary: Option<RecordSummary>,
    head: Option<LogHead>,
    log: Vec<Event>,
    branches: Vec<Branch>,
    parents: Vec<Option<ParentLink>>,
}

pub(super) async fn seen(cx: &Cx, id: &ExecutionId) -> Result<Seen, Stop> {
    let unsealed = |head: LogHead| head.with_sealed(false);
    let summary = inspect(cx, id).await?.map(|mut summary| {
        (summary.head, summary.sealed) = (summary.head.map(unsealed), false);
        summary
    });
    let head = cx.head(id).await?.map(unsealed);
    let log = match head {
        Some(_) => cx.log(id).await?,
        None => vec![],
    };
    let mut seen = Seen {
        summary,
        head,
        log,
        branches: vec![],
        parents: vec![],
    };
    if cx.branches().is_ok() {
        seen.branches = children(cx, id).await?;
        for branch in &seen.branches {
            seen.parents.push(parent(cx, &branch.child).await?);
        }
    }
    Ok(seen)
}

/// Lists records in pages of `request.limit`, checking the order and the size of each.
pub(super) async fn records(cx: &Cx, mut request: Records) -> Result<Vec<RecordSummary>, Stop> {
    let mut all: Vec<RecordSummary> = Vec::new();
    // Pages may be short or empty, but a listing has to get on.
    for _ in 0..20_000 {
        let page = cx.relocation()?.records(request.clone()).await?;
        check!(
            page.records.len() <= request.limit,
            "a page of at most {} records has {}",
            request.limit,
            page.records.len()
        );
        for summary in page.records {
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
