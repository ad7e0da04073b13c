//! A process that moves records from one file to another is killed at random moments: what it reported as
//! acknowledged is so, no record is lost or torn, and the next process finishes the moves.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use loom_spi::{
    AcquireFence, Append, BranchRegistry, Event, EventStore, EventStoreExt as _, ExecutionId,
    FenceToken, Fencing, Import, Imported, Inspect, ListCursor, NewEvent, Parent, Read,
    RecordLineage, RecordSummary, Records, Relocation, Retire, Seal, SealedRecord, StoreError,
    StoreErrorKind,
};
use loom_store_sqlite::{Options, SqliteStore};

use crate::killed::{self, report, runtime};

const ROUNDS: usize = 12;
const MOVERS: usize = 4;
/// How many events a log has.
const EVENTS: u64 = 40;
/// How many of them move at once.
const PART: usize = 7;

#[test]
fn a_killed_mover_loses_no_record_and_no_step_that_was_acknowledged() {
    if let Some((directory, round)) = killed::child() {
        return move_until_killed(&directory, &round);
    }
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    runtime().block_on(async {
        for name in ["source.db", "destination.db"] {
            let store = SqliteStore::create(directory.join(name), Options::new());
            store.await.unwrap();
        }
    });
    let mut acknowledged = BTreeMap::new();
    let test = "kill_mover::a_killed_mover_loses_no_record_and_no_step_that_was_acknowledged";
    killed::rounds(test, directory, ROUNDS, |reports| {
        for report in reports {
            let (name, step) = report.split_once(' ').unwrap();
            let known = acknowledged
                .entry(name.to_owned())
                .or_insert_with(Acknowledged::default);
            known.add(step);
        }
        runtime().block_on(verify(directory, &acknowledged));
    });

    runtime().block_on(async {
        let (source, destination) = open(directory).await;
        finish_all(&source, &destination).await;
        assert!(all(&source).await.is_empty());
        for (name, known) in &acknowledged {
            let moved = destination.inspect(Inspect::new(id(name))).await.unwrap();
            is_whole(&destination, &moved.expect(name), *known).await;
        }
        source.close().await.unwrap();
        destination.close().await.unwrap();
    });
    let staged = rusqlite::Connection::open(directory.join("destination.db"))
        .unwrap()
        .query_row("SELECT count(*) FROM staged", [], |row| {
            row.get::<_, i64>(0)
        })
        .unwrap();
    assert_eq!(staged, 0);
}

/// What was acknowledged of a record.
#[derive(Clone, Copy, Debug, Default)]
struct Acknowledged {
    /// All its parts. A process may be killed before it has made them all, and the next one moves what there is.
    made: bool,
    /// The last step of its move.
    step: Step,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    #[default]
    None,
    Sealed,
    Staged(u64),
    Visible,
    Retired,
}

impl Acknowledged {
    fn add(&mut self, report: &str) {
        let step = match report {
            "made" => return self.made = true,
            "sealed" => Step::Sealed,
            "visible" => Step::Visible,
            "retired" => Step::Retired,
            staged => Step::Staged(staged.parse().unwrap()),
        };
        self.step = step.max(self.step);
    }
}

fn id(name: &str) -> ExecutionId {
    ExecutionId::new(name).unwrap()
}

async fn open(directory: &Path) -> (Arc<SqliteStore>, Arc<SqliteStore>) {
    let open = async |name| {
        let store = SqliteStore::open(directory.join(name), Options::new()).await;
        Arc::new(store.unwrap())
    };
    (open("source.db").await, open("destination.db").await)
}

async fn verify(directory: &Path, acknowledged: &BTreeMap<String, Acknowledged>) {
    let (source, destination) = open(directory).await;
    for (name, &known) in acknowledged {
        let step = known.step;
        let there = source.inspect(Inspect::new(id(name))).await.unwrap();
        let here = destination.inspect(Inspect::new(id(name))).await.unwrap();
        assert!(there.is_some() || here.is_some(), "`{name}` is lost");
        if let Some(there) = &there {
            assert!(step < Step::Retired, "`{name}` came back");
            assert!(there.sealed || step < Step::Sealed, "`{name}` is unsealed");
            is_whole(&source, there, known).await;
        } else {
            let parent = Parent::new(id(&format!("{name}-branch")));
            assert_eq!(source.parent(parent).await.unwrap(), None);
        }
        if let Some(here) = &here {
            assert!(!here.sealed);
            is_whole(&destination, here, known).await;
        } else {
            assert!(step < Step::Visible, "`{name}` is not there");
            if let Step::Staged(next) = step {
                let sealed = source.seal(Seal::new(id(name))).await.unwrap();
                let first = page(&source, name, 0, 1).await.unwrap();
                let answer = destination.import(Import::new(id(name), sealed, first));
                let answer = answer.await.unwrap();
                assert!(
                    matches!(answer, Imported::Staged { next_sequence } if next_sequence >= next),
                    "of `{name}` {next} events were staged: {answer:?}"
                );
            }
        }
    }
    source.close().await.unwrap();
    destination.close().await.unwrap();
}

/// A log is there whole, and all that was acknowledged of the record beside it.
async fn is_whole(store: &SqliteStore, record: &RecordSummary, known: Acknowledged) {
    let name = record.id.as_str();
    let events: Vec<_> = store.read_all(&record.id, 0).try_collect().await.unwrap();
    assert_eq!(events.len() as u64, EVENTS, "`{name}`");
    for (event, sequence) in events.iter().zip(0..) {
        assert_eq!(*event.payload, *payload(name, sequence).as_bytes());
    }
    if !known.made {
        return;
    }
    assert_eq!(record.fence, Some(FenceToken(1)), "`{name}`");
    assert_eq!(record.branches, 1, "`{name}`");
    let parent = Parent::new(id(&format!("{name}-branch")));
    let parent = store.parent(parent).await.unwrap().unwrap();
    assert_eq!(parent.parent, record.id);
}

fn payload(name: &str, sequence: u64) -> String {
    format!("{name} {sequence}")
}

fn move_until_killed(directory: &Path, round: &str) {
    runtime().block_on(async {
        let (source, destination) = open(directory).await;
        finish_all(&source, &destination).await;
        let movers: Vec<_> = (0..MOVERS)
            .map(|mover| {
                let (source, destination) = (Arc::clone(&source), Arc::clone(&destination));
                let prefix = format!("{round}-{mover}");
                tokio::spawn(async move {
                    for n in 0.. {
                        let name = format!("{prefix}-{n}");
                        make(&source, &name).await;
                        move_record(&source, &destination, &name).await;
                    }
                })
            })
            .collect();
        for mover in movers {
            mover.await.unwrap();
        }
    });
}

async fn make(store: &SqliteStore, name: &str) {
    let events = (0..EVENTS).map(|sequence| NewEvent::new("step", payload(name, sequence)));
    let append = Append::new(id(name), 0, events.collect());
    store.append(append).await.unwrap();
    let fence = AcquireFence::new(id(name)).with_holder("maker".to_owned());
    store.acquire_fence(fence).await.unwrap();
    let branch = id(&format!("{name}-branch"));
    let edge = RecordLineage::new(id(name), branch, "branch".into());
    store.record_lineage(edge).await.unwrap();
    report(&format!("{name} made"));
}

/// Finishes what an earlier process began, as two movers that get in each other's way.
async fn finish_all(source: &Arc<SqliteStore>, destination: &Arc<SqliteStore>) {
    let names: Vec<_> = all(source).await;
    let movers: Vec<_> = (0..2)
        .map(|_| {
            let (source, destination) = (Arc::clone(source), Arc::clone(destination));
            let names = names.clone();
            tokio::spawn(async move {
                for name in names {
                    move_record(&source, &destination, &name).await;
                }
            })
        })
        .collect();
    for mover in movers {
        mover.await.unwrap();
    }
}

async fn all(store: &SqliteStore) -> Vec<String> {
    let mut names = Vec::new();
    let mut cursor: Option<ListCursor> = None;
    loop {
        let page = store.records(Records::new(50).with_cursor(cursor)).await;
        let page = page.unwrap();
        names.extend(page.records.iter().map(|record| record.id.to_string()));
        cursor = page.next;
        if cursor.is_none() {
            return names;
        }
    }
}

/// Each step may be the one that another mover has made already.
async fn move_record(source: &SqliteStore, destination: &SqliteStore, name: &str) {
    let Some(sealed) = unless_gone(source.seal(Seal::new(id(name))).await) else {
        return;
    };
    report(&format!("{name} sealed"));
    let mut next = 0;
    loop {
        let Some(part) = page(source, name, next, PART).await else {
            return;
        };
        let import = Import::new(id(name), SealedRecord::clone(&sealed), part);
        match destination.import(import).await.unwrap() {
            Imported::Staged { next_sequence } => {
                next = next_sequence;
                // What a mover compares with a record that is visible it may call staged as well.
                report(&format!("{name} {next}"));
            }
            _ => break,
        }
    }
    report(&format!("{name} visible"));
    let retired = source.retire(Retire::new(id(name))).await;
    unless_gone(retired);
    report(&format!("{name} retired"));
}

async fn page(store: &SqliteStore, name: &str, from: u64, limit: usize) -> Option<Vec<Event>> {
    let page = store.read(Read::new(id(name), from, limit)).await;
    unless_gone(page).map(|page| page.events)
}

fn unless_gone<T>(answer: Result<T, StoreError>) -> Option<T> {
    match answer {
        Ok(found) => Some(found),
        Err(error) if *error.kind() == StoreErrorKind::NotFound => None,
        Err(error) => panic!("{error}"),
    }
}
