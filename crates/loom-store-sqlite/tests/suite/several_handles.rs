//! Several handles on one file, in one process and in several, see each other's commits.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use loom_spi::{
    AcquireFence, Append, Delete, EventStore, EventStoreExt as _, ExecutionId, FenceToken, Fencing,
    Head, List, NewEvent, PlanEpoch, PlanFingerprint, PlanLedger, Publish, PublishedPlan, Read,
    StoreErrorKind,
};
use loom_store_sqlite::{Options, SqliteStore};

use futures_util::TryStreamExt as _;

/// Tells the process that the test starts which file to use, and as whom.
const CHILD: &str = "LOOM_TEST_RACER";
const EVENTS: usize = 60;
const LOGS: usize = 3;

fn id(name: &str) -> ExecutionId {
    ExecutionId::new(name).unwrap()
}

fn event(payload: &str) -> NewEvent {
    NewEvent::new("step", payload.to_owned())
}

async fn two_handles() -> (tempfile::TempDir, SqliteStore, SqliteStore) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shard.db");
    let one = SqliteStore::create(&path, Options::new()).await.unwrap();
    let two = SqliteStore::open(&path, Options::new()).await.unwrap();
    (directory, one, two)
}

#[tokio::test]
async fn a_handle_notices_what_another_one_changed_since_it_last_wrote() {
    let (_directory, one, two) = two_handles().await;
    let append = |expected| Append::new(id("order-7"), expected, vec![event("")]);

    // Both know the record from an append of their own; each change comes from the other.
    one.append(append(0)).await.unwrap();
    two.append(append(1)).await.unwrap();
    one.append(append(2)).await.unwrap();

    let token = two
        .acquire_fence(AcquireFence::new(id("order-7")))
        .await
        .unwrap();
    let refused = one.append(append(3)).await.unwrap_err();
    assert_eq!(
        refused.kind(),
        &StoreErrorKind::Fenced {
            presented: None,
            current: token
        }
    );
    one.append(append(3).with_fence(token)).await.unwrap();

    two.delete(Delete::new(id("order-7"))).await.unwrap();
    one.append(append(0).with_fence(token)).await.unwrap();
    let page = two.read(Read::new(id("order-7"), 0, 10)).await.unwrap();
    assert_eq!(page.events.len(), 1);

    let next = one
        .acquire_fence(AcquireFence::new(id("order-7")))
        .await
        .unwrap();
    assert_eq!(next, FenceToken(token.0 + 1));
    assert!(two.append(append(1).with_fence(token)).await.is_err());
}

#[tokio::test]
async fn a_handle_judges_by_the_plan_that_another_one_published() {
    let (_directory, one, two) = two_handles().await;
    let plan = |epoch| PlanEpoch::new(epoch, PlanFingerprint(epoch.into()));
    let append = |expected| Append::new(id("order-7"), expected, vec![event("")]);
    let mut current = None;
    for epoch in 1..=3 {
        let published = PublishedPlan::new(plan(epoch), "plan");
        one.publish(Publish::new(published, current)).await.unwrap();
        current = Some(plan(epoch));
        two.append(append(epoch - 1).with_epoch(plan(epoch)))
            .await
            .unwrap();
    }
    let stale = append(3).with_epoch(plan(2));
    for store in [&one, &two] {
        let refused = store.append(stale.clone()).await.unwrap_err();
        assert!(
            matches!(refused.kind(), StoreErrorKind::StalePlan { .. }),
            "{refused}"
        );
    }
    assert_eq!(two.current().await.unwrap().map(|plan| plan.epoch), current);
}

#[tokio::test]
async fn an_open_reader_does_not_keep_a_handle_from_closing() {
    let (_directory, one, two) = two_handles().await;
    one.append(Append::new(id("order-7"), 0, vec![event("")]))
        .await
        .unwrap();
    one.close().await.unwrap();
    assert!(two.head(Head::new(id("order-7"))).await.unwrap().is_some());
    two.append(Append::new(id("order-7"), 1, vec![event("")]))
        .await
        .unwrap();
}

#[test]
fn processes_that_race_for_the_same_logs_get_each_place_once() {
    if let Some(path) = std::env::var_os(CHILD) {
        return race(Path::new(&path), "child");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shard.db");
    let create = SqliteStore::create(&path, Options::new());
    runtime().block_on(create).unwrap();

    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "several_handles::processes_that_race_for_the_same_logs_get_each_place_once",
        ])
        .env(CHILD, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    race(&path, "parent");
    let output = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    assert!(output.contains("1 passed"), "{output}");

    runtime().block_on(async {
        let store = SqliteStore::open(&path, Options::new()).await.unwrap();
        let mut found = BTreeSet::new();
        for log in 0..LOGS {
            let log = id(&format!("log-{log}"));
            let events: Vec<_> = store.read_all(&log, 0).try_collect().await.unwrap();
            for event in events {
                let payload = String::from_utf8(event.payload.to_vec()).unwrap();
                assert!(found.insert(payload), "stored twice");
            }
        }
        let wanted = ["child", "parent"].iter().flat_map(|who| {
            (0..LOGS).flat_map(move |log| (0..EVENTS).map(move |n| format!("{who} {log} {n}")))
        });
        assert_eq!(found, wanted.collect());
        let listed: Vec<_> = store.list_all(List::new(2)).try_collect().await.unwrap();
        assert_eq!(listed.len(), LOGS);
    });
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap()
}

/// Appends to logs that somebody else appends to as well.
fn race(path: &Path, who: &'static str) {
    runtime().block_on(async {
        let options = Options::new().with_busy_timeout(Duration::from_secs(60));
        let store = std::sync::Arc::new(SqliteStore::open(path, options).await.unwrap());
        let racers: Vec<_> = (0..LOGS)
            .map(|log| tokio::spawn(append_all(std::sync::Arc::clone(&store), log, who)))
            .collect();
        for racer in racers {
            racer.await.unwrap();
        }
        store.close().await.unwrap();
    });
}

async fn append_all(store: std::sync::Arc<SqliteStore>, log: usize, who: &str) {
    let mut expected = 0;
    for n in 0..EVENTS {
        let event = event(&format!("{who} {log} {n}"));
        loop {
            let append = Append::new(id(&format!("log-{log}")), expected, vec![event.clone()]);
            match store.append(append).await {
                Ok(appended) => break expected = appended.next_sequence,
                Err(error) => match error.kind() {
                    StoreErrorKind::SequenceConflict { actual, .. } => expected = *actual,
                    other => panic!("{other}"),
                },
            }
        }
    }
}
