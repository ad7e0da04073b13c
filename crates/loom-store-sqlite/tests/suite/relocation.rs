//! Sealing, merging and retiring whole records.

use std::path::{Path, PathBuf};
use std::time::Duration;

use loom_spi::{
    AcquireFence, Append, Branch, BranchRegistry, Children, EventStore, ExecutionId, FenceToken,
    Fencing, Head, Import, Imported, Inspect, NewEvent, Parent, ParentLink, RecordLineage, Records,
    Relocation, RenewLease, Retire, RouteFilter, Seal, SealedRecord, StoreErrorKind, Unseal,
};
use loom_store_sqlite::{Options, SqliteStore};
use rusqlite::Connection;

fn id(name: &str) -> ExecutionId {
    ExecutionId::new(name).unwrap()
}

fn append(name: &str, expected: u64, events: usize) -> Append {
    Append::new(
        id(name),
        expected,
        vec![NewEvent::new("step", "payload"); events],
    )
}

async fn store() -> (tempfile::TempDir, PathBuf, SqliteStore) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shard.db");
    let store = SqliteStore::create(&path, Options::new()).await.unwrap();
    (directory, path, store)
}

fn count(path: &Path, table: &str) -> i64 {
    Connection::open(path)
        .unwrap()
        .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
            row.get(0)
        })
        .unwrap()
}

async fn edge(store: &SqliteStore, parent: &str, child: &str) {
    let lineage = RecordLineage::new(id(parent), id(child), child.to_owned());
    store.record_lineage(lineage).await.unwrap();
}

fn branches(names: &[&str]) -> Vec<Branch> {
    let branch = |name: &&str| Branch::new(id(name), *name);
    names.iter().map(branch).collect()
}

/// A record without a log that comes from another shard.
fn import(name: &str, fence: Option<(u64, &str)>, children: &[&str]) -> Import {
    let (token, holder) = fence.unzip();
    let sealed = SealedRecord::new(None, token.map(FenceToken), branches(children))
        .with_holder(holder.map(str::to_owned));
    Import::new(id(name), sealed, vec![])
}

#[tokio::test]
async fn another_handle_sees_at_once_that_a_record_is_sealed() {
    let (_directory, path, one) = store().await;
    let two = SqliteStore::open(&path, Options::new()).await.unwrap();
    // Both know the record from an append of their own.
    one.append(append("moving", 0, 1)).await.unwrap();
    two.append(append("moving", 1, 1)).await.unwrap();
    one.append(append("moving", 2, 1)).await.unwrap();

    let sealed = two.seal(Seal::new(id("moving"))).await.unwrap();
    assert_eq!(sealed.events(), 3);
    let refused = one.append(append("moving", 3, 1)).await.unwrap_err();
    assert_eq!(refused.kind(), &StoreErrorKind::Sealed);
    assert_eq!(one.seal(Seal::new(id("moving"))).await.unwrap(), sealed);
    assert_eq!(
        one.head(Head::new(id("moving"))).await.unwrap(),
        sealed.head
    );

    one.unseal(Unseal::new(id("moving"))).await.unwrap();
    two.append(append("moving", 3, 1)).await.unwrap();
    one.seal(Seal::new(id("moving"))).await.unwrap();
    two.retire(Retire::new(id("moving"))).await.unwrap();
    one.append(append("moving", 0, 1)).await.unwrap();
    let head = two.head(Head::new(id("moving"))).await.unwrap().unwrap();
    assert_eq!((head.next_sequence, head.sealed), (1, false));
}

#[tokio::test]
async fn a_record_stays_sealed_when_the_file_is_opened_again() {
    let (_directory, path, store) = store().await;
    store.append(append("moving", 0, 2)).await.unwrap();
    let fence = AcquireFence::new(id("moving")).with_holder("worker".to_owned());
    let token = store.acquire_fence(fence).await.unwrap();
    edge(&store, "moving", "b").await;
    edge(&store, "moving", "a").await;
    let sealed = store.seal(Seal::new(id("moving"))).await.unwrap();
    assert_eq!(sealed.fence, Some(token));
    assert_eq!(sealed.holder.as_deref(), Some("worker"));
    assert_eq!(sealed.branches, branches(&["b", "a"]));
    assert!(sealed.head.unwrap().sealed);
    drop(store);

    let store = SqliteStore::open(&path, Options::new()).await.unwrap();
    assert_eq!(store.seal(Seal::new(id("moving"))).await.unwrap(), sealed);
    let renew = RenewLease::new(id("moving"), token, Duration::from_secs(60));
    let refused = [
        store.append(append("moving", 2, 1)).await.map(drop),
        store.renew_lease(renew.clone()).await,
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().kind(), &StoreErrorKind::Sealed);
    }
    store.unseal(Unseal::new(id("moving"))).await.unwrap();
    store.renew_lease(renew).await.unwrap();
}

#[tokio::test]
async fn retiring_leaves_nothing_of_a_record_and_gives_the_space_back() {
    let (_directory, path, store) = store().await;
    store.append(append("moving", 0, 2_000)).await.unwrap();
    let token = store
        .acquire_fence(AcquireFence::new(id("moving")))
        .await
        .unwrap();
    assert_eq!(token, FenceToken(1));
    edge(&store, "moving", "branch").await;
    store.append(append("kept", 0, 1)).await.unwrap();

    let retire = || store.retire(Retire::new(id("moving")));
    assert_eq!(
        retire().await.unwrap_err().kind(),
        &StoreErrorKind::NotSealed
    );
    store.seal(Seal::new(id("moving"))).await.unwrap();
    retire().await.unwrap();
    retire().await.unwrap();

    let inspected = store.inspect(Inspect::new(id("moving"))).await.unwrap();
    assert_eq!(inspected, None);
    let parent = store.parent(Parent::new(id("branch"))).await.unwrap();
    assert_eq!(parent, None);
    assert_eq!((count(&path, "records"), count(&path, "edges")), (1, 0));
    while store.release_space(1).await.unwrap().reclaiming {}
    assert_eq!((count(&path, "events"), count(&path, "garbage")), (1, 0));
    // A mark would forbid it.
    let import = import("moving", Some((9, "worker")), &["branch"]);
    assert_eq!(store.import(import).await.unwrap(), Imported::Visible);
}

#[tokio::test]
async fn of_two_fences_the_higher_one_counts_and_its_holder_may_renew() {
    let (_directory, _path, store) = store().await;
    let minute = Duration::from_secs(60);
    let fence = AcquireFence::new(id("moving")).with_holder("here".to_owned());
    let fence = fence.with_lease(minute);
    store.acquire_fence(fence).await.unwrap();

    let higher = import("moving", Some((5, "there")), &[]);
    let answer = store.import(higher.clone()).await.unwrap();
    assert_eq!(answer, Imported::Visible);
    let renew = |token| RenewLease::new(id("moving"), FenceToken(token), minute);
    let refused = store.renew_lease(renew(1)).await.unwrap_err();
    assert!(
        matches!(refused.kind(), StoreErrorKind::Fenced { .. }),
        "{refused}"
    );
    store.renew_lease(renew(5)).await.unwrap();

    let lower = import("moving", Some((4, "other")), &[]);
    for import in [lower, higher] {
        let answer = store.import(import).await.unwrap();
        assert_eq!(answer, Imported::AlreadyThere);
    }
    // The lease that was renewed here is not touched.
    let other = AcquireFence::new(id("moving")).with_holder("other".to_owned());
    let refused = store.acquire_fence(other).await.unwrap_err();
    assert!(
        matches!(refused.kind(), StoreErrorKind::Leased { holder, .. } if holder == "there"),
        "{refused}"
    );
}

#[tokio::test]
async fn branches_of_an_import_come_before_those_that_only_are_here() {
    let (_directory, path, store) = store().await;
    for child in ["here", "both", "late"] {
        edge(&store, "parent", child).await;
    }
    let import = import("parent", None, &["z", "both", "a"]);
    let answer = store.import(import.clone()).await.unwrap();
    assert_eq!(answer, Imported::Visible);
    let expected = branches(&["z", "both", "a", "here", "late"]);
    let children = || store.children(Children::new(id("parent")));
    assert_eq!(children().await.unwrap(), expected);
    let inspected = store.inspect(Inspect::new(id("parent"))).await.unwrap();
    assert_eq!(inspected.unwrap().branches, 5);

    let answer = store.import(import).await.unwrap();
    assert_eq!(answer, Imported::AlreadyThere);
    edge(&store, "parent", "last").await;
    assert_eq!(children().await.unwrap().last(), branches(&["last"]).last());
    for child in ["z", "both", "a", "here", "late", "last"] {
        let parent = store.parent(Parent::new(id(child))).await.unwrap();
        assert_eq!(parent, Some(ParentLink::new(id("parent"), child)));
    }
    assert_eq!(count(&path, "edges"), 6);
}

#[tokio::test]
async fn a_branch_that_has_another_parent_here_is_refused_and_nothing_changes() {
    let (_directory, path, store) = store().await;
    edge(&store, "other", "taken").await;
    let refused = store
        .import(import("parent", Some((5, "there")), &["free", "taken"]))
        .await
        .unwrap_err();
    assert_eq!(
        refused.kind(),
        &StoreErrorKind::LineageConflict {
            parent: id("other"),
            label: "taken".into()
        }
    );
    // One that names a branch twice, under two labels, contradicts itself.
    let mut twice = import("parent", None, &["free", "free"]);
    twice.sealed.branches[1].label = "another".into();
    let refused = store.import(twice).await.unwrap_err();
    assert!(
        matches!(refused.kind(), StoreErrorKind::LineageConflict { parent, .. } if *parent == id("parent")),
        "{refused}"
    );
    assert_eq!((count(&path, "records"), count(&path, "edges")), (1, 1));
    let once = import("parent", None, &["free", "free"]);
    assert_eq!(store.import(once).await.unwrap(), Imported::Visible);
    assert_eq!(count(&path, "edges"), 2);
}

#[tokio::test]
async fn an_import_without_a_log_onto_one_raises_the_fence_and_adds_the_branches() {
    let (_directory, _path, store) = store().await;
    store.append(append("moving", 0, 3)).await.unwrap();
    edge(&store, "moving", "here").await;
    let import = import("moving", Some((5, "there")), &["there"]);
    let answer = store.import(import).await.unwrap();
    assert_eq!(answer, Imported::Visible);
    let record = store
        .inspect(Inspect::new(id("moving")))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((record.fence, record.branches), (Some(FenceToken(5)), 2));
    assert_eq!(record.head.unwrap().next_sequence, 3);
    let renew = RenewLease::new(id("moving"), FenceToken(5), Duration::from_secs(60));
    store.renew_lease(renew).await.unwrap();
}

#[tokio::test]
async fn an_import_of_nothing_leaves_no_record() {
    let (_directory, path, store) = store().await;
    let answer = store.import(import("nothing", None, &[])).await.unwrap();
    assert_eq!(answer, Imported::AlreadyThere);
    assert_eq!(count(&path, "records"), 0);
}

#[tokio::test]
async fn a_drained_bucket_is_told_from_one_that_holds_any_part_of_a_record() {
    let (_directory, _path, store) = store().await;
    for n in 0..200 {
        let name = format!("order-{n}");
        match n % 3 {
            0 => drop(store.append(append(&name, 0, 1)).await.unwrap()),
            1 => edge(&store, &name, &format!("branch-{n}")).await,
            _ => drop(
                store
                    .acquire_fence(AcquireFence::new(id(&name)))
                    .await
                    .unwrap(),
            ),
        }
    }
    // Of a power of two the index answers exactly; of another number the rows are looked at.
    for modulus in [8, 12] {
        let mut found = 0;
        for residue in 0..modulus {
            let route = RouteFilter::new(modulus, residue).unwrap();
            let mut cursor = None;
            loop {
                let request = Records::new(7).with_route(route).with_cursor(cursor);
                let page = store.records(request).await.unwrap();
                found += page.records.len();
                for record in &page.records {
                    assert!(route.matches(record.id.route_hash()));
                    if !record.sealed {
                        store.seal(Seal::new(record.id.clone())).await.unwrap();
                    }
                }
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
        }
        assert_eq!(found, 200, "in {modulus} buckets");
    }
    let route = RouteFilter::new(8, 3).unwrap();
    let bucket = || store.records(Records::new(usize::MAX).with_route(route));
    let records = bucket().await.unwrap().records;
    assert!(!records.is_empty());
    assert!(records.iter().all(|record| record.sealed));
    for record in records {
        store.retire(Retire::new(record.id)).await.unwrap();
    }
    let drained = bucket().await.unwrap();
    assert_eq!((drained.records.len(), drained.next), (0, None));
}
