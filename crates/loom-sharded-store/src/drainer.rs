//! Moving everything that may move.

mod options;
mod share;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use loom_shard_plan::ShardId;
use loom_spi::{
    ExecutionId, List, ListCursor, PlanEpoch, RecordSummary, Records, RouteFilter, StoreError,
    StoreErrorKind,
};
use tokio::sync::Semaphore;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tracing::Instrument as _;

use crate::core::{Core, restarting};
use crate::drain::sides_of;
use crate::shard::Side;
use crate::{MigrateError, Migrated, PlanChangeError, ShardedStore};
pub use options::{DrainOptions, Drained};
use share::{Bursts, Turn};
pub use share::{InvalidShare, Share};

/// Records that are looked at together.
const PAGE: usize = 256;

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
    /// With a [rate](DrainOptions::rate) or a [share](DrainOptions::share), outside of a tokio runtime whose time is enabled.
    pub async fn drain(
        &self,
        options: &DrainOptions,
        progress: impl FnMut(&Drained) + Send,
    ) -> Result<Drained, PlanChangeError> {
        let drained = self.drain_all(options, progress);
        drained.instrument(tracing::info_span!("loom.drain")).await
    }

    async fn drain_all(
        &self,
        options: &DrainOptions,
        progress: impl FnMut(&Drained) + Send,
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
        let work = Work {
            core: &self.core,
            options,
            pace: options.rate.map(pace),
            bursts: options
                .share
                .map(|share| Bursts::new(share, options.at_once.get())),
            moves: Semaphore::new(options.at_once.get().min(Semaphore::MAX_PERMITS)),
            state: Mutex::new(State {
                report: Drained::default(),
                silent: BTreeSet::new(),
                progress,
            }),
        };
        // Buckets hold a few executions each, so that it takes many of them to have enough moves under way.
        stream::iter(buckets)
            .map(|migrating| work.drain(migrating))
            .buffer_unordered(options.at_once.get())
            .for_each(|()| std::future::ready(()))
            .await;
        let mut report = work.into_report();
        if options.settle {
            report.settled = Some(self.settle_drained().await?);
        }
        Ok(report)
    }
}

/// One drain at work.
struct Work<'a, P> {
    core: &'a Core,
    options: &'a DrainOptions,
    pace: Option<tokio::sync::Mutex<Interval>>,
    bursts: Option<Bursts>,
    /// As many as there may be moves at a time.
    moves: Semaphore,
    /// Never locked while anything is waited for.
    state: Mutex<State<P>>,
}

struct State<P> {
    report: Drained,
    /// Shards that could not be reached.
    silent: BTreeSet<ShardId>,
    progress: P,
}

impl<P: FnMut(&Drained) + Send> Work<'_, P> {
    fn state(&self) -> MutexGuard<'_, State<P>> {
        // What is in there is whole at any time.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn into_report(self) -> Drained {
        self.state
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .report
    }

    fn tell(&self) {
        let State {
            report, progress, ..
        } = &mut *self.state();
        progress(report);
    }

    async fn drain(&self, migrating: Migrating) {
        let silent = |state: &State<P>| {
            let mut shards = migrating.shards.iter();
            shards.any(|shard| state.silent.contains(shard))
        };
        let skip = {
            let mut state = self.state();
            let skip = silent(&state);
            state.report.failed_buckets += u64::from(skip);
            skip
        };
        if skip {
            return;
        }
        let drained = self.drain_bucket(migrating.bucket).await;
        {
            let mut state = self.state();
            state.report.buckets_seen += 1;
            if let Err(error) = drained {
                // What other buckets have met already is not named again.
                let known = silent(&state);
                state.silent.extend(error.shard().map(ShardId));
                state.report.failed_buckets += 1;
                if !known {
                    state.report.name(None, error.to_string());
                }
            }
        }
        self.tell();
    }

    async fn drain_bucket(&self, bucket: u32) -> Result<(), StoreError> {
        let mut cursor = None;
        loop {
            let turn = self.turn().await;
            let page: Result<Page, StoreError> =
                restarting!(self.core, |routing| match sides_of(&routing, bucket) {
                    Err(error) => Err(error),
                    Ok((_, None)) => Ok(Page::default()),
                    Ok((filter, Some(sides))) => {
                        let page = sides.source.page_to_drain(filter, cursor.clone()).await;
                        page.map(|page| page.under(routing.epoch()))
                    }
                });
            drop(turn);
            let page = page?;
            let (movable, live): (Vec<_>, Vec<_>) = page
                .records
                .into_iter()
                .partition(|record| self.options.live || !record.live);
            self.state().report.live += live.len() as u64;
            let mut moves = stream::iter(movable)
                .map(|record| self.migrate(record, page.epoch))
                .buffer_unordered(self.options.at_once.get());
            let mut failure = None;
            while let Some((id, moved)) = moves.next().await {
                let report = &mut self.state().report;
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
            self.tell();
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Waits for time that is not everybody else's.
    async fn turn(&self) -> Option<Turn<'_>> {
        match &self.bursts {
            Some(bursts) => Some(bursts.turn().await),
            None => None,
        }
    }

    async fn migrate(
        &self,
        record: ToDrain,
        epoch: Option<PlanEpoch>,
    ) -> (ExecutionId, Result<Migrated, MigrateError>) {
        // Never closed.
        let _permit = self.moves.acquire().await.ok();
        if let Some(pace) = &self.pace {
            pace.lock().await.tick().await;
        }
        let _turn = self.turn().await;
        let seen = record.summary.map(|summary| (epoch, summary));
        let moved = self.core.migrate_seen(&record.id, seen).await;
        (record.id, moved)
    }
}

struct Migrating {
    bucket: u32,
    shards: [ShardId; 2],
}

#[derive(Default)]
struct Page {
    /// The plan under which it was read.
    epoch: Option<PlanEpoch>,
    records: Vec<ToDrain>,
    next: Option<ListCursor>,
}

impl Page {
    fn under(mut self, epoch: Option<PlanEpoch>) -> Self {
        self.epoch = epoch;
        self
    }
}

struct ToDrain {
    id: ExecutionId,
    /// The whole record, where it can be looked at.
    summary: Option<RecordSummary>,
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
                summary: None,
            });
            return Ok(Page {
                epoch: None,
                records: records.collect(),
                next: page.next,
            });
        }
        let request = Records::new(PAGE).with_route(filter).with_cursor(cursor);
        let page = self.records(request).await?;
        let records = page.records.into_iter().map(|record| ToDrain {
            // What is sealed is on its way already.
            live: !record.sealed && record.head.is_some_and(open),
            id: record.id.clone(),
            summary: Some(record),
        });
        Ok(Page {
            epoch: None,
            records: records.collect(),
            next: page.next,
        })
    }
}

fn pace(rate: NonZeroU32) -> tokio::sync::Mutex<Interval> {
    let mut interval = interval(Duration::from_secs(1) / rate.get());
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tokio::sync::Mutex::new(interval)
}
