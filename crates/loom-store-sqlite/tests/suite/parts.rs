//! Logs that arrive in parts: what stands in the file until the last one is there, and how it gets away again.

use std::path::{Path, PathBuf};

use futures_util::TryStreamExt as _;
use loom_spi::{
    Append, Branch, Delete, Event, EventStore, EventStoreExt as _, ExecutionId, ExecutionState,
    FenceToken, Forget, Head, Import, Imported, Inspect, List, LogHead, NewEvent, PlanEpoch,
    PlanFingerprint, PlanLedger, Publish, PublishedPlan, Records, Relocation, SealedRecord,
    StoreErrorKind, Timestamp,
};
use loom_spi::{BranchRegistry, RecordLineage};
use loom_store_sqlite::{Options, SqliteStore};
use rusqlite::Connection;

fn id(name: &str) -> ExecutionId {
    ExecutionId::new(name).unwrap()
}

async fn store() -> (tempfile::TempDir, PathBuf, SqliteStore) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shard.db");
    let store = SqliteStore::create(&path, Options::new()).await.unwrap();
    (directory, path, store)
}

fn number(path: &Path, sql: &str) -> i64 {
    Connection::open(path)
        .unwrap()
        .query_row(sql, [], |row| row.get(0))
        .unwrap()
}

fn count(path: &Path, table: &str) -> i64 {
    number(path, &format!("SELECT count(*) FROM {table}"))
}

/// A sealed log, as a mover has it in its hands.
struct Log {
    id: ExecutionId,
    sealed: SealedRecord,
    events: Vec<Event>,
}

impl Log {
    fn new(name: &str, length: u64, kind: &str) -> Self {
        let at = |sequence: u64| Timestamp::from_millis(1_000 + sequence.cast_signed());
        let events = (0..length).map(|sequence| {
            let new = NewEvent::new(kind, format!("payload of {sequence}"));
            Event::from_new(sequence, new.recorded_at(at(sequence)))
        });
        let head = LogHead::new(length, ExecutionState::Open, at(0), at(length - 1));
        Self {
            id: id(name),
            sealed: SealedRecord::new(Some(head.with_sealed(true)), None, vec![]),
            events: events.collect(),
        }
    }

    fn part(&self, from: usize, until: usize) -> Import {
        let events = self.events[from..until].to_vec();
        Import::new(self.id.clone(), self.sealed.clone(), events)
    }

    fn whole(&self) -> Import {
        self.part(0, self.events.len())
    }

    async fn is_all_there(&self, store: &SqliteStore) {
        let events: Vec<_> = store.read_all(&self.id, 0).try_collect().await.unwrap();
        assert!(events == self.events, "`{}` is another log", self.id);
    }
}

fn staged(next_sequence: u64) -> Imported {
    Imported::Staged { next_sequence }
}

fn plan(epoch: u64) -> PlanEpoch {
    PlanEpoch::new(epoch, PlanFingerprint(epoch.into()))
}

async fn publish(store: &SqliteStore, epoch: u64) {
    let expected = (epoch > 1).then(|| plan(epoch - 1));
    let published = PublishedPlan::new(plan(epoch), "plan");
    store
        .publish(Publish::new(published, expected))
        .await
        .unwrap();
}

/// Removes all events of logs that were dropped.
async fn reclaim(store: &SqliteStore) {
    while store.release_space(1).await.unwrap().reclaiming {}
}

#[tokio::test]
async fn a_log_of_5000_events_appears_with_its_last_part_and_is_not_copied() {
    let (_directory, path, store) = store().await;
    let mut log = Log::new("moving", 5_000, "step");
    log.sealed.fence = Some(FenceToken(7));
    log.sealed.branches = vec![Branch::new(id("branch"), "a")];
    for from in (0..4_900).step_by(100) {
        let answer = store.import(log.part(from, from + 100)).await.unwrap();
        assert_eq!(answer, staged(from as u64 + 100));
        assert_eq!(store.head(Head::new(id("moving"))).await.unwrap(), None);
    }
    let inspect = || store.inspect(Inspect::new(id("moving")));
    assert_eq!(inspect().await.unwrap(), None);
    let listed = store.list(List::new(9)).await.unwrap();
    assert!(listed.executions.is_empty());
    let records = store.records(Records::new(9)).await.unwrap();
    assert!(records.records.is_empty());
    assert_eq!(count(&path, "edges"), 0);
    let first = "SELECT position FROM events WHERE seq = 0";
    let position = number(&path, first);

    let answer = store.import(log.part(4_900, 5_000)).await.unwrap();
    assert_eq!(answer, Imported::Visible);
    log.is_all_there(&store).await;
    let record = inspect().await.unwrap().unwrap();
    assert_eq!((record.fence, record.branches), (Some(FenceToken(7)), 1));
    assert!(!record.sealed);
    assert_eq!(number(&path, first), position);
    assert_eq!(count(&path, "events"), 5_000);
    assert_eq!((count(&path, "staged"), count(&path, "garbage")), (0, 0));
}

#[tokio::test]
async fn parts_are_still_there_after_reopening() {
    let (_directory, path, mut store) = store().await;
    let log = Log::new("moving", 60, "step");
    for from in [0, 20] {
        store.import(log.part(from, from + 20)).await.unwrap();
        // Not closed first: it has to come through without.
        drop(store);
        store = SqliteStore::open(&path, Options::new()).await.unwrap();
    }
    // Another mover starts at the beginning.
    assert_eq!(store.import(log.part(0, 20)).await.unwrap(), staged(40));
    // The number of a log that is staged is not given to another.
    let other = Append::new(id("other"), 0, vec![NewEvent::new("step", "")]);
    store.append(other).await.unwrap();
    let answer = store.import(log.part(40, 60)).await.unwrap();
    assert_eq!(answer, Imported::Visible);
    log.is_all_there(&store).await;
}

#[tokio::test]
async fn movers_that_share_a_log_go_on_where_the_other_one_is() {
    let (_directory, path, one) = store().await;
    let two = SqliteStore::open(&path, Options::new()).await.unwrap();
    let log = Log::new("moving", 10, "step");
    assert_eq!(one.import(log.part(0, 3)).await.unwrap(), staged(3));
    assert_eq!(two.import(log.part(0, 5)).await.unwrap(), staged(5));
    assert_eq!(one.import(log.part(3, 4)).await.unwrap(), staged(5));
    assert_eq!(one.import(log.part(4, 7)).await.unwrap(), staged(7));

    let gap = two.import(log.part(8, 10)).await.unwrap_err();
    let StoreErrorKind::InvalidArgument { reason } = gap.kind() else {
        panic!("{gap}");
    };
    assert!(reason.contains("begins at sequence 8"), "{reason}");

    let mut other = Log::new("moving", 10, "step");
    other.events[6].payload = "another one".into();
    for import in [other.part(6, 10), other.whole()] {
        let refused = two.import(import).await.unwrap_err();
        let StoreErrorKind::RecordConflict { reason } = refused.kind() else {
            panic!("{refused}");
        };
        assert!(reason.contains("event 6 has another payload"), "{reason}");
    }
    assert_eq!(count(&path, "events"), 7);

    assert_eq!(two.import(log.whole()).await.unwrap(), Imported::Visible);
    let answer = one.import(log.part(7, 10)).await.unwrap();
    assert_eq!(answer, Imported::AlreadyThere);
    log.is_all_there(&one).await;
}

#[tokio::test]
async fn a_log_that_was_made_anew_on_the_source_replaces_the_parts_of_the_old_one() {
    let (_directory, path, store) = store().await;
    let old = Log::new("moving", 2_000, "old");
    let new = Log::new("moving", 30, "new");
    store.import(old.part(0, 1_500)).await.unwrap();
    let refused = store.import(new.part(10, 20)).await.unwrap_err();
    assert!(
        matches!(refused.kind(), StoreErrorKind::InvalidArgument { .. }),
        "{refused}"
    );
    // The refusal changed nothing.
    let answer = store.import(old.part(1_500, 1_600)).await.unwrap();
    assert_eq!(answer, staged(1_600));

    assert_eq!(store.import(new.part(0, 10)).await.unwrap(), staged(10));
    assert_eq!(count(&path, "staged"), 1);
    let answer = store.import(new.part(10, 30)).await.unwrap();
    assert_eq!(answer, Imported::Visible);
    new.is_all_there(&store).await;
    reclaim(&store).await;
    assert_eq!(count(&path, "events"), 30);
}

#[tokio::test]
async fn what_was_not_completed_goes_with_the_plan() {
    let (_directory, path, store) = store().await;
    publish(&store, 1).await;
    let log = Log::new("moving", 3_000, "step");
    let part = |from, until| log.part(from, until).with_epoch(plan(1));
    store.import(part(0, 1_000)).await.unwrap();
    // Publishing what is current changes nothing.
    publish(&store, 1).await;
    store.import(part(1_000, 2_000)).await.unwrap();

    publish(&store, 2).await;
    assert_eq!(count(&path, "staged"), 0);
    let part = |from, until| log.part(from, until).with_epoch(plan(2));
    let refused = store.import(part(2_000, 3_000)).await.unwrap_err();
    assert!(
        matches!(refused.kind(), StoreErrorKind::InvalidArgument { .. }),
        "{refused}"
    );
    reclaim(&store).await;
    assert_eq!((count(&path, "events"), count(&path, "garbage")), (0, 0));

    store.import(part(0, 2_000)).await.unwrap();
    let answer = store.import(part(2_000, 3_000)).await.unwrap();
    assert_eq!(answer, Imported::Visible);
}

#[tokio::test]
async fn a_mark_keeps_an_import_out_and_drops_its_parts_until_the_next_plan() {
    let (_directory, path, store) = store().await;
    publish(&store, 1).await;
    let event = || vec![NewEvent::new("step", "")];
    let under = plan(1);

    let deleted = Log::new("deleted", 10, "step");
    store
        .import(deleted.part(0, 5).with_epoch(under))
        .await
        .unwrap();
    let append = Append::new(id("deleted"), 0, event()).with_epoch(under);
    store.append(append).await.unwrap();
    let delete = Delete::new(id("deleted")).with_mark(true);
    store.delete(delete.with_epoch(under)).await.unwrap();
    assert_eq!(count(&path, "staged"), 0);

    let forgotten = Log::new("forgotten", 10, "step");
    let edge = RecordLineage::new(id("forgotten"), id("branch"), String::new());
    store.record_lineage(edge.with_epoch(under)).await.unwrap();
    let forget = Forget::new(id("forgotten")).with_mark(true);
    let removed = store.forget(forget.with_epoch(under)).await.unwrap();
    assert_eq!(removed, 1);

    for log in [&deleted, &forgotten] {
        for import in [log.part(0, 5), log.whole()] {
            let refused = store.import(import.with_epoch(under)).await.unwrap_err();
            assert_eq!(refused.kind(), &StoreErrorKind::DeletedHere);
        }
    }
    let unmarked = Append::new(id("unmarked"), 0, event()).with_epoch(under);
    store.append(unmarked).await.unwrap();
    let delete = Delete::new(id("unmarked")).with_epoch(under);
    store.delete(delete).await.unwrap();
    let log = Log::new("unmarked", 10, "step");
    let answer = store.import(log.whole().with_epoch(under)).await.unwrap();
    assert_eq!(answer, Imported::Visible);

    publish(&store, 2).await;
    for log in [&deleted, &forgotten] {
        let answer = store.import(log.whole().with_epoch(plan(2))).await.unwrap();
        assert_eq!(answer, Imported::Visible);
    }
}

#[tokio::test]
async fn parts_of_a_log_that_is_there_after_all_are_dropped() {
    let (_directory, path, store) = store().await;
    let log = Log::new("moving", 4, "step");
    store.import(log.part(0, 2)).await.unwrap();
    // Somebody else brings the same log in another way.
    let new = log.events.iter().map(|event| {
        NewEvent::new(&*event.kind, event.payload.clone()).recorded_at(event.recorded_at)
    });
    store
        .append(Append::new(id("moving"), 0, new.collect()))
        .await
        .unwrap();
    assert_eq!(store.import(log.part(0, 2)).await.unwrap(), staged(2));
    let answer = store.import(log.part(2, 4)).await.unwrap();
    assert_eq!(answer, Imported::AlreadyThere);
    assert_eq!(count(&path, "staged"), 0);
    reclaim(&store).await;
    assert_eq!(count(&path, "events"), 4);
    log.is_all_there(&store).await;
}

#[tokio::test]
async fn events_whose_times_are_not_those_of_the_sealed_log_are_refused() {
    let (_directory, path, store) = store().await;
    for (length, at) in [(3, 0), (3, 2), (1, 0)] {
        let mut log = Log::new("moving", length, "step");
        log.events[at].recorded_at = Timestamp::from_millis(7);
        let refused = store.import(log.whole()).await.unwrap_err();
        let StoreErrorKind::InvalidArgument { reason } = refused.kind() else {
            panic!("{refused}");
        };
        assert!(reason.contains("expected 100"), "{reason}");
    }
    assert_eq!((count(&path, "records"), count(&path, "events")), (0, 0));
}

#[tokio::test]
async fn a_log_longer_than_any_can_be_is_refused() {
    let (_directory, _path, store) = store().await;
    for length in [i64::MAX as u64 + 1, u64::MAX] {
        let mut log = Log::new("moving", 3, "step");
        log.sealed.head.as_mut().unwrap().next_sequence = length;
        let refused = store.import(log.whole()).await.unwrap_err();
        assert!(
            matches!(refused.kind(), StoreErrorKind::InvalidArgument { .. }),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn damage_to_what_was_staged_is_reported() {
    let (_directory, path, store) = store().await;
    let log = Log::new("moving", 10, "step");
    store.import(log.part(0, 5)).await.unwrap();
    let damages = [
        "UPDATE staged SET next_seq = 10",
        "UPDATE staged SET next_seq = 0",
        "UPDATE staged SET next_seq = -1",
        "UPDATE staged SET next_seq = 5; DELETE FROM events WHERE seq = 3",
        "UPDATE events SET kind = cast(x'ff' AS TEXT)",
    ];
    for damage in damages {
        Connection::open(&path)
            .unwrap()
            .execute_batch(damage)
            .unwrap();
        let error = store.import(log.whole()).await.unwrap_err();
        assert!(
            matches!(error.kind(), StoreErrorKind::Corrupt { .. }),
            "{damage}: {error}"
        );
        assert_eq!(error.execution(), Some(&id("moving")));
    }
}

#[tokio::test]
async fn a_delete_that_damage_is_in_the_way_of_leaves_the_log() {
    let (_directory, path, store) = store().await;
    let log = Log::new("moving", 10, "step");
    store.import(log.part(0, 5)).await.unwrap();
    let append = Append::new(id("moving"), 0, vec![NewEvent::new("step", "")]);
    store.append(append).await.unwrap();
    Connection::open(&path)
        .unwrap()
        .execute_batch("UPDATE staged SET next_seq = -1")
        .unwrap();
    let delete = Delete::new(id("moving")).with_mark(true);
    let error = store.delete(delete).await.unwrap_err();
    assert!(
        matches!(error.kind(), StoreErrorKind::Corrupt { .. }),
        "{error}"
    );
    assert_eq!((count(&path, "garbage"), count(&path, "deletions")), (0, 0));
    reclaim(&store).await;
    let head = store.head(Head::new(id("moving"))).await.unwrap();
    assert_eq!(head.unwrap().next_sequence, 1);
}
