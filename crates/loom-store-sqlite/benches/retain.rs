//! `cargo bench -p loom-store-sqlite --bench retain`: what a lone append takes while logs are deleted and space is given back
//! as fast as it goes, to what it takes otherwise. Both take turns.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and may stop by panicking"
)]
#![allow(dead_code, reason = "every benchmark uses a part of `common`")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{event, fixture, runtime};
use loom_spi::{Append, Delete, EventStore, ExecutionId};
use loom_store_sqlite::SqliteStore;

/// Pages given back at once.
const PAGES: u32 = 64;

fn main() {
    let measure = std::env::args().any(|arg| arg == "--bench");
    let (rounds, logs, appends) = if measure { (5, 600, 500) } else { (1, 20, 20) };
    let runtime = runtime();
    let (_directory, store) = runtime.block_on(fixture());
    let mut medians = Vec::new();
    let mut tails = Vec::new();
    for _ in 0..rounds {
        let old = runtime.block_on(fill(&store, logs));
        let alone = runtime.block_on(append(&store, appends));
        let stop = Arc::new(AtomicBool::new(false));
        let retention = runtime.spawn(retain(Arc::clone(&store), old, Arc::clone(&stop)));
        let beside = runtime.block_on(append(&store, appends));
        stop.store(true, Ordering::SeqCst);
        let (deleted, released) = runtime.block_on(retention).unwrap();
        println!(
            "alone: median {:?}, 99 of 100 within {:?}; beside: {:?}, {:?}, while {deleted} logs were deleted and {released} pages released",
            at(&alone, 50),
            at(&alone, 99),
            at(&beside, 50),
            at(&beside, 99)
        );
        medians.push(at(&beside, 50).as_secs_f64() / at(&alone, 50).as_secs_f64());
        tails.push(at(&beside, 99).as_secs_f64() / at(&alone, 99).as_secs_f64());
    }
    for (what, mut ratios) in [("median", medians), ("99 of 100", tails)] {
        ratios.sort_by(f64::total_cmp);
        println!(
            "{what}: {:.2} times as long ({:.2} to {:.2})",
            ratios[ratios.len() / 2],
            ratios[0],
            ratios[ratios.len() - 1]
        );
    }
}

fn at(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

/// Closed logs of 50 events, which lie on the same pages in turn.
async fn fill(store: &SqliteStore, logs: usize) -> Vec<ExecutionId> {
    let ids: Vec<ExecutionId> = (0..logs).map(|_| ExecutionId::generate()).collect();
    for sequence in 0..5 {
        for id in &ids {
            let append = Append::new(id.clone(), sequence * 10, vec![event(); 10]);
            store.append(append).await.unwrap();
        }
    }
    ids
}

async fn append(store: &SqliteStore, appends: u64) -> Vec<Duration> {
    let id = ExecutionId::generate();
    let mut took = Vec::new();
    for sequence in 0..appends {
        let append = Append::new(id.clone(), sequence, vec![event()]);
        let started = Instant::now();
        store.append(append).await.unwrap();
        took.push(started.elapsed());
    }
    took.sort();
    took
}

async fn retain(
    store: Arc<SqliteStore>,
    old: Vec<ExecutionId>,
    stop: Arc<AtomicBool>,
) -> (usize, u64) {
    let (mut deleted, mut released) = (0, 0);
    for id in old {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        store.delete(Delete::new(id)).await.unwrap();
        deleted += 1;
        if deleted % 8 == 0 {
            released += store.release_space(PAGES).await.unwrap().released;
        }
    }
    (deleted, released)
}
