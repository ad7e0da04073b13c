//! A process that appends is killed at random moments: everything that it reported as acknowledged is there, and
//! nothing half.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use loom_spi::{Append, Delete, EventStore, EventStoreExt as _, ExecutionId, Head, List, NewEvent};
use loom_store_sqlite::{Options, SqliteStore};

use crate::killed::{self, runtime};

const ROUNDS: usize = 20;
const WRITERS: usize = 8;

#[test]
fn a_killed_process_loses_nothing_that_was_acknowledged() {
    if let Some((path, round)) = killed::child() {
        return append_until_killed(&path, &round);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shard.db");
    runtime()
        .block_on(SqliteStore::create(&path, Options::new()))
        .unwrap();

    let mut acknowledged = Acknowledged::new();
    let test = "kill::a_killed_process_loses_nothing_that_was_acknowledged";
    killed::rounds(test, &path, ROUNDS, |reports| {
        acknowledged.extend(reports.iter().map(|report| {
            let (id, next) = report.split_once(' ').unwrap();
            (id.to_owned(), next.parse().unwrap())
        }));
        runtime().block_on(verify(&path, &acknowledged));
    });
}

/// By id, the length that was acknowledged last; 0 when it was deleted.
type Acknowledged = BTreeMap<String, u64>;

async fn verify(path: &Path, acknowledged: &Acknowledged) {
    let store = SqliteStore::open(path, Options::new()).await.unwrap();
    for (name, next) in acknowledged {
        let id = ExecutionId::new(name).unwrap();
        let head = store.head(Head::new(id.clone())).await.unwrap();
        let found = head.map_or(0, |head| head.next_sequence);
        // One more append, or the deletion of a finished log, may have been made without being reported.
        let deleted = *next == 0 || (*next == LAST && name.ends_with(DELETED) && found == 0);
        if deleted {
            assert_eq!(found, 0, "`{name}` came back");
        } else {
            assert!(
                found >= *next,
                "`{name}` has {found} events, {next} were acknowledged"
            );
        }
    }
    let all: Vec<_> = store.list_all(List::new(1000)).try_collect().await.unwrap();
    for execution in all {
        let events: Vec<_> = store
            .read_all(&execution.id, 0)
            .try_collect()
            .await
            .unwrap();
        assert_eq!(events.len() as u64, execution.head.next_sequence);
        let mut rest = &events[..];
        while let Some(first) = rest.first() {
            // Each append says in its events how many they are.
            let size: usize = std::str::from_utf8(&first.payload)
                .unwrap()
                .trim()
                .parse()
                .unwrap();
            assert!(rest.len() >= size, "half an append in `{}`", execution.id);
            assert!(
                rest[..size]
                    .iter()
                    .all(|event| event.payload == first.payload)
            );
            rest = &rest[size..];
        }
    }
    store.close().await.unwrap();
}

/// How long a log of the appender gets.
const LAST: u64 = 12;
/// Logs with such a name are deleted once they are finished.
const DELETED: char = '3';

fn append_until_killed(path: &Path, round: &str) {
    runtime().block_on(async {
        let store = Arc::new(SqliteStore::open(path, Options::new()).await.unwrap());
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (store, name) = (Arc::clone(&store), format!("{round}-{writer}"));
                tokio::spawn(async move {
                    for n in 0.. {
                        append_one_log(&store, &format!("{name}-{n}")).await;
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
    });
}

/// Appends 3, 1, 2, 3, 1 and 2 events, and deletes some such logs.
async fn append_one_log(store: &SqliteStore, name: &str) {
    let id = ExecutionId::new(name).unwrap();
    let mut next = 0;
    for size in [3, 1, 2, 3, 1, 2] {
        let event = NewEvent::new("step", format!("{size:>256}"));
        let append = Append::new(id.clone(), next, vec![event; size]);
        next = store.append(append).await.unwrap().next_sequence;
        report(name, next);
    }
    assert_eq!(next, LAST);
    if name.ends_with(DELETED) {
        store.delete(Delete::new(id)).await.unwrap();
        report(name, 0);
    }
}

fn report(name: &str, next: u64) {
    killed::report(&format!("{name} {next}"));
}
