//! `cargo bench -p loom-store-sqlite --bench store`: durable appends beside a raw write with `fdatasync`, reads beside
//! bare rusqlite. Figures of one run can be compared with each other; absolute ones say more about the disk.

#![expect(clippy::unwrap_used, reason = "a benchmark may stop by panicking")]

mod common;

use std::time::Duration;

use common::{Bare, RawFile, Writers, fixture, runtime};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use loom_spi::{EventStore, Head, Read};

fn appends(c: &mut Criterion) {
    let runtime = runtime();
    let (directory, store) = runtime.block_on(fixture());
    let mut group = c.benchmark_group("durable append of 256 B");
    group.measurement_time(Duration::from_secs(8));
    group.throughput(Throughput::Elements(1));

    let mut raw = RawFile::create(directory.path());
    group.bench_function("raw write of 4 KiB + fdatasync", |b| {
        b.iter(|| raw.write_synced());
    });

    let mut bare = Bare::create(directory.path());
    group.bench_function("bare rusqlite, one row a transaction", |b| {
        b.iter(|| bare.append());
    });

    for concurrent in [1, 64, 512] {
        let mut writers = Writers::new(&store, concurrent);
        group.throughput(Throughput::Elements(concurrent as u64));
        group.bench_function(format!("{concurrent} at a time"), |b| {
            b.iter_custom(|rounds| runtime.block_on(writers.append(rounds)));
        });
    }
    group.finish();
    runtime.block_on(store.close()).unwrap();
}

fn reads(c: &mut Criterion) {
    let runtime = runtime();
    let (_directory, store) = runtime.block_on(fixture());
    let id = runtime.block_on(common::log_of_100(&store));
    let mut bare = Bare::open(store.path());

    let mut group = c.benchmark_group("hot head");
    group.bench_function("store", |b| {
        b.iter(|| runtime.block_on(store.head(Head::new(id.clone()))).unwrap());
    });
    group.bench_function("bare rusqlite", |b| b.iter(|| bare.head(&id)));
    group.finish();

    let mut group = c.benchmark_group("hot read of 100 events");
    group.bench_function("store", |b| {
        b.iter(|| {
            runtime
                .block_on(store.read(Read::new(id.clone(), 0, 100)))
                .unwrap()
        });
    });
    group.bench_function("bare rusqlite", |b| b.iter(|| bare.read(&id)));
    group.finish();
    runtime.block_on(store.close()).unwrap();
}

criterion_group!(benches, appends, reads);
criterion_main!(benches);
