//! `cargo bench -p loom-store-sqlite --bench ratios`: what `store` measures, as ratios. Each is the median of several
//! rounds in which both sides take turns, so that a disk or a machine that is slower for a while hits both.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints, and may stop by panicking"
)]

mod common;

use std::time::{Duration, Instant};

use common::{Bare, RawFile, Writers, fixture, log_of_100, runtime};
use loom_spi::{EventStore, Head, Read};

const ROUNDS: usize = 25;

fn main() {
    // `cargo test --benches`, which only wants to know that it runs, leaves this out.
    let measure = std::env::args().any(|arg| arg == "--bench");
    let rounds = if measure { ROUNDS } else { 1 };
    let runtime = runtime();
    let (directory, store) = runtime.block_on(fixture());
    let mut raw = RawFile::create(directory.path());

    println!(
        "{:<50} {:>12} {:>12} {:>8}  (lowest to highest)",
        "", "ours", "other", "ratio"
    );
    for concurrent in [1, 64, 512] {
        let mut writers = Writers::new(&store, concurrent);
        // About as long as the other side takes.
        let each = if concurrent == 1 { 100 } else { 20 };
        print(
            &format!("appends a second, {concurrent} at a time, to raw syncs"),
            (0..rounds).map(|_| {
                let ours = runtime.block_on(writers.append(each));
                let theirs = timed(100, || raw.write_synced());
                (
                    each as f64 * concurrent as f64 / ours.as_secs_f64(),
                    100.0 / theirs.as_secs_f64(),
                )
            }),
        );
    }

    let (mut lone, mut bare) = (Writers::new(&store, 1), Bare::create(directory.path()));
    print(
        "appends a second, 1 at a time, to bare rusqlite",
        (0..rounds).map(|_| {
            let ours = runtime.block_on(lone.append(100));
            let theirs = timed(100, || bare.append());
            (100.0 / ours.as_secs_f64(), 100.0 / theirs.as_secs_f64())
        }),
    );

    let id = runtime.block_on(log_of_100(&store));
    let mut bare = Bare::open(store.path());
    print(
        "us a hot head, to bare rusqlite",
        (0..rounds).map(|_| {
            let ours = timed(1000, || {
                runtime.block_on(store.head(Head::new(id.clone()))).unwrap();
            });
            let theirs = timed(1000, || {
                bare.head(&id);
            });
            (
                ours.as_secs_f64() * 1e6 / 1000.0,
                theirs.as_secs_f64() * 1e6 / 1000.0,
            )
        }),
    );
    print(
        "us a hot read of 100 events, to bare rusqlite",
        (0..rounds).map(|_| {
            let ours = timed(200, || {
                runtime
                    .block_on(store.read(Read::new(id.clone(), 0, 100)))
                    .unwrap();
            });
            let theirs = timed(200, || {
                bare.read(&id);
            });
            (
                ours.as_secs_f64() * 1e6 / 200.0,
                theirs.as_secs_f64() * 1e6 / 200.0,
            )
        }),
    );
    runtime.block_on(store.close()).unwrap();
}

fn timed(times: usize, mut what: impl FnMut()) -> Duration {
    let started = Instant::now();
    for _ in 0..times {
        what();
    }
    started.elapsed()
}

/// Prints the round with the median ratio.
fn print(what: &str, rounds: impl Iterator<Item = (f64, f64)>) {
    let mut rounds: Vec<_> = rounds
        .map(|(ours, theirs)| (ours / theirs, ours, theirs))
        .collect();
    rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (ratio, ours, theirs) = rounds[rounds.len() / 2];
    let (lowest, highest) = (rounds[0].0, rounds[rounds.len() - 1].0);
    println!("{what:<50} {ours:>12.1} {theirs:>12.1} {ratio:>8.2}  ({lowest:.2} to {highest:.2})");
}
