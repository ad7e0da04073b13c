//! What the sharded store adds to a call, beside the bare store.

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use loom_shard_plan::{ShardId, ShardPlan, Topology};
use loom_sharded_store::ShardedStore;
use loom_spi::{Append, ExecutionId, Head, NewEvent, Read};

use crate::report::{Row, Target};
use crate::stores::{self, Store, memory, sharded};
use crate::timing::{Ratio, median};
use crate::{Failure, Outcome};

const SUITE: &str = "routing";
/// Many short rounds: whoever else uses the machine disturbs some of them, and the median is of those that ran through.
/// Odd, so that it is one of them.
const ROUNDS: usize = 1_001;
const CALLS: usize = 512;
/// For what takes longer.
const FEW: usize = 51;
/// What the decorator may add, in nanoseconds.
const BOUND: f64 = 100.0;

/// Every comparison of the suite.
pub(crate) fn run() -> Result<Outcome, Failure> {
    let runtime = stores::runtime()?;
    let mut rows = Vec::new();
    for (name, call) in [("head", head as Call), ("read of one event", read)] {
        rows.push(added(name, call)?);
    }
    rows.push(added_to_append()?);
    rows.extend(two_threads()?);
    rows.push(runtime.block_on(cached_on_sqlite())?);
    Ok(rows.into())
}

type Call = fn(&Store, &ExecutionId);

/// Every future of the memory store is ready at its first poll, and so is every one of the decorator's.
fn now<T>(future: impl Future<Output = T>) -> T {
    match future.now_or_never() {
        Some(output) => output,
        None => unreachable_for_memory(),
    }
}

#[expect(clippy::panic, reason = "a measurement may stop by panicking")]
fn unreachable_for_memory<T>() -> T {
    panic!("a call of the memory store was not over at its first poll")
}

fn head(store: &Store, id: &ExecutionId) {
    black_box(now((**store).head(Head::new(id.clone()))).is_ok());
}

fn read(store: &Store, id: &ExecutionId) {
    black_box(now((**store).read(Read::new(id.clone(), 0, 16))).is_ok());
}

fn event() -> NewEvent {
    NewEvent::new("step.done", &b"{\"value\":1}"[..])
}

fn ids(count: usize) -> Vec<ExecutionId> {
    (0..count).map(|_| ExecutionId::generate()).collect()
}

fn fill(store: &Store, ids: &[ExecutionId]) -> Result<(), Failure> {
    for id in ids {
        now((**store).append(Append::new(id.clone(), 0, vec![event()])))?;
    }
    Ok(())
}

fn planned() -> Result<Store, Failure> {
    let stores: Vec<Store> = (0..4).map(|_| memory()).collect();
    let store = now(sharded(stores, ShardPlan::new(4)?))?;
    Ok(Arc::new(store))
}

fn added(name: &str, call: Call) -> Result<Row, Failure> {
    let (ours, theirs, ids) = (planned()?, memory(), ids(256));
    fill(&ours, &ids)?;
    fill(&theirs, &ids)?;
    let calls = |store: &Store| {
        let begun = Instant::now();
        for id in ids.iter().cycle().take(CALLS) {
            call(store, id);
        }
        begun.elapsed()
    };
    row(name, || Ok((calls(&ours), calls(&theirs))))
}

/// Appends of one event, into logs that are begun anew in every round.
fn added_to_append() -> Result<Row, Failure> {
    let (ours, theirs) = (planned()?, memory());
    let calls = |store: &Store| -> Result<Duration, Failure> {
        let ids = ids(64);
        let requests: Vec<Append> = (0..CALLS)
            .map(|n| {
                let expected = (n / ids.len()) as u64;
                Append::new(ids[n % ids.len()].clone(), expected, vec![event()])
            })
            .collect();
        let begun = Instant::now();
        for request in requests {
            now((**store).append(request))?;
        }
        Ok(begun.elapsed())
    };
    row("append of one event", || {
        Ok((calls(&ours)?, calls(&theirs)?))
    })
}

/// What is added a call, over the bound.
fn row(
    name: &str,
    mut round: impl FnMut() -> Result<(Duration, Duration), Failure>,
) -> Result<Row, Failure> {
    round()?;
    let rounds = (0..ROUNDS)
        .map(|_| round())
        .collect::<Result<Vec<_>, _>>()?;
    let each = |time: &Duration| time.as_secs_f64() * 1e9 / CALLS as f64;
    let ours = median(rounds.iter().map(|(ours, _)| each(ours)));
    let theirs = median(rounds.iter().map(|(_, theirs)| each(theirs)));
    let added = rounds
        .iter()
        .map(|(ours, theirs)| (each(ours) - each(theirs)) / BOUND);
    Ok(Row::new(
        SUITE,
        format!("`{name}`, settled bucket: what is added to the memory store"),
        "100 ns",
        Ratio::of(added),
        Some(Target::AtMost(1.0)),
        format!("{ours:.0} ns against {theirs:.0} ns a call"),
    ))
}

/// How many reads two threads make in the time in which one makes one.
fn two_threads() -> Result<Vec<Row>, Failure> {
    let kinds = [
        ("routed reads", planned()?, Some(Target::AtLeast(1.8))),
        ("bare reads, for comparison", memory(), None),
    ];
    let mut rows = Vec::new();
    for (name, store, target) in kinds {
        let ids: Vec<Vec<ExecutionId>> = (0..2).map(|_| ids(256)).collect();
        for ids in &ids {
            fill(&store, ids)?;
        }
        let speedups = (0..10 * FEW).map(|_| {
            let one = reads_on_threads(&store, &ids[..1]).as_secs_f64();
            let two = reads_on_threads(&store, &ids).as_secs_f64();
            2.0 * one / two
        });
        rows.push(Row::new(
            SUITE,
            format!("{name}, two threads"),
            "one thread",
            Ratio::of(speedups),
            target,
            "",
        ));
    }
    Ok(rows)
}

/// The time in which each thread makes all the calls.
fn reads_on_threads(store: &Store, ids: &[Vec<ExecutionId>]) -> Duration {
    let start = &Barrier::new(ids.len());
    std::thread::scope(|scope| {
        let running: Vec<_> = ids
            .iter()
            .map(|ids| {
                scope.spawn(move || {
                    start.wait();
                    for id in ids {
                        read(store, id);
                    }
                    let begun = Instant::now();
                    for id in ids.iter().cycle().take(4 * CALLS) {
                        read(store, id);
                    }
                    begun.elapsed()
                })
            })
            .collect();
        let times = running.into_iter().filter_map(|thread| thread.join().ok());
        times.max().unwrap_or_default()
    })
}

/// On SQLite.
async fn cached_on_sqlite() -> Result<Row, Failure> {
    let folder = stores::folder()?;
    let shards = [
        stores::sqlite(folder.path(), "source.db").await?,
        stores::sqlite(folder.path(), "destination.db").await?,
    ];
    cached_resolution(SUITE, "SQLite", shards).await
}

/// A look-up in a migrating bucket whose side is cached, beside one that has to find the side.
pub(crate) async fn cached_resolution(
    suite: &'static str,
    engine: &str,
    shards: [Store; 2],
) -> Result<Row, Failure> {
    const EXECUTIONS: usize = 512;
    let plan = ShardPlan::new(1)?;
    let open = |capacity| {
        ShardedStore::builder()
            .shards(shards.clone())
            .plan(plan.clone())
            .cache_capacity(capacity)
            .open()
    };
    let cached = open(65_536).await?;
    let ids = ids(EXECUTIONS);
    let appends = ids
        .iter()
        .map(|id| Append::new(id.clone(), 0, vec![event()]));
    let store: Store = Arc::new(cached.clone());
    stores::append_all(&store, appends, stores::AT_ONCE).await?;
    let all_away = Topology::new().joining(ShardId(1), 1)?;
    cached.publish(plan.rebalance(&all_away)?).await?;
    let looking = open(0).await?;
    looking.refresh().await?;
    let looking: Store = Arc::new(looking);
    let mut rounds = Vec::new();
    for round in 0..=FEW {
        let ours = heads(&store, &ids).await?;
        let theirs = heads(&looking, &ids).await?;
        // The first fills the cache.
        if round > 0 {
            rounds.push((ours.as_secs_f64(), theirs.as_secs_f64()));
        }
    }
    let each = |time: f64| time * 1e6 / EXECUTIONS as f64;
    let note = format!(
        "{:.1} µs against {:.1} µs a call",
        each(median(rounds.iter().map(|round| round.0))),
        each(median(rounds.iter().map(|round| round.1)))
    );
    Ok(Row::new(
        suite,
        format!("`head`, migrating bucket of {engine} shards, side cached"),
        "finding the side with two point-reads",
        Ratio::of(rounds.iter().map(|(ours, theirs)| ours / theirs)),
        Some(Target::Below(1.0)),
        note,
    ))
}

async fn heads(store: &Store, ids: &[ExecutionId]) -> Result<Duration, Failure> {
    let begun = Instant::now();
    for id in ids {
        let head = (**store).head(Head::new(id.clone())).await?;
        black_box(head.ok_or("an execution is gone")?);
    }
    Ok(begun.elapsed())
}
