//! What is stored on a failing disk, and whether it is still there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use futures_util::TryStreamExt as _;
use loom_spi::{Append, Delete, EventStore, EventStoreExt as _, ExecutionId, Head, List, NewEvent};
use loom_store_sqlite::{Options, SqliteStore};
use rusqlite::Connection;

const WRITERS: usize = 6;
/// How many events the appends to one log have, in turn.
const SIZES: [usize; 6] = [3, 1, 2, 3, 1, 2];
/// How long a log gets.
const LAST: u64 = 12;
/// Logs with such a name are deleted once they are finished.
const DELETED: char = '3';

/// By id, the length that was acknowledged last; 0 when it was deleted.
pub(crate) type Acknowledged = BTreeMap<String, u64>;

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap()
}

/// Appends from several tasks, to `logs` logs each at most, until it fails.
pub(crate) async fn append_until_it_fails(
    store: &Arc<SqliteStore>,
    round: usize,
    logs: usize,
    acknowledged: &mut Acknowledged,
) {
    let shared = Arc::new(Mutex::new(Acknowledged::new()));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (store, shared) = (Arc::clone(store), Arc::clone(&shared));
            tokio::spawn(async move {
                for n in 0..logs {
                    let name = format!("{round}-{writer}-{n}");
                    append_one_log(&store, &name, &shared).await?;
                }
                Ok::<(), loom_spi::StoreError>(())
            })
        })
        .collect();
    for writer in writers {
        // How it ended does not matter: what it acknowledged does.
        drop(writer.await.unwrap());
    }
    acknowledged.append(&mut shared.lock().unwrap());
}

async fn append_one_log(
    store: &SqliteStore,
    name: &str,
    acknowledged: &Mutex<Acknowledged>,
) -> Result<(), loom_spi::StoreError> {
    let acknowledge = |next| {
        let mut acknowledged = acknowledged.lock().unwrap();
        acknowledged.insert(name.to_owned(), next);
    };
    let id = ExecutionId::new(name).unwrap();
    let mut next = 0;
    for size in SIZES {
        let event = NewEvent::new("step", format!("{size:>900}"));
        let append = Append::new(id.clone(), next, vec![event; size]);
        next = store.append(append).await?.next_sequence;
        acknowledge(next);
    }
    assert_eq!(next, LAST);
    if name.ends_with(DELETED) {
        store.delete(Delete::new(id)).await?;
        acknowledge(0);
    }
    Ok(())
}

/// Looks for everything that was acknowledged, and panics if anything is half there. Returns what is missing.
pub(crate) async fn missing(path: &Path, acknowledged: &Acknowledged) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let sound: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(sound, "ok");
    drop(connection);

    let store = SqliteStore::open(path, Options::new()).await.unwrap();
    let mut missing = Vec::new();
    for (name, next) in acknowledged {
        let id = ExecutionId::new(name).unwrap();
        let head = store.head(Head::new(id)).await.unwrap();
        let found = head.map_or(0, |head| head.next_sequence);
        // The deletion of a finished log may have been made without being acknowledged.
        let deleted = *next == 0 || (*next == LAST && name.ends_with(DELETED) && found == 0);
        if deleted && found > 0 {
            missing.push(format!("the deletion of `{name}`"));
        } else if !deleted && found < *next {
            missing.push(format!("{} of {next} events of `{name}`", next - found));
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
    missing
}
