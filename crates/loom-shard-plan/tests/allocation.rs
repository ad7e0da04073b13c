//! What routing and decoding ask of the allocator, counted.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "a global allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use loom_shard_plan::{HashFunction, RebalanceOptions, ShardId, ShardPlan, Topology, route_hash};

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
    // All lengths that XXH3 treats in ways of their own, in ASCII and with characters of two, three and
    // four bytes.
    let fill = ["x", "é", "日", "🧵", "👩\u{200d}👧"];
    let ids: Vec<String> = (0..300)
        .flat_map(|n| fill.map(|fill| format!("{n}{}", fill.repeat(n))))
        .collect();
    assert!(ids.iter().filter(|id| !id.is_ascii()).count() > 1000);
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

/// Bytes that a plan has on the heap.
fn held_by(plan: &ShardPlan) -> i64 {
    let (counters, copy) = counted(|| plan.clone());
    drop(copy);
    counters.held
}

fn table(plan: &ShardPlan) -> i64 {
    4 * i64::from(plan.bucket_count())
}

fn settled(plan: &ShardPlan) -> ShardPlan {
    plan.settled_all(plan.migrating_buckets().iter()).unwrap()
}

#[test]
fn a_plan_of_equal_shards_takes_4_bytes_a_bucket_whatever_it_went_through() {
    let shrink = RebalanceOptions::default().allow_shrink(true);
    let mut grown = ShardPlan::new(1).unwrap();
    for shards in 1..=300 {
        let plan = ShardPlan::new(shards).unwrap();
        let (counters, made) = counted(|| ShardPlan::new(shards).unwrap());
        assert_eq!(counters.held, table(&made), "{shards} shards");
        let growing = plan.rebalanced(shards + 1, shrink).unwrap();
        let reverted = growing.reverted(growing.migrating_buckets().iter().next().unwrap());
        let read = ShardPlan::from_bytes(&growing.to_bytes()).unwrap();
        let parsed = growing.to_string().parse().unwrap();
        let from_json = ShardPlan::from_json(&growing.to_json()).unwrap();
        let adopted = ShardPlan::adopting(shards).unwrap();
        let split = plan.split(16).unwrap();
        grown = settled(&grown.rebalanced(shards, shrink).unwrap());
        let back = settled(&settled(&growing).rebalanced(shards, shrink).unwrap());
        for plan in [
            &plan,
            &growing,
            &read,
            &parsed,
            &from_json,
            &adopted,
            &split,
            &grown,
            &back,
            &settled(&growing),
            &reverted.unwrap(),
        ] {
            assert_eq!(held_by(plan), table(plan), "{shards} shards: {plan:?}");
        }
    }
}

#[test]
fn shards_that_are_not_just_numbered_take_8_bytes_each_beside_the_table() {
    for shards in 2..=300_u16 {
        let topology = (0..shards).fold(Topology::new(), |topology, n| {
            let weight = u32::from(n % 7) + 1;
            topology.joining(ShardId(n * 3), weight).unwrap()
        });
        let plan = ShardPlan::first(&topology, 4096, HashFunction::default()).unwrap();
        assert_eq!(held_by(&plan), table(&plan) + 8 * i64::from(shards));
        let leaving = topology.leaving(ShardId(0)).ok();
        if let Some(next) = leaving.and_then(|topology| plan.rebalance(&topology).ok()) {
            assert_eq!(held_by(&next), table(&next) + 8 * i64::from(shards));
        }
    }
}

/// What a decoder may hold at most, by what the input says: a few bytes for each byte of it, the table
/// of the buckets that it declares, and the list of the shards that it has come to, while that grows and is cut.
fn limit(input: usize, buckets: i64, shards: i64) -> i64 {
    8 * signed(input) + 4 * buckets + 24 * shards + 2048
}

#[track_caller]
fn refused<T, E>(input: usize, buckets: i64, shards: i64, decode: impl FnOnce() -> Result<T, E>) {
    let (counters, result) = counted(decode);
    assert!(result.is_err());
    let most = limit(input, buckets, shards);
    assert!(counters.peak <= most, "{counters:?}, at most {most}");
}

#[test]
fn what_decoding_holds_is_of_the_order_of_the_input_and_of_the_plan_in_it() {
    // One more than the list of shards doubles to, so that most of it is cut off in the end.
    let many = [1025, 2049_u16].map(|shards| {
        let topology = (0..shards).fold(Topology::new(), |topology, shard| {
            topology.joining(ShardId(shard), 2).unwrap()
        });
        ShardPlan::first(&topology, 4096, HashFunction::default()).unwrap()
    });
    for plan in plans().into_iter().chain(many) {
        let (text, json, bytes) = (plan.to_string(), plan.to_json(), plan.to_bytes());
        let shards = signed(plan.shards().len());
        let buckets = i64::from(plan.bucket_count());
        let decoders: [(usize, &dyn Fn() -> ShardPlan); 3] = [
            (text.len(), &|| text.parse().unwrap()),
            (json.len(), &|| ShardPlan::from_json(&json).unwrap()),
            (bytes.len(), &|| ShardPlan::from_bytes(&bytes).unwrap()),
        ];
        for (input, decode) in decoders {
            let (counters, _) = counted(decode);
            let most = limit(input, buckets, shards);
            assert!(
                counters.peak <= most,
                "{counters:?}, at most {most}: {plan:?}"
            );
        }
    }
}

#[test]
fn a_count_without_what_it_announces_reserves_nothing() {
    let head = "loom-shard-plan v1\nepoch 2\nhash xxh3-64\nbuckets 65536\n";
    for text in [
        head.to_owned(),
        format!("{head}shard 0: weight 1\n"),
        format!("{head}shard 0: wei"),
    ] {
        refused(text.len(), 0, 1, || text.parse::<ShardPlan>());
    }
    let json =
        r#"{"format":"loom-shard-plan","version":1,"epoch":2,"hash":"xxh3-64","buckets":65536"#;
    for json in [
        json.to_owned(),
        format!(r#"{json},"shards":[{{"id":0,"weight":1}}]"#),
        format!(r#"{json},"placements":[{{"first":0,"last":65535,"shard":0}}]"#),
        format!(r#"{json},"placements":[{{"first":0,"last":65535,"shard":0}}],"shards":[]}}"#),
    ] {
        refused(json.len(), 0, 1, || ShardPlan::from_json(&json));
    }
    let huge = u32::MAX.to_le_bytes();
    let buckets = b"LSP\x01\x02\x01\xfc\x00\x00\x01\x00".to_vec();
    let groups = [&buckets[..], b"\xfc", &huge].concat();
    let one_shard = [&buckets[..], b"\x01\x00\x00\x00\x01"].concat();
    let pattern = [&one_shard[..], b"\xfb\x00\x10\xfc", &huge].concat();
    let long_pattern = [&pattern[..], &[0; 100_000]].concat();
    for bytes in [buckets, groups, one_shard, pattern, long_pattern] {
        refused(bytes.len(), 0, 1, || ShardPlan::from_bytes(&bytes));
    }
}

#[test]
fn a_hostile_input_holds_no_more_than_a_plan_of_what_it_declares() {
    let all = 65_536;
    let bytes = b"LSP\x01\x02\x01\xfc\x00\x00\x01\x00\x01\x00\xfb\xff\xff\x00\x01".to_vec();
    refused(bytes.len(), 0, all, || ShardPlan::from_bytes(&bytes));

    let head = "loom-shard-plan v1\nepoch 2\nhash xxh3-64\nbuckets 65536\n";
    let cycle = "0, ".repeat(100_000);
    for (shards, buckets, text) in [
        (
            all,
            all,
            format!("{head}shards 0-65535: weight 1\n0-65534: 0\n0-65534: 0\n"),
        ),
        (
            all,
            0,
            format!("{head}shards 0-65535: weight 1\nshards 0-65535: weight 1\n"),
        ),
        (
            all,
            0,
            format!("{head}{}0-1: 0\n", "shard 7: leaving\n".repeat(10_000)),
        ),
        (
            2,
            0,
            format!("{head}shards 0-1: weight 1\n0-65535: cycle {cycle}\n"),
        ),
        (0, 0, format!("{head}{}", "#".repeat(1_000_000))),
        (0, 0, "9".repeat(1_000_000)),
    ] {
        refused(text.len(), buckets, shards, || text.parse::<ShardPlan>());
    }
    let run = r#"{"first":0,"last":4294967295,"shard":0},"#.repeat(10_000);
    for json in [
        format!("[{}", "[".repeat(100_000)),
        format!(r#"{{"placements":[{run}"#),
        format!(r#"{{"hash":"{}"#, "x".repeat(1_000_000)),
        format!(r#"{{"hash":"{}"}}"#, r"\u0041".repeat(100_000)),
        format!(r#"{{"version":1,"{}":1}}"#, r"\n".repeat(100_000)),
    ] {
        refused(json.len(), 0, 0, || ShardPlan::from_json(&json));
    }
}
