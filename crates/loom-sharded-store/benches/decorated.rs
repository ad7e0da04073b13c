//! What the decorator adds to a call, against the bare memory store in the same run.
//!
//! `cargo bench -p loom-sharded-store --bench decorated`

#![expect(clippy::unwrap_used, reason = "a benchmark may stop by panicking")]

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use futures_util::FutureExt as _;
use loom_shard_plan::{RebalanceOptions, ShardPlan};
use loom_sharded_store::ShardedStore;
use loom_spi::{Append, EventStore, ExecutionId, Head, NewEvent, Read};
use loom_store_memory::MemoryStore;

type Store = Arc<dyn EventStore>;

/// Every future of the memory store is ready at its first poll, and so is every one of the decorator's.
fn now<F: Future>(future: F) -> F::Output {
    future.now_or_never().unwrap()
}

fn bare() -> Store {
    Arc::new(MemoryStore::new())
}

fn unplanned() -> Store {
    Arc::new(
        now(ShardedStore::builder()
            .shards((0..4).map(|_| bare()))
            .open())
        .unwrap(),
    )
}

fn planned() -> Store {
    let plan = ShardPlan::new(4).unwrap();
    let builder = ShardedStore::builder().shards((0..4).map(|_| bare()));
    Arc::new(now(builder.plan(plan).open()).unwrap())
}

/// Every bucket migrates, and every execution is still on its source.
fn migrating(ids: &[ExecutionId]) -> Store {
    let store = now(ShardedStore::builder()
        .shards((0..2).map(|_| bare()))
        .plan(ShardPlan::new(1).unwrap())
        .open())
    .unwrap();
    fill(&(Arc::new(store.clone()) as Store), ids);
    let plan = store.plan().unwrap();
    let grown = plan.rebalanced(2, RebalanceOptions::default()).unwrap();
    now(store.publish(grown)).unwrap();
    Arc::new(store)
}

type Make = fn() -> Store;

const STORES: [(&str, Make); 3] = [
    ("bare", bare),
    ("unplanned", unplanned),
    ("planned", planned),
];

fn ids(count: usize) -> Vec<ExecutionId> {
    (0..count).map(|_| ExecutionId::generate()).collect()
}

fn event() -> NewEvent {
    NewEvent::new("step.done", &b"{\"value\":1}"[..])
}

fn fill(store: &Store, ids: &[ExecutionId]) {
    for id in ids {
        now((**store).append(Append::new(id.clone(), 0, vec![event()]))).unwrap();
    }
}

fn head(store: &Store, id: &ExecutionId) {
    black_box(now((**store).head(Head::new(id.clone()))).unwrap());
}

fn read(store: &Store, id: &ExecutionId) {
    black_box(now((**store).read(Read::new(id.clone(), 0, 16))).unwrap());
}

fn one_thread(c: &mut Criterion) {
    for (name, call) in [("head", head as fn(&Store, &ExecutionId)), ("read", read)] {
        let mut group = c.benchmark_group(name);
        for (kind, make) in STORES {
            let (store, ids) = (make(), ids(256));
            fill(&store, &ids);
            let mut next = ids.iter().cycle();
            group.bench_function(kind, |b| b.iter(|| call(&store, next.next().unwrap())));
        }
        let ids = ids(512);
        let store = migrating(&ids);
        let mut next = ids.iter().cycle();
        group.bench_function("half migrating, cached", |b| {
            b.iter(|| call(&store, next.next().unwrap()));
        });
        group.finish();
    }
    let mut group = c.benchmark_group("append");
    for (kind, make) in STORES {
        group.bench_function(kind, |b| b.iter_custom(|calls| appends(make, calls)));
    }
    group.finish();
}

/// Appends of one event, into logs that are begun anew every now and then.
fn appends(make: Make, calls: u64) -> Duration {
    let mut spent = Duration::ZERO;
    let mut left = usize::try_from(calls).unwrap();
    while left > 0 {
        let (store, ids) = (make(), ids(64));
        let requests: Vec<Append> = (0..left.min(8192))
            .map(|n| {
                let expected = (n / ids.len()) as u64;
                Append::new(ids[n % ids.len()].clone(), expected, vec![event()])
            })
            .collect();
        left -= requests.len();
        let start = Instant::now();
        for request in requests {
            black_box(now((*store).append(request)).unwrap());
        }
        spent += start.elapsed();
    }
    spent
}

/// The time in which each of the threads makes all the calls: alike for one and two threads if nothing is
/// shared.
fn threads(c: &mut Criterion) {
    for (kind, make) in STORES {
        let mut group = c.benchmark_group(format!("read/{kind}"));
        for threads in [1, 2] {
            let store = make();
            let ids: Vec<Vec<ExecutionId>> = (0..threads).map(|_| ids(256)).collect();
            ids.iter().for_each(|ids| fill(&store, ids));
            group.bench_function(format!("{threads} threads"), |b| {
                b.iter_custom(|calls| reads_on_threads(&store, &ids, calls));
            });
        }
        group.finish();
    }
}

fn reads_on_threads(store: &Store, ids: &[Vec<ExecutionId>], calls: u64) -> Duration {
    let start = Barrier::new(ids.len());
    std::thread::scope(|scope| {
        let running: Vec<_> = ids
            .iter()
            .map(|ids| {
                scope.spawn(|| {
                    let mut next = ids.iter().cycle();
                    start.wait();
                    let begun = Instant::now();
                    for _ in 0..calls {
                        read(store, next.next().unwrap());
                    }
                    begun.elapsed()
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .max()
            .unwrap()
    })
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = one_thread, threads
}
criterion_main!(benches);
