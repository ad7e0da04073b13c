//! Copies of stores that are being written to, and whether a file is sound.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loom_spi::{
    Append, BranchRegistry, Delete, DeploymentId, EventStore, ExecutionId, Head, NewEvent,
    PlanEpoch, PlanFingerprint, PlanLedger, Publish, PublishedPlan, RecordLineage, ShardIdentity,
};
use loom_store_sqlite::{Options, ShardCopy, SqliteStore, back_up, verify};
use rusqlite::Connection;

fn id(name: impl Into<String>) -> ExecutionId {
    ExecutionId::new(name.into()).unwrap()
}

fn append(id: &ExecutionId, expected: u64) -> Append {
    Append::new(
        id.clone(),
        expected,
        vec![NewEvent::new("step", vec![7; 300]); 2],
    )
}

fn identity(shard: u16) -> ShardIdentity {
    ShardIdentity::new(DeploymentId::new("orders").unwrap(), shard)
}

async fn store(path: &Path, shard: u16) -> SqliteStore {
    let options = Options::new().with_identity(identity(shard));
    SqliteStore::create(path, options).await.unwrap()
}

fn copies(folder: &Path, n: u16) -> Vec<ShardCopy> {
    let copy = |shard| ShardCopy {
        from: folder.join(format!("shard-{shard}.db")),
        to: folder.join(format!("copy-{shard}.db")),
    };
    (0..n).map(copy).collect()
}

#[tokio::test]
async fn a_copy_has_the_identity_the_plan_and_every_log() {
    let folder = tempfile::tempdir().unwrap();
    let copies = copies(folder.path(), 1);
    let store = store(&copies[0].from, 0).await;
    let plan = PlanEpoch::new(1, PlanFingerprint(1));
    let publish = Publish::new(PublishedPlan::new(plan, "plan"), None);
    store.publish(publish).await.unwrap();
    for n in 0..50 {
        let id = id(format!("order-{n}"));
        for expected in [0, 2, 4] {
            let append = append(&id, expected).with_epoch(plan);
            store.append(append).await.unwrap();
        }
        let delete = Delete::new(id.clone()).with_epoch(plan);
        if n % 5 == 0 {
            store.delete(delete).await.unwrap();
        }
    }
    let mut last = (0, 0);
    let sizes = back_up(&copies, |done, of| last = (done, of)).unwrap();
    assert_eq!(last.0, last.1);
    assert_eq!(sizes, [copies[0].to.metadata().unwrap().len()]);

    let verified = verify(&copies[0].to).unwrap();
    assert_eq!(verified.problems, Vec::<String>::new());
    assert_eq!(verified.identity, Some(identity(0)));
    assert_eq!(verified.plan, Some(PublishedPlan::new(plan, "plan")));
    assert_eq!((verified.executions, verified.events), (40, 240));
    let files = std::fs::read_dir(folder.path()).unwrap();
    let beside = files.filter(|file| {
        let name = file.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with("copy-")
    });
    assert_eq!(beside.count(), 1);

    let copy = SqliteStore::open(&copies[0].to, Options::new().with_identity(identity(0)));
    let copy = copy.await.unwrap();
    let head = Head::new(id("order-1")).with_epoch(plan);
    assert_eq!(
        copy.head(head.clone()).await.unwrap(),
        store.head(head).await.unwrap()
    );
}

/// Two logs on two stores grow in turn, so that at any moment one is at most one append ahead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_of_several_stores_are_of_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let stores = [
        store(&folder.path().join("shard-0.db"), 0).await,
        store(&folder.path().join("shard-1.db"), 1).await,
    ];
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let stop = Arc::clone(&stop);
        async move {
            let id = id("order-7");
            let mut next = 0;
            while !stop.load(Ordering::SeqCst) {
                for store in &stores {
                    store.append(append(&id, next)).await.unwrap();
                }
                next += 2;
            }
            next
        }
    });
    for round in 0..10 {
        let mut copies = copies(folder.path(), 2);
        for copy in &mut copies {
            copy.to.set_extension(format!("{round}"));
        }
        let to: Vec<PathBuf> = copies.iter().map(|copy| copy.to.clone()).collect();
        let backed_up = tokio::task::spawn_blocking(move || back_up(&copies, |_, _| {}));
        backed_up.await.unwrap().unwrap();
        let events: Vec<u64> = to.iter().map(|to| verify(to).unwrap().events).collect();
        let ahead = events[0].checked_sub(events[1]);
        assert!(matches!(ahead, Some(0 | 2)), "{events:?}");
        assert!(to.iter().all(|to| verify(to).unwrap().problems.is_empty()));
    }
    stop.store(true, Ordering::SeqCst);
    assert!(writer.await.unwrap() > 0);
}

#[tokio::test]
async fn a_copy_replaces_no_file_and_the_rest_of_an_interrupted_one_is_in_nobodys_way() {
    let folder = tempfile::tempdir().unwrap();
    let copies = copies(folder.path(), 1);
    store(&copies[0].from, 0).await.close().await.unwrap();
    let partial = folder.path().join("copy-0.db.partial");
    std::fs::write(&partial, "cut off").unwrap();
    back_up(&copies, |_, _| {}).unwrap();
    assert!(!partial.exists());
    let before = std::fs::read(&copies[0].to).unwrap();
    let error = back_up(&copies, |_, _| {}).unwrap_err();
    assert!(error.to_string().contains("copy-0.db"), "{error}");
    assert_eq!(std::fs::read(&copies[0].to).unwrap(), before);

    let missing = ShardCopy {
        from: folder.path().join("typo.db"),
        to: folder.path().join("copy-of-typo.db"),
    };
    let error = back_up(std::slice::from_ref(&missing), |_, _| {}).unwrap_err();
    assert!(error.to_string().contains("there is no file"), "{error}");
    assert!(!missing.from.exists());
}

#[tokio::test]
async fn what_contradicts_the_format_is_found() {
    for (damage, says) in [
        ("DELETE FROM events WHERE seq = 1", "events are missing"),
        ("DELETE FROM events WHERE seq = 0", "events are missing"),
        ("DELETE FROM events WHERE seq = 3", "events are missing"),
        (
            "UPDATE records SET closed = 1 WHERE log IS NOT NULL",
            "not closed",
        ),
        ("UPDATE events SET terminal = 1 WHERE seq = 1", "not closed"),
        ("UPDATE records SET log = NULL", "has the length of a log"),
        ("UPDATE records SET branches = 2", "number of branches"),
        ("UPDATE records SET index_key = 1", "not its hash's"),
        ("UPDATE records SET id = ''", "not valid"),
        (
            "UPDATE edges SET parent = 99",
            "`branch` is a branch of nothing",
        ),
        ("DELETE FROM records", "a log of nobody"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shard.db");
        let store = store(&path, 0).await;
        for expected in [0, 2] {
            store
                .append(append(&id("order-7"), expected))
                .await
                .unwrap();
        }
        let lineage = RecordLineage::new(id("order-7"), id("branch"), "a".into());
        store.record_lineage(lineage).await.unwrap();
        store.close().await.unwrap();
        assert!(verify(&path).unwrap().problems.is_empty());
        Connection::open(&path)
            .unwrap()
            .execute_batch(damage)
            .unwrap();
        let problems = verify(&path).unwrap().problems;
        assert!(
            problems.iter().any(|problem| problem.contains(says)),
            "{damage}: {problems:?}"
        );
    }
}
