//! Moving everything that may move.

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use loom_shard_plan::ShardId;
use loom_spi::{ExecutionId, List, ListCursor, Records, RouteFilter, StoreError, StoreErrorKind};
use tokio::sync::Mutex;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::core::restarting;
use crate::drain::sides_of;
use crate::shard::Side;
use crate::{MigrateError, Migrated, PlanChangeError, Settled, ShardedStore};

/// Records that are looked at together.
const PAGE: usize = 256;
/// How many stuck executions and failures a report names.
const NAMED: usize = 100;

impl ShardedStore {
    /// Looks once at everything that the sources of migrating buckets hold, moves what may move, and settles
    /// the buckets that are empty then, all of them in one epoch.
    ///
    /// Closed executions and records without a log are moved always, live executions if
    /// [asked](DrainOptions::live); where shards cannot seal records, live ones are refused and left. One
    /// execution that cannot be moved holds up no other, and a shard that cannot be reached only the buckets
    /// that it has to do with. All there is to know is in the shards: an interrupted drain is resumed by another
    /// one, and several may run at once.
    ///
    /// `progress` is told after every page of records.
    ///
    /// # Errors
    /// [`PlanChangeError`] when the plan cannot be read or the drained buckets cannot be settled. What was
    /// moved stays moved. Failures of single moves are in the report.
    ///
    /// # Cancel safety
    /// Dropping the call is like a crash between two moves, or in the middle of some: nothing is lost, and the
    /// next drain goes on.
    ///
    /// # Panics
    /// With a [rate](DrainOptions::rate), outside of a tokio runtime whose time is enabled.
    pub async fn drain(
        &self,
        options: &DrainOptions,
        mut progress: impl FnMut(&Drained) + Send,
    ) -> Result<Drained, PlanChangeError> {
        self.refresh().await?;
        let plan = self.plan().ok_or(PlanChangeError::Unplanned)?;
        let mut buckets: Vec<Migrating> = plan
            .migrating()
            .map(|migration| Migrating {
                bucket: migration.bucket,
                shards: [migration.from, migration.to],
            })
            .collect();
        // Sources take turns, so that none is drained alone while the others wait.
        let mut turn: BTreeMap<ShardId, usize> = BTreeMap::new();
        buckets.sort_by_cached_key(|migrating| {
            let turn = turn.entry(migrating.shards[0]).or_default();
            *turn += 1;
            *turn
        });
        let pace = options.rate.map(pace);
        let mut report = Drained::default();
        let mut silent: BTreeSet<ShardId> = BTreeSet::new();
        for (place, migrating) in (1..).zip(&buckets) {
            if migrating.shards.iter().any(|shard| silent.contains(shard)) {
                report.failed_buckets += 1;
                continue;
            }
            let drained = self
                .drain_bucket(
                    migrating.bucket,
                    options,
                    pace.as_ref(),
                    &mut report,
                    &mut progress,
                )
                .await;
            report.buckets_seen = place;
            if let Err(error) = drained {
                silent.extend(error.shard().map(ShardId));
                report.failed_buckets += 1;
                report.name(None, error.to_string());
            }
            progress(&report);
        }
        if options.settle {
            report.settled = Some(self.settle_drained().await?);
        }
        Ok(report)
    }

    async fn drain_bucket(
        &self,
        bucket: u32,
        options: &DrainOptions,
        pace: Option<&Mutex<Interval>>,
        report: &mut Drained,
        progress: &mut (impl FnMut(&Drained) + Send),
    ) -> Result<(), StoreError> {
        let mut cursor = None;
        loop {
            let page: Result<Page, StoreError> =
                restarting!(self.core, |routing| match sides_of(&routing, bucket) {
                    Err(error) => Err(error),
                    Ok((_, None)) => Ok(Page::default()),
                    Ok((filter, Some(sides))) => {
                        sides.source.page_to_drain(filter, cursor.clone()).await
                    }
                });
            let page = page?;
            let (movable, live): (Vec<_>, Vec<_>) = page
                .records
                .into_iter()
                .partition(|record| options.live || !record.live);
            report.live += live.len() as u64;
            let mut moves = stream::iter(movable)
                .map(|record| async move {
                    if let Some(pace) = pace {
                        pace.lock().await.tick().await;
                    }
                    let moved = self.migrate_execution(&record.id).await;
                    (record.id, moved)
                })
                .buffer_unordered(options.at_once.get());
            let mut failure = None;
            while let Some((id, moved)) = moves.next().await {
                match moved {
                    Ok(Migrated::Moved { .. }) => report.moved += 1,
                    Ok(_) => {}
                    Err(MigrateError::Store(error)) => match error.kind() {
                        StoreErrorKind::NotFound => {}
                        StoreErrorKind::Unavailable { .. } => failure = Some(error),
                        _ => report.stick(id, error.to_string()),
                    },
                    Err(error) => report.stick(id, error.to_string()),
                }
            }
            if let Some(error) = failure {
                return Err(error);
            }
            progress(report);
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(()),
            }
        }
    }
}

/// How a [drain](ShardedStore::drain) goes about its work.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DrainOptions {
    /// Whether live executions are moved too. Default no: they drain when they close.
    pub live: bool,
    /// The most moves begun in a second, so that callers are not held up. Default no bound.
    pub rate: Option<NonZeroU32>,
    /// How many moves are under way at a time. Default 64. Together with a rate this bounds what a drain costs
    /// everybody else: a move is three writes and takes about as long as they do.
    pub at_once: NonZeroUsize,
    /// Whether the buckets that are empty afterwards are settled. Default yes.
    pub settle: bool,
}

impl Default for DrainOptions {
    fn default() -> Self {
        Self {
            live: false,
            rate: None,
            at_once: NonZeroUsize::MIN.saturating_add(63),
            settle: true,
        }
    }
}

impl DrainOptions {
    /// Closed executions only, as fast as it goes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`live`](Self::live).
    #[must_use]
    pub fn with_live(mut self, live: bool) -> Self {
        self.live = live;
        self
    }

    /// Sets [`rate`](Self::rate).
    #[must_use]
    pub fn with_rate(mut self, rate: impl Into<Option<NonZeroU32>>) -> Self {
        self.rate = rate.into();
        self
    }

    /// Sets [`at_once`](Self::at_once).
    #[must_use]
    pub fn with_at_once(mut self, at_once: NonZeroUsize) -> Self {
        self.at_once = at_once;
        self
    }

    /// Sets [`settle`](Self::settle).
    #[must_use]
    pub fn with_settle(mut self, settle: bool) -> Self {
        self.settle = settle;
        self
    }
}

/// What a [drain](ShardedStore::drain) has done so far.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Drained {
    /// Executions, and records without a log, that were moved.
    pub moved: u64,
    /// Live executions that were left, because they were not asked for.
    pub live: u64,
    /// Executions that could not be moved.
    pub stuck: u64,
    /// Migrating buckets that were looked at.
    pub buckets_seen: u64,
    /// Migrating buckets that were left because a shard could not be reached.
    pub failed_buckets: u64,
    /// The first hundred of what stuck, and of the failures: which execution, if it is about one, and why.
    pub reasons: Vec<(Option<ExecutionId>, String)>,
    /// What was settled afterwards; `None` before, and when it was not asked for.
    pub settled: Option<Settled>,
}

impl Drained {
    fn stick(&mut self, id: ExecutionId, reason: String) {
        self.stuck += 1;
        self.name(Some(id), reason);
    }

    fn name(&mut self, id: Option<ExecutionId>, reason: String) {
        if self.reasons.len() < NAMED {
            self.reasons.push((id, reason));
        }
    }
}

struct Migrating {
    bucket: u32,
    shards: [ShardId; 2],
}

#[derive(Default)]
struct Page {
    records: Vec<ToDrain>,
    next: Option<ListCursor>,
}

struct ToDrain {
    id: ExecutionId,
    /// Whether it has a log that is not closed.
    live: bool,
}

impl Side<'_> {
    async fn page_to_drain(
        self,
        filter: RouteFilter,
        cursor: Option<ListCursor>,
    ) -> Result<Page, StoreError> {
        let open = |head: loom_spi::LogHead| !head.is_closed();
        if self.store().capabilities().relocation.is_none() {
            let request = List::new(PAGE).with_route(filter).with_cursor(cursor);
            let page = self.list(request).await?;
            let records = page.executions.into_iter().map(|execution| ToDrain {
                live: open(execution.head),
                id: execution.id,
            });
            return Ok(Page {
                records: records.collect(),
                next: page.next,
            });
        }
        let request = Records::new(PAGE).with_route(filter).with_cursor(cursor);
        let page = self.records(request).await?;
        let records = page.records.into_iter().map(|record| ToDrain {
            // What is sealed is on its way already.
            live: !record.sealed && record.head.is_some_and(open),
            id: record.id,
        });
        Ok(Page {
            records: records.collect(),
            next: page.next,
        })
    }
}

fn pace(rate: NonZeroU32) -> Mutex<Interval> {
    let mut interval = interval(Duration::from_secs(1) / rate.get());
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    Mutex::new(interval)
}
