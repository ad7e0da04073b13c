//! What is counted and traced while everything that is happens once: names are promises, and ids are no labels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use loom_shard_plan::{ShardId, ShardPlan, Topology};
use loom_spi::{
    Append, EventStore, ExecutionId, Head, List, NewEvent, PlanLedger as _, Publish, Read,
    Relocation as _, Seal,
};
use loom_store_memory::MemoryStore;
use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use tracing::field::{Field, Visit};
use tracing::span;

use crate::ledger::publishable;
use crate::{DrainOptions, ShardedStore, Stats};

/// Every counter with its value in `stats`.
fn counters(stats: &Stats) -> BTreeMap<&'static str, u64> {
    BTreeMap::from([
        ("loom.sharded.routed", stats.routed),
        ("loom.sharded.resolved", stats.resolved),
        ("loom.sharded.looks", stats.looks),
        ("loom.sharded.cache_hits", stats.cache_hits),
        ("loom.sharded.sealed_waits", stats.sealed_waits),
        ("loom.sharded.both_sides_differ", stats.both_sides_differ),
        ("loom.sharded.moved", stats.moved),
        ("loom.sharded.moved_events", stats.moved_events),
        ("loom.sharded.stale_plans", stats.stale_plans),
        ("loom.sharded.newer_plans", stats.newer_plans),
        ("loom.sharded.shards_raised", stats.shards_raised),
        ("loom.sharded.publications", stats.publications),
        ("loom.sharded.settled_buckets", stats.settled_buckets),
    ])
}

const HISTOGRAMS: [&str; 2] = ["loom.sharded.move.seconds", "loom.sharded.move.events"];
const SPANS: [&str; 6] = [
    "loom.converge",
    "loom.drain",
    "loom.move",
    "loom.publish",
    "loom.resolve",
    "loom.settle",
];
const EVENTS: [&str; 2] = ["loom.both_sides_differ", "loom.plan_adopted"];

fn now<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

fn id(name: &str) -> ExecutionId {
    ExecutionId::new(name).unwrap()
}

async fn open(shards: &[Arc<MemoryStore>; 2], plan: &ShardPlan) -> ShardedStore {
    let stores = shards.iter().map(|shard| Arc::clone(shard) as _);
    let builder = ShardedStore::builder().shards(stores).plan(plan.clone());
    builder.open().await.unwrap()
}

/// Has everything happen that is counted or traced, and returns what the node saw.
async fn everything() -> Stats {
    let shards = [(); 2].map(|()| Arc::new(MemoryStore::new()));
    let plan = ShardPlan::with_buckets(1, 4).unwrap();
    let node = open(&shards, &plan).await;
    let other = open(&shards, &plan).await;
    let names = ["read", "sealed", "twice", "moved"];
    for name in names {
        let events = vec![NewEvent::new("begun", ""), NewEvent::new("gone on", "")];
        node.append(Append::new(id(name), 0, events)).await.unwrap();
    }
    let away = |plan: &ShardPlan, to| {
        let topology = Topology::new().joining(ShardId(to), 1).unwrap();
        plan.rebalance(&topology).unwrap()
    };
    let moving = away(&plan, 1);
    node.publish(moving.clone()).await.unwrap();
    // Meets the newer plan, finds the side, and remembers it.
    for _ in 0..2 {
        let page = other.read(Read::new(id("read"), 0, 10)).await.unwrap();
        assert_eq!(page.events.len(), 2);
        assert!(node.head(Head::new(id("read"))).await.unwrap().is_some());
    }
    let epoch = node.epoch();
    let seal = Seal::new(id("sealed")).with_epoch(epoch);
    shards[0].seal(seal).await.unwrap();
    let append = Append::new(id("sealed"), 2, vec![NewEvent::new("gone on", "")]);
    node.append(append).await.unwrap();
    let another = vec![NewEvent::new("something else", "")];
    let another = Append::new(id("twice"), 0, another).with_epoch(epoch);
    shards[1].append(another).await.unwrap();
    let drained = node
        .drain(&DrainOptions::new().with_live(true), |_| {})
        .await
        .unwrap();
    assert_eq!((drained.moved, drained.stuck), (2, 1));
    // A plan that has reached one shard only: this node follows it, and passes it on.
    let now = node.plan().unwrap();
    let next = publishable(&now.reverted_all(now.migrating_buckets().iter()).unwrap());
    let publish = Publish::new(next, node.epoch());
    shards[0].publish(publish).await.unwrap();
    assert_eq!(node.list(List::new(10)).await.unwrap().executions.len(), 4);
    assert!(other.stats().stale_plans > 0);
    node.stats()
}

#[derive(Clone, Default)]
struct Recorded {
    counters: Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>,
    histograms: Arc<Mutex<BTreeMap<String, Arc<Samples>>>>,
}

impl Recorded {
    fn count(&self, name: &str) -> u64 {
        self.counters.lock().unwrap()[name].load(Ordering::Relaxed)
    }
}

#[derive(Default)]
struct Samples(Mutex<Vec<f64>>);

impl HistogramFn for Samples {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

fn name(key: &Key) -> String {
    let labels: Vec<_> = key.labels().collect();
    assert!(labels.is_empty(), "{key} has labels");
    key.name().to_owned()
}

impl Recorder for Recorded {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let mut counters = self.counters.lock().unwrap();
        let counter: &Arc<AtomicU64> = counters.entry(name(key)).or_default();
        Counter::from_arc(Arc::clone(counter))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        panic!("{key} is not documented")
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let mut histograms = self.histograms.lock().unwrap();
        let samples = histograms.entry(name(key)).or_default();
        Histogram::from_arc(Arc::clone(samples))
    }
}

#[test]
fn the_facade_is_told_the_same_as_stats_under_documented_names_without_labels() {
    let recorded = Recorded::default();
    // Both nodes count here, so that the one that is looked at is a lower bound of each.
    let stats = metrics::with_local_recorder(&recorded, || now(everything()));
    let told: BTreeMap<String, u64> = recorded
        .counters
        .lock()
        .unwrap()
        .iter()
        .map(|(name, count)| (name.clone(), count.load(Ordering::Relaxed)))
        .collect();
    let counted = counters(&stats);
    assert_eq!(
        told.keys().map(String::as_str).collect::<Vec<_>>(),
        counted.keys().copied().collect::<Vec<_>>()
    );
    for (name, count) in counted {
        assert!(count > 0, "{name} was not counted");
        assert!(told[name] >= count, "{name}: {} and {count}", told[name]);
    }
    let histograms = recorded.histograms.lock().unwrap();
    assert_eq!(
        histograms.keys().map(String::as_str).collect::<Vec<_>>(),
        BTreeSet::from(HISTOGRAMS).into_iter().collect::<Vec<_>>()
    );
    for samples in histograms.values() {
        assert_eq!(samples.0.lock().unwrap().len() as u64, stats.moved);
    }
    let events = histograms["loom.sharded.move.events"].0.lock().unwrap();
    let sum: f64 = events.iter().sum();
    assert!((sum - f64::from(u32::try_from(stats.moved_events).unwrap())).abs() < 0.5);
}

#[test]
fn one_node_alone_tells_exactly_what_it_counts() {
    let recorded = Recorded::default();
    let routed = metrics::with_local_recorder(&recorded, || {
        now(async {
            let shards = [(); 2].map(|()| Arc::new(MemoryStore::new()));
            let node = open(&shards, &ShardPlan::new(2).unwrap()).await;
            // Told now and then, and what is left when somebody asks or the store is dropped.
            for _ in 0..5000 {
                node.head(Head::new(id("nobody"))).await.unwrap();
            }
            let routed = node.stats().routed;
            assert_eq!(routed, 5000);
            assert_eq!(recorded.count("loom.sharded.routed"), routed);
            node.head(Head::new(id("nobody"))).await.unwrap();
            routed + 1
        })
    });
    assert_eq!(recorded.count("loom.sharded.routed"), routed);
}

#[test]
fn the_names_are_in_the_documentation() {
    let documentation = include_str!("../../README.md");
    let names = counters(&Stats::default()).into_keys();
    for name in names.chain(HISTOGRAMS).chain(SPANS).chain(EVENTS) {
        assert!(documentation.contains(&format!("`{name}`")), "{name}");
    }
}

/// Names of spans and events with the names of their fields.
#[derive(Clone, Default)]
struct Traced {
    spans: Arc<Mutex<BTreeMap<&'static str, BTreeSet<String>>>>,
    events: Arc<Mutex<BTreeSet<&'static str>>>,
    next: Arc<AtomicU64>,
}

struct Fields<'a>(&'a mut BTreeSet<String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, _: &dyn std::fmt::Debug) {
        self.0.insert(field.name().to_owned());
    }
}

impl tracing::Subscriber for Traced {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("loom_sharded_store")
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut spans = self.spans.lock().unwrap();
        let fields = spans.entry(attributes.metadata().name()).or_default();
        attributes.record(&mut Fields(fields));
        span::Id::from_u64(self.next.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        self.events.lock().unwrap().insert(event.metadata().name());
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[test]
fn spans_and_events_have_documented_names_and_ids_are_fields() {
    let traced = Traced::default();
    tracing::subscriber::with_default(traced.clone(), || now(everything()));
    let spans = traced.spans.lock().unwrap();
    assert_eq!(spans.keys().copied().collect::<Vec<_>>(), SPANS);
    assert_eq!(
        traced
            .events
            .lock()
            .unwrap()
            .iter()
            .copied()
            .collect::<Vec<_>>(),
        EVENTS
    );
    let fields = |span| spans[span].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(fields("loom.move"), ["execution", "from", "to"]);
    assert_eq!(fields("loom.resolve"), ["execution"]);
    assert_eq!(fields("loom.converge"), ["epoch", "remedy", "shard"]);
    assert_eq!(fields("loom.publish"), ["epoch"]);
}
