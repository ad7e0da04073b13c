//! `loom retain`.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt as _;
use jiff::Timestamp as Moment;
use loom_spi::{
    Children, Delete, EventStore as _, EventStoreExt as _, ExecutionId, ExecutionState, Forget,
    Head, List, LogHead, Parent, StoreErrorKind, Timestamp,
};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::args::Retain;
use crate::backend::Backend;
use crate::deployment::Deployment;
use crate::failure::Failure;
use crate::output::{Output, Tone, count, counted, moment};
use crate::progress::Progress;

/// Executions that are listed at a time.
const PAGE: usize = 512;
/// Families that are looked at and removed at a time.
const AT_ONCE: usize = 8;
/// Pages that a shard gives back at a time: what a write may wait for.
const PAGES: u32 = 16;
/// How many times as long as a removal or a step took to rest after it, so that others get most of the time.
const REST: u32 = 3;

#[derive(Clone, Default, Serialize)]
struct Report {
    /// Executions that were closed at this time or earlier.
    before: String,
    /// Removed.
    executions: u64,
    /// Of these.
    events: u64,
    /// Executions that are as old, and belong to one that is open or closed later.
    kept: u64,
    released_bytes: u64,
    dry_run: bool,
}

struct Retention<'a> {
    deployment: &'a Deployment,
    before: Timestamp,
    dry_run: bool,
    pace: Option<Mutex<Interval>>,
    report: Mutex<Report>,
    progress: Progress,
}

pub(super) async fn run(
    args: &Retain,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    let ago = i64::try_from(args.closed_for.as_millis()).unwrap_or(i64::MAX);
    let before = Timestamp::from_millis(Moment::now().as_millisecond().saturating_sub(ago));
    let retention = Retention {
        deployment,
        before,
        dry_run: args.dry_run,
        pace: args.rate.map(|rate| Mutex::new(pace(rate.get()))),
        report: Mutex::new(Report {
            before: moment(before),
            dry_run: args.dry_run,
            ..Report::default()
        }),
        progress: Progress::new(args.progress, "retain", None),
    };
    let closed = List::new(PAGE).with_state(Some(ExecutionState::Closed));
    deployment
        .store
        .list_all(closed)
        .map_err(Failure::from)
        .try_for_each_concurrent(AT_ONCE, |listed| retention.consider(listed.id, listed.head))
        .await?;
    if !args.dry_run {
        for (shard, store) in deployment.shards().await {
            retention.release(shard, &store).await?;
        }
    }
    retention.progress.finish();
    let report = retention.report.lock().await.clone();
    output.print(&report, |output| report.text(output))
}

fn pace(rate: u32) -> Interval {
    let mut pace = interval(Duration::from_secs(1) / rate);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pace
}

/// An execution of a family that may go.
struct Member {
    id: ExecutionId,
    /// `None` when only its lineage is left.
    head: Option<LogHead>,
    has_branches: bool,
}

impl Retention<'_> {
    async fn consider(&self, id: ExecutionId, head: LogHead) -> Result<(), Failure> {
        if !self.is_old(&head) {
            return Ok(());
        }
        let root = self.root(&id).await?;
        if root != id {
            // It goes with its root, or stays with it.
            let head = self.head(&root).await?;
            if head.is_some_and(|head| !self.is_old(&head)) {
                self.report.lock().await.kept += 1;
            }
            return Ok(());
        }
        let (family, whole) = self.family(id).await?;
        if !whole {
            let old = family.iter().filter(|member| {
                let head = member.head.as_ref();
                head.is_some_and(|head| self.is_old(head))
            });
            self.report.lock().await.kept += old.count() as u64;
            return Ok(());
        }
        // Branches first: what is interrupted here is found again by its root.
        for member in family.iter().rev() {
            self.remove(member).await?;
        }
        Ok(())
    }

    fn is_old(&self, head: &LogHead) -> bool {
        head.is_closed() && head.updated_at <= self.before
    }

    async fn head(&self, id: &ExecutionId) -> Result<Option<LogHead>, Failure> {
        Ok(self.deployment.store.head(Head::new(id.clone())).await?)
    }

    /// The execution from which all others of the family branched off, as far as they have logs.
    async fn root(&self, id: &ExecutionId) -> Result<ExecutionId, Failure> {
        let mut root = id.clone();
        let Some(registry) = self.deployment.store.capabilities().branches else {
            return Ok(root);
        };
        let mut seen = HashSet::from([root.clone()]);
        while let Some(link) = registry.parent(Parent::new(root.clone())).await? {
            // Nobody keeps an execution from being its own ancestor.
            if self.head(&link.parent).await?.is_none() || !seen.insert(link.parent.clone()) {
                break;
            }
            root = link.parent;
        }
        Ok(root)
    }

    /// An execution with all that branched off from it, each after its parent, and whether all of them are old.
    async fn family(&self, root: ExecutionId) -> Result<(Vec<Member>, bool), Failure> {
        let registry = self.deployment.store.capabilities().branches;
        let mut seen = HashSet::from([root.clone()]);
        let mut family: Vec<Member> = Vec::new();
        let mut next = vec![root];
        let mut whole = true;
        while let Some(id) = next.pop() {
            let head = self.head(&id).await?;
            whole &= head.as_ref().is_none_or(|head| self.is_old(head));
            let mut has_branches = false;
            if let Some(registry) = registry {
                for branch in registry.children(Children::new(id.clone())).await? {
                    has_branches = true;
                    if seen.insert(branch.child.clone()) {
                        next.push(branch.child);
                    }
                }
            }
            family.push(Member {
                id,
                head,
                has_branches,
            });
        }
        Ok((family, whole))
    }

    async fn remove(&self, member: &Member) -> Result<(), Failure> {
        let mut removed = (0, 0);
        let store = &self.deployment.store;
        if self.dry_run {
            removed = member
                .head
                .as_ref()
                .map_or((0, 0), |head| (1, head.next_sequence));
        } else {
            if let Some(pace) = &self.pace {
                pace.lock().await.tick().await;
            }
            let started = Instant::now();
            if member.has_branches
                && let Some(registry) = store.capabilities().branches
            {
                registry.forget(Forget::new(member.id.clone())).await?;
            }
            if let Some(head) = &member.head {
                let delete = Delete::new(member.id.clone()).with_expected(head.next_sequence);
                match store.delete(delete).await {
                    Ok(deleted) => removed = (1, deleted.events),
                    // Somebody else removed it.
                    Err(error) if matches!(error.kind(), StoreErrorKind::NotFound) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            tokio::time::sleep(started.elapsed() * REST).await;
        }
        let mut report = self.report.lock().await;
        report.executions += removed.0;
        report.events += removed.1;
        let executions = report.executions;
        drop(report);
        self.progress.at(
            executions,
            format_args!(
                "{} removed, {:.0}/s",
                count(executions),
                self.progress.rate(executions)
            ),
        );
        Ok(())
    }

    /// Gives the space of a shard back, and rests after each step.
    async fn release(&self, shard: u16, store: &Backend) -> Result<(), Failure> {
        loop {
            let started = Instant::now();
            // A server gives space back by itself.
            let Backend::Sqlite(store) = store else {
                return Ok(());
            };
            let space = store.release_space(PAGES).await?;
            let mut report = self.report.lock().await;
            report.released_bytes += space.released * space.page_size;
            let executions = report.executions;
            drop(report);
            self.progress.at(
                executions,
                format_args!(
                    "giving back {} of shard {shard}",
                    counted(space.free, "page")
                ),
            );
            if !space.reclaiming && (space.free == 0 || space.released == 0) {
                return Ok(());
            }
            tokio::time::sleep(started.elapsed() * REST).await;
        }
    }
}

impl Report {
    fn text(&self, output: Output) -> String {
        let what = format!(
            "{} with {}, closed since {} or longer",
            counted(self.executions, "execution"),
            counted(self.events, "event"),
            self.before
        );
        let mut text = if self.dry_run {
            format!("would remove {what}\n")
        } else {
            format!(
                "{} {what}; {} bytes given back\n",
                output.paint(Tone::Good, "removed"),
                count(self.released_bytes)
            )
        };
        if self.kept > 0 {
            text.push_str(&format!(
                "kept {} as old: what they branched off from, or what branched off from them, is open or closed later\n",
                counted(self.kept, "execution")
            ));
        }
        if self.dry_run {
            text.push_str("nothing was changed: this was a dry run\n");
        }
        text
    }
}
