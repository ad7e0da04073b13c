//! `cargo bench -p loom-shard-plan`: routing, rebalancing, encoding and decoding.

#![expect(clippy::unwrap_used, reason = "a benchmark may stop by panicking")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use loom_shard_plan::{RebalanceOptions, ShardPlan};

/// As many ids of 36 bytes as stay in the first-level cache.
fn ids() -> Vec<String> {
    (0..256_u64)
        .map(|n| {
            let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            format!(
                "{:08x}-7a3b-7c4d-8e5f-{:012x}",
                mixed >> 32,
                mixed & 0xffff_ffff_ffff
            )
        })
        .collect()
}

fn grown(from: u16, to: u16) -> ShardPlan {
    let mut plan = ShardPlan::new(from).unwrap();
    for shards in from + 1..=to {
        plan = plan
            .rebalanced(shards, RebalanceOptions::default())
            .unwrap();
        plan = plan.settled_all(plan.migrating_buckets().iter()).unwrap();
    }
    plan
}

fn routing(c: &mut Criterion) {
    let ids = ids();
    let mut group = c.benchmark_group("route");
    group.throughput(Throughput::Elements(ids.len() as u64));
    for shards in [16, 64] {
        let plan = ShardPlan::new(shards).unwrap();
        group.bench_with_input(BenchmarkId::new("one by one", shards), &plan, |b, plan| {
            b.iter(|| {
                for id in &ids {
                    black_box(plan.route_id(black_box(id)));
                }
            });
        });
        let hashes: Vec<u64> = ids.iter().map(|id| plan.hash().hash(id)).collect();
        group.bench_with_input(BenchmarkId::new("by hash", shards), &plan, |b, plan| {
            b.iter(|| {
                for hash in &hashes {
                    black_box(plan.route(black_box(*hash)));
                }
            });
        });
        let mut placements = Vec::with_capacity(ids.len());
        group.bench_with_input(BenchmarkId::new("batch", shards), &plan, |b, plan| {
            b.iter(|| {
                plan.route_batch(black_box(&ids), &mut placements);
                black_box(&mut placements);
            });
        });
        // Each id only when the placement of the one before is known: what a caller waits for.
        group.bench_with_input(
            BenchmarkId::new("waiting for each", shards),
            &plan,
            |b, plan| {
                b.iter(|| {
                    let mut at = 0;
                    for _ in &ids {
                        let placement = plan.route_id(&ids[at]);
                        at = (at + 1 + usize::from(placement.is_migrating())) % ids.len();
                    }
                    black_box(at)
                });
            },
        );
    }
    let plan = ShardPlan::adopting(5).unwrap();
    group.bench_function("one by one/2560 buckets", |b| {
        b.iter(|| {
            for id in &ids {
                black_box(plan.route_id(black_box(id)));
            }
        });
    });
    group.finish();
}

fn rebalancing(c: &mut Criterion) {
    let mut group = c.benchmark_group("rebalanced");
    let shrink = RebalanceOptions::default().allow_shrink(true);
    let cases = [
        ("4 to 5", ShardPlan::new(4).unwrap(), 5),
        ("5 to 4", ShardPlan::new(5).unwrap(), 4),
        ("64 to 65", ShardPlan::new(64).unwrap(), 65),
        ("1 to 201", ShardPlan::new(1).unwrap(), 201),
        ("balanced", ShardPlan::new(16).unwrap(), 16),
        ("grown one by one, 16 to 17", grown(1, 16), 17),
        ("grown one by one, 64 to 65", grown(1, 64), 65),
        ("adopted, 4 to 5", ShardPlan::adopting(4).unwrap(), 5),
    ];
    for (name, plan, to) in &cases {
        group.bench_with_input(BenchmarkId::from_parameter(name), plan, |b, plan| {
            b.iter(|| black_box(plan).rebalanced(*to, shrink));
        });
    }
    group.finish();
}

fn formats(c: &mut Criterion) {
    let migrating = ShardPlan::new(16)
        .unwrap()
        .rebalanced(17, RebalanceOptions::default());
    let plans = [
        ("4", ShardPlan::new(4).unwrap()),
        ("16 to 17", migrating.unwrap()),
        ("64", ShardPlan::new(64).unwrap()),
        ("adopted 4", ShardPlan::adopting(4).unwrap()),
        ("grown to 64", grown(1, 64)),
    ];
    let mut group = c.benchmark_group("decode");
    for (name, plan) in &plans {
        let (bytes, json, text) = (plan.to_bytes(), plan.to_json(), plan.to_string());
        group.bench_function(BenchmarkId::new("binary", name), |b| {
            b.iter(|| ShardPlan::from_bytes(black_box(&bytes)));
        });
        group.bench_function(BenchmarkId::new("json", name), |b| {
            b.iter(|| ShardPlan::from_json(black_box(&json)));
        });
        group.bench_function(BenchmarkId::new("text", name), |b| {
            b.iter(|| black_box(&text).parse::<ShardPlan>());
        });
    }
    group.finish();
    let mut group = c.benchmark_group("encode");
    for (name, plan) in &plans {
        group.bench_function(BenchmarkId::new("binary", name), |b| {
            b.iter(|| plan.to_bytes());
        });
        group.bench_function(BenchmarkId::new("json", name), |b| {
            b.iter(|| plan.to_json());
        });
        group.bench_function(BenchmarkId::new("text", name), |b| {
            b.iter(|| plan.to_string());
        });
    }
    group.finish();
}

criterion_group!(benches, routing, rebalancing, formats);
criterion_main!(benches);
