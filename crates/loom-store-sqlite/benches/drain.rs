//! `cargo bench -p loom-store-sqlite --bench drain`: how long a look takes at what a bucket still holds, beside a million
//! other executions.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and may stop by panicking"
)]

use std::time::{Duration, Instant};

use loom_spi::{ExecutionId, Records, Relocation, RouteFilter};
use loom_store_sqlite::{Options, SqliteStore};
use rusqlite::Connection;

const BUCKETS: u64 = 4096;
const LOOKS: u64 = 1_000;

fn main() {
    // `cargo test --benches` only wants to know that it runs.
    let measure = std::env::args().any(|arg| arg == "--bench");
    let records = if measure { 1_000_000 } else { 1_000 };
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("shard.db");
    let created = runtime.block_on(SqliteStore::create(&path, Options::new()));
    runtime.block_on(created.unwrap().close()).unwrap();
    fill(&mut Connection::open(&path).unwrap(), records);

    // Every other bucket is drained.
    for (what, first) in [("drained", 1), ("held", 0)] {
        let opened = runtime.block_on(SqliteStore::open(&path, Options::new()));
        let store = opened.unwrap();
        let mut times: Vec<Duration> = (0..LOOKS)
            .map(|n| {
                let bucket = (first + 2 * n) % BUCKETS;
                let route = RouteFilter::new(BUCKETS, bucket).unwrap();
                let request = Records::new(1).with_route(route);
                let started = Instant::now();
                let found = runtime.block_on(store.records(request)).unwrap();
                let took = started.elapsed();
                assert!(!measure || found.records.is_empty() == (what == "drained"));
                took
            })
            .collect();
        times.sort_unstable();
        let at = |part: usize| times[(times.len() - 1) * part / 100];
        println!(
            "{what:<8} of {BUCKETS} buckets, beside {records} records: {:?} (median), {:?} (99 %), {:?} (slowest)",
            at(50),
            at(99),
            at(100)
        );
        runtime.block_on(store.close()).unwrap();
    }
}

/// Adds records with a log each, in every other bucket.
fn fill(connection: &mut Connection, records: usize) {
    let ids = (0..).map(|n| ExecutionId::new(format!("order-{n}")).unwrap());
    let mut ids: Vec<_> = ids
        .filter(|id| (id.route_hash().0 % BUCKETS).is_multiple_of(2))
        .take(records)
        .collect();
    ids.sort_unstable_by_key(|id| id.route_hash().index_key());
    let transaction = connection.transaction().unwrap();
    let mut insert = transaction
        .prepare(
            "INSERT INTO records
             VALUES (NULL, ?1, ?2, ?3, 10, 0, 0, 0, 1, 'worker', 1, NULL, 0, 0)",
        )
        .unwrap();
    for (id, log) in ids.iter().zip(1_i64..) {
        insert
            .execute((id.route_hash().index_key(), id.as_str(), log))
            .unwrap();
    }
    drop(insert);
    transaction.commit().unwrap();
}
