//! What routing and decoding ask of the allocator, counted.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "a global allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use loom_shard_plan::{HashFunction, RebalanceOptions, ShardPlan, Topology, route_hash};

thread_local! {
    static COUNTERS: Cell<Counters> = const { Cell::new(Counters { calls: 0, held: 0, peak: 0 }) };
}

#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    calls: u64,
    /// Bytes allocated minus bytes freed.
    held: i64,
    peak: i64,
}

/// The system's allocator, counting for each thread.
struct Counting;

impl Counting {
    fn count(calls: u64, bytes: i64) {
        // Gone while a thread ends, when nothing is measured any more.
        let _ = COUNTERS.try_with(|counters| {
            let mut now = counters.get();
            now.calls += calls;
            now.held += bytes;
            now.peak = now.peak.max(now.held);
            counters.set(now);
        });
    }
}

fn signed(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

// SAFETY: every call is passed on as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count(1, signed(layout.size()));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        Self::count(0, -signed(layout.size()));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::count(1, signed(size) - signed(layout.size()));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `work` does to the counters, and what it gives.
fn counted<R>(work: impl FnOnce() -> R) -> (Counters, R) {
    COUNTERS.with(|counters| counters.set(Counters::default()));
    let result = work();
    (COUNTERS.with(Cell::get), result)
}

/// Plans of every kind: a mask and a reciprocal, settled and migrating, both functions.
fn plans() -> Vec<ShardPlan> {
    let four = ShardPlan::new(4).unwrap();
    vec![
        four.rebalanced(5, RebalanceOptions::default()).unwrap(),
        ShardPlan::adopting(7).unwrap(),
        ShardPlan::first(&Topology::equal(3), 1000, HashFunction::Fnv1a64).unwrap(),
        four.split(16).unwrap(),
        four,
    ]
}

#[test]
fn the_counter_counts() {
    let (counters, vector) = counted(|| black_box(vec![0_u8; 1000]));
    assert_eq!((counters.calls, counters.held), (1, 1000));
    drop(vector);
}

#[test]
fn no_routing_path_allocates() {
    let ids: Vec<String> = (0..300)
        .map(|n| format!("execution-{n}-{}", "x".repeat(n)))
        .collect();
    for plan in plans() {
        let mut batch = Vec::with_capacity(ids.len());
        let (counters, ()) = counted(|| {
            for id in &ids {
                let hash = route_hash(id);
                black_box((plan.hash().hash(id), plan.bucket(hash), plan.route(hash)));
                black_box((plan.bucket_of_id(id), plan.route_id(id)));
                black_box(plan.placement(plan.bucket(hash)));
            }
            plan.route_batch(black_box(&ids), &mut batch);
            black_box(&batch);
            black_box((
                plan.is_migrating(),
                plan.migrating().count(),
                plan.placements().count(),
            ));
        });
        assert_eq!(counters.calls, 0, "{plan:?}");
        assert_eq!(batch.len(), ids.len());
    }
}

#[test]
fn a_plan_takes_4_bytes_a_bucket_and_8_a_shard() {
    for plan in plans() {
        let (counters, copy) = counted(|| plan.clone());
        let table = 4 * i64::from(plan.bucket_count());
        let shards = 8 * signed(plan.shards().len());
        assert_eq!(counters.held, table + shards);
        drop(copy);
    }
}

/// What a decoder may hold at most: a few bytes for each of the input, and room for the largest
/// plan there is (256 KiB of table, 512 KiB of shards while their vector grows, twice).
fn limit(input: usize) -> i64 {
    64 * signed(input) + 1_800_000
}

#[test]
fn a_decoder_allocates_no_more_than_its_input_and_the_largest_plan_need() {
    let huge = u32::MAX.to_le_bytes();
    let mut bytes = b"LSP\x01\x02\x01\xfb\x00\x10".to_vec();
    bytes.push(0xfc);
    bytes.extend(huge);
    let mut cycle = b"LSP\x01\x02\x01\xfb\x00\x10\x01\x00\x02\x00\x01\xfb\x00\x10\xfc".to_vec();
    cycle.extend(huge);
    cycle.extend([0; 100_000]);
    for hostile in [
        &bytes,
        &cycle,
        &b"LSP\x01\x02\x01\xfc\x00\x00\x01\x00\x01\x00\xfb\xff\xff\x00\x01".to_vec(),
    ] {
        let (counters, result) = counted(|| ShardPlan::from_bytes(hostile));
        assert!(result.is_err());
        assert!(counters.peak < limit(hostile.len()), "{counters:?}");
    }
    let head = "loom-shard-plan v1\nepoch 2\nhash xxh3-64\nbuckets 65536\n";
    let texts = [
        format!("{head}shards 0-65535: weight 1\n0-65534: 0\n0-65534: 0\n"),
        format!(
            "{head}shards 0-1: weight 1\n0-65535: cycle {}\n",
            "0, ".repeat(100_000)
        ),
        format!("{head}{}", "#".repeat(1_000_000)),
        "9".repeat(1_000_000),
    ];
    for hostile in &texts {
        let (counters, result) = counted(|| hostile.parse::<ShardPlan>());
        assert!(result.is_err());
        assert!(counters.peak < limit(hostile.len()), "{counters:?}");
    }
    let documents = [
        format!("[{}", "[".repeat(100_000)),
        format!(
            "{{\"placements\":[{}",
            "{\"first\":0,\"last\":4294967295,\"shard\":0},".repeat(10_000)
        ),
        format!("{{\"hash\":\"{}", "x".repeat(1_000_000)),
    ];
    for hostile in &documents {
        let (counters, result) = counted(|| ShardPlan::from_json(hostile));
        assert!(result.is_err());
        assert!(counters.peak < limit(hostile.len()), "{counters:?}");
    }
}
