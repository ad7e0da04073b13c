use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use loom_shard_plan::{RebalanceOptions, ShardPlan};
use loom_sharded_store::{DrainOptions, ShardedStore};
use loom_spi::{
    Append, Appended, Capabilities, Delete, Deleted, DeploymentId, EventStore, EventStoreExt as _,
    ExecutionId, Head, List, ListPage, LogHead, NewEvent, Read, ReadPage, Relocation as _, Seal,
    StoreError, Timestamp,
};
use loom_store_memory::MemoryStore;
use tokio::sync::Mutex;

use super::check::Kind;
use super::*;
use crate::deployment::ledger_epoch;
use crate::sides::{Side, View};

const SHARDS: u16 = 4;
const EXECUTIONS: u64 = 24;

/// What another process does to the deployment.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    /// Publishes a plan with one more shard.
    Grow,
    /// Turns every migrating bucket round.
    Revert,
    /// Moves everything that is on a source, and settles nothing.
    Move,
    /// Settles what is drained.
    Settle,
}

/// Changes of another process, each before a request of the audit.
struct Script {
    other: ShardedStore,
    state: Mutex<(usize, VecDeque<(usize, Change)>)>,
}

impl Script {
    /// Counts a request, and makes the changes that come before it, one after the other.
    async fn step(&self) {
        let mut state = self.state.lock().await;
        let (requests, changes) = &mut *state;
        while let Some((_, change)) = changes.pop_front_if(|(at, _)| *at <= *requests) {
            apply(&self.other, change).await;
        }
        *requests += 1;
    }

    async fn left(&self) -> usize {
        self.state.lock().await.1.len()
    }
}

async fn apply(other: &ShardedStore, change: Change) {
    let plan = other.plan().unwrap();
    match change {
        Change::Grow => {
            let active = plan.shards().iter().filter(|shard| shard.is_active());
            let shards = u16::try_from(active.count()).unwrap() + 1;
            let next = plan
                .rebalanced(shards, RebalanceOptions::default())
                .unwrap();
            other.publish(next).await.unwrap();
        }
        Change::Revert => {
            let buckets = plan.migrating().map(|one| one.bucket);
            let next = plan.reverted_all(buckets).unwrap();
            other.publish(next).await.unwrap();
        }
        Change::Move => {
            let options = DrainOptions::new().with_live(true).with_settle(false);
            other.drain(&options, |_| {}).await.unwrap();
        }
        Change::Settle => drop(other.settle_drained().await.unwrap()),
    }
}

/// A shard that the other process gets in the way of.
struct Interleaved {
    inner: Arc<MemoryStore>,
    script: Arc<Script>,
}

impl fmt::Debug for Interleaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl EventStore for Interleaved {
    async fn append(&self, request: Append) -> Result<Appended, StoreError> {
        self.inner.append(request).await
    }

    async fn read(&self, request: Read) -> Result<ReadPage, StoreError> {
        self.script.step().await;
        self.inner.read(request).await
    }

    async fn head(&self, request: Head) -> Result<Option<LogHead>, StoreError> {
        self.script.step().await;
        self.inner.head(request).await
    }

    async fn list(&self, request: List) -> Result<ListPage, StoreError> {
        self.script.step().await;
        self.inner.list(request).await
    }

    async fn delete(&self, request: Delete) -> Result<Deleted, StoreError> {
        self.inner.delete(request).await
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.inner.capabilities()
    }
}

struct World {
    stores: Vec<Arc<MemoryStore>>,
    script: Arc<Script>,
}

impl World {
    /// Two shards that are used and two that will join, with executions of 1 to 5 events.
    async fn new(changes: &[(usize, Change)]) -> Self {
        let stores: Vec<_> = (0..SHARDS).map(|_| Arc::new(MemoryStore::new())).collect();
        let shards = stores
            .iter()
            .map(|it| Arc::clone(it) as Arc<dyn EventStore>);
        let other = ShardedStore::builder()
            .shards(shards)
            .deployment(DeploymentId::generate())
            .plan(ShardPlan::with_buckets(2, 16).unwrap())
            .create()
            .await
            .unwrap();
        for n in 0..EXECUTIONS {
            let events = (0..=n % 5).map(|k| event(&format!("step {k}")));
            let append = Append::new(id(n), 0, events.collect());
            other.append(append).await.unwrap();
        }
        let state = Mutex::new((0, changes.iter().copied().collect()));
        let script = Arc::new(Script { other, state });
        Self { stores, script }
    }

    /// Puts a log on a shard behind everybody's back.
    async fn seed(&self, shard: u16, id: &ExecutionId, kinds: &[&str]) {
        let store = &self.stores[usize::from(shard)];
        let epoch = ledger_epoch(&**store).await.unwrap();
        let events = kinds.iter().map(|kind| event(kind));
        let append = Append::new(id.clone(), 0, events.collect()).with_epoch(epoch);
        store.append(append).await.unwrap();
    }
}

#[async_trait]
impl Look for World {
    async fn look(&self) -> Result<View, Failure> {
        let other = &self.script.other;
        let mut sides = Vec::new();
        for (shard, store) in (0..).zip(&self.stores) {
            sides.push(Side {
                shard,
                epoch: ledger_epoch(&**store).await?,
                store: Arc::new(Interleaved {
                    inner: Arc::clone(store),
                    script: Arc::clone(&self.script),
                }),
            });
        }
        let (plan, sides) = (other.plan().unwrap(), sides.into());
        Ok(View { plan, sides })
    }
}

/// Always at the same time.
fn event(kind: &str) -> NewEvent {
    NewEvent::new(kind, "{}").recorded_at(Timestamp::from_millis(7))
}

fn id(n: u64) -> ExecutionId {
    ExecutionId::new(format!("order-{n}")).unwrap()
}

/// Audits with `changes` before the request `first` and each `apart` requests later, for every `first` until the audit
/// is over before they begin.
async fn at_every_request(
    changes: &[Change],
    apart: usize,
    prepare: impl AsyncFn(&World),
    judge: impl Fn(&Report),
) {
    for first in 0.. {
        let at = changes.iter().enumerate();
        let at: Vec<_> = at.map(|(n, change)| (first + n * apart, *change)).collect();
        let world = World::new(&at).await;
        prepare(&world).await;
        let report = audit(&world, 4).await.unwrap();
        judge(&report);
        let epoch = world.script.other.epoch().unwrap().epoch;
        assert_eq!(report.epoch, epoch, "{at:?}");
        if world.script.left().await == changes.len() {
            assert!(
                first > 30 || changes.is_empty(),
                "hardly anything was looked at"
            );
            return;
        }
    }
}

fn sound(report: &Report) {
    assert_eq!(report.findings, []);
    let events: u64 = (0..EXECUTIONS).map(|n| n % 5 + 1).sum();
    assert_eq!((report.executions, report.events), (EXECUTIONS, events));
}

#[tokio::test]
async fn plans_and_moves_of_another_process_at_any_moment_are_no_violation() {
    use Change::{Grow, Move, Revert, Settle};
    for changes in [
        &[Grow, Move, Settle][..],
        &[Grow, Move, Revert, Move, Settle],
        &[Grow, Move, Settle, Grow, Move, Settle],
        &[Grow, Revert, Move, Revert, Move],
    ] {
        for apart in [0, 1, 2, 5, 13] {
            at_every_request(changes, apart, async |_| {}, sound).await;
        }
    }
}

#[tokio::test]
async fn two_logs_that_differ_are_found_whatever_is_published_meanwhile() {
    use Change::{Move, Revert};
    // Shard 2 joins, and the bucket of this one moves there.
    let disputed = async |world: &World| {
        apply(&world.script.other, Change::Grow).await;
        let plan = world.script.other.plan().unwrap();
        let moving = (0..EXECUTIONS).find(|n| plan.route_id(id(*n).as_str()).is_migrating());
        world.seed(2, &id(moving.unwrap()), &["another"]).await;
    };
    for changes in [&[][..], &[Revert], &[Move, Revert], &[Revert, Move, Revert]] {
        at_every_request(changes, 3, disputed, |report| {
            let [finding] = &*report.findings else {
                panic!("{:?}", report.findings)
            };
            assert_eq!((finding.kind, finding.differs_at), (Kind::TwoLogs, Some(0)));
            assert_eq!(report.executions, EXECUTIONS);
        })
        .await;
    }
}

/// Audits a world in which nothing else happens, and returns what it found.
async fn found(prepare: impl AsyncFn(&World)) -> Vec<Finding> {
    let world = World::new(&[]).await;
    prepare(&world).await;
    audit(&world, 7).await.unwrap().findings
}

/// The first execution that is migrating to shard 2, once that has joined, and where it is.
async fn moving(world: &World) -> (ExecutionId, u16) {
    apply(&world.script.other, Change::Grow).await;
    let plan = world.script.other.plan().unwrap();
    (0..EXECUTIONS)
        .map(id)
        .find_map(|id| {
            let source = plan.route_id(id.as_str()).source()?;
            Some((id, source.get()))
        })
        .unwrap()
}

#[tokio::test]
async fn each_kind_of_violation_is_told_with_what_to_do() {
    // Execution 4 has five events, of which a shard that may not have it has these.
    for (kinds, kind, differs_at) in [
        (&["step 0", "step 1"][..], Kind::SecondCopy, None),
        (&["step 0", "another"], Kind::TwoLogs, Some(1)),
    ] {
        let stray = async |world: &World| world.seed(3, &id(4), kinds).await;
        let [finding] = &*found(stray).await else {
            panic!()
        };
        assert_eq!((finding.kind, finding.shard), (kind, 3));
        assert_eq!(finding.differs_at, differs_at);
        let advice = finding.advice.as_ref().unwrap();
        let command = if differs_at.is_some() {
            "loom resolve"
        } else {
            "loom repair 3"
        };
        assert!(advice.contains(command), "{advice}");
    }

    let lost = async |world: &World| world.seed(3, &id(99), &["a"]).await;
    let [finding] = &*found(lost).await else {
        panic!()
    };
    assert_eq!((finding.kind, finding.shard), (Kind::Misplaced, 3));
    assert_eq!(finding.served, None);
    assert!(finding.advice.as_ref().unwrap().contains("loom repair 3"));
}

#[tokio::test]
async fn a_move_that_was_cut_off_is_no_violation_and_a_second_copy_is_one() {
    // Both have the first event: sealed on the source, that is a move half done.
    for (seal, finds) in [(true, None), (false, Some(Kind::SecondCopy))] {
        let findings = found(async |world: &World| {
            let (id, source) = moving(world).await;
            let from = &world.stores[usize::from(source)];
            let to = &world.stores[2];
            let epoch = ledger_epoch(&**from).await.unwrap();
            let events: Vec<_> = from
                .read(Read::new(id.clone(), 0, 99).with_epoch(epoch))
                .await
                .unwrap()
                .events
                .into_iter()
                .map(|event| {
                    NewEvent::new(&*event.kind, event.payload).recorded_at(event.recorded_at)
                })
                .collect();
            let append = Append::new(id.clone(), 0, events).with_epoch(epoch);
            to.append(append).await.unwrap();
            if seal {
                from.seal(Seal::new(id).with_epoch(epoch)).await.unwrap();
            }
        })
        .await;
        assert_eq!(findings.first().map(|finding| finding.kind), finds);
        if let Some(finding) = findings.first() {
            assert_eq!(finding.served, Some(2));
            assert!(finding.advice.as_ref().unwrap().contains("loom drain"));
        }
    }
}

#[tokio::test]
async fn a_log_that_is_sealed_and_has_more_than_the_one_that_is_served_is_another_log() {
    let findings = found(async |world: &World| {
        let (id, source) = moving(world).await;
        let from = &world.stores[usize::from(source)];
        let epoch = ledger_epoch(&**from).await.unwrap();
        let page = from.read(Read::new(id.clone(), 0, 1).with_epoch(epoch));
        let first = page.await.unwrap().events.remove(0);
        // Longer than what the destination has of it, whatever it was.
        let head = from.head(Head::new(id.clone()).with_epoch(epoch)).await;
        let next = head.unwrap().unwrap().next_sequence;
        let more = Append::new(id.clone(), next, vec![event("more")]);
        from.append(more.with_epoch(epoch)).await.unwrap();
        let event = NewEvent::new(&*first.kind, first.payload).recorded_at(first.recorded_at);
        let append = Append::new(id.clone(), 0, vec![event]).with_epoch(epoch);
        world.stores[2].append(append).await.unwrap();
        from.seal(Seal::new(id).with_epoch(epoch)).await.unwrap();
    })
    .await;
    let [finding] = &*findings else {
        panic!("{findings:?}")
    };
    assert_eq!((finding.kind, finding.differs_at), (Kind::TwoLogs, Some(1)));
    assert!(
        finding.problem.contains("ends before"),
        "{}",
        finding.problem
    );
}

#[tokio::test]
async fn an_execution_is_listed_once_however_the_shards_are_cut_into_parts() {
    let world = World::new(&[]).await;
    let all: BTreeSet<ExecutionId> = (0..EXECUTIONS).map(id).collect();
    for page in [1, 2, 3, 5, 24, 100] {
        let mut walk = Walk::new(&world, page).await.unwrap();
        let mut seen = Vec::new();
        while let Some(part) = walk.next().await.unwrap() {
            seen.extend(part.into_iter().map(|(id, _)| id));
        }
        assert_eq!(seen.len(), all.len(), "pages of {page}");
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), all);
    }
    let listed = world.script.other.list_all(List::new(10));
    assert_eq!(
        listed.try_collect::<Vec<_>>().await.unwrap().len(),
        all.len()
    );
}
