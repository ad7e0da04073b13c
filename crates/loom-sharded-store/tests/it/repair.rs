//! A shard that was restored from a backup.

use std::sync::Arc;

use loom_shard_plan::{Placement, RebalanceOptions, ShardId, ShardPlan};
use loom_sharded_store::{PlanChangeError, Repaired, ShardedStore, Treatment};
use loom_spi::{
    AcquireFence, Append, DeploymentId, EventStore, ExecutionId, FenceToken, Head, Import,
    PlanEpoch, PlanFingerprint, PlanLedger, Publish, PublishedPlan, RecordLineage, Relocation,
    Seal, SealedRecord, ShardIdentity, StoreErrorKind,
};
use loom_store_memory::MemoryStore;

use crate::support::{append, event, id, kinds};

fn deployment() -> DeploymentId {
    DeploymentId::new("orders").unwrap()
}

fn published(plan: &ShardPlan) -> PublishedPlan {
    let fingerprint = PlanFingerprint(plan.fingerprint().get());
    PublishedPlan::new(PlanEpoch::new(plan.epoch(), fingerprint), plan.to_bytes())
}

/// A shard of the deployment under a plan, with nothing in it.
async fn shard_under(shard: u16, plan: &ShardPlan) -> Arc<MemoryStore> {
    let store = MemoryStore::new();
    let identity = ShardIdentity::new(deployment(), shard);
    store.initialize(identity).await.unwrap();
    store
        .publish(Publish::new(published(plan), None))
        .await
        .unwrap();
    Arc::new(store)
}

/// What a deployment is like after one of its shards was restored: it is under the first plan, the others are
/// under the last.
struct Restored {
    first: ShardPlan,
    last: ShardPlan,
    shards: Vec<Arc<MemoryStore>>,
}

impl Restored {
    /// `shard` of as many as the last plan has.
    async fn new(shard: u16, first: ShardPlan, last: ShardPlan) -> Self {
        let mut shards = Vec::new();
        for member in last.shards().iter().map(|shard| shard.id().get()) {
            let plan = if member == shard { &first } else { &last };
            shards.push(shard_under(member, plan).await);
        }
        Self {
            first,
            last,
            shards,
        }
    }

    async fn open(&self) -> ShardedStore {
        let shards = self
            .shards
            .iter()
            .map(|shard| Arc::clone(shard) as Arc<dyn EventStore>);
        let builder = ShardedStore::builder().deployment(deployment());
        builder.shards(shards).open().await.unwrap()
    }

    /// An id with this placement in the first and the last plan.
    fn id(&self, first: Placement, last: Placement) -> ExecutionId {
        let placed = |id: &ExecutionId| {
            let id = id.as_str();
            (self.first.route_id(id), self.last.route_id(id)) == (first, last)
        };
        (0..100_000)
            .map(|n| id(&format!("order-{n}")))
            .find(placed)
            .unwrap()
    }

    /// Puts a log on one shard, under whatever plan that is under.
    async fn put(&self, shard: usize, id: &ExecutionId, kinds: &[&str]) {
        let store = &self.shards[shard];
        let epoch = store.current().await.unwrap().map(|plan| plan.epoch);
        let events = kinds.iter().map(|kind| event(kind)).collect();
        let request = Append::new(id.clone(), 0, events).with_epoch(epoch);
        store.append(request).await.unwrap();
    }

    async fn seal(&self, shard: usize, id: &ExecutionId) {
        let store = &self.shards[shard];
        let epoch = store.current().await.unwrap().map(|plan| plan.epoch);
        store
            .seal(Seal::new(id.clone()).with_epoch(epoch))
            .await
            .unwrap();
    }

    async fn has(&self, shard: usize, id: &ExecutionId) -> bool {
        let store = &self.shards[shard];
        let epoch = store.current().await.unwrap().map(|plan| plan.epoch);
        let head = Head::new(id.clone()).with_epoch(epoch);
        store.head(head).await.unwrap().is_some()
    }

    async fn epoch_of(&self, shard: usize) -> u64 {
        self.shards[shard]
            .current()
            .await
            .unwrap()
            .unwrap()
            .epoch
            .epoch
    }
}

fn settled(plan: &ShardPlan) -> ShardPlan {
    plan.settled_all(plan.migrating_buckets().iter()).unwrap()
}

fn grown(plan: &ShardPlan, shards: u16) -> ShardPlan {
    plan.rebalanced(shards, RebalanceOptions::default())
        .unwrap()
}

const ON: fn(u16) -> Placement = |shard| Placement::Settled(ShardId(shard));

fn moving(from: u16, to: u16) -> Placement {
    Placement::Migrating {
        from: ShardId(from),
        to: ShardId(to),
    }
}

async fn repaired(store: &ShardedStore, shard: u16) -> Repaired {
    let repair = store.repair(ShardId(shard)).await.unwrap();
    let found = repair.examine(|_| {}).await.unwrap();
    let done = repair.run(|_| {}).await.unwrap();
    assert_eq!(found, done, "what was announced is what was done");
    done
}

/// Shard 1 of two from before the deployment grew to three.
async fn grown_since() -> Restored {
    let first = ShardPlan::with_buckets(2, 24).unwrap();
    let last = settled(&grown(&first, 3));
    Restored::new(1, first, last).await
}

#[tokio::test]
async fn it_is_refused_before_and_used_after() {
    let restored = grown_since().await;
    let here = restored.id(ON(1), ON(1));
    restored.put(1, &here, &["placed"]).await;
    let store = restored.open().await;
    let refused = append(&store, &here, 1, &["shipped"]).await.unwrap_err();
    assert!(
        matches!(refused.kind(), StoreErrorKind::ShardBehind { .. }),
        "{refused}"
    );
    let next = grown(&restored.last, 4);
    let blocked = store.publish(next).await.unwrap_err();
    assert!(
        matches!(
            blocked,
            PlanChangeError::FarBehind {
                shard: ShardId(1),
                ..
            }
        ),
        "{blocked}"
    );

    let report = repaired(&store, 1).await;
    assert_eq!((report.records, report.kept), (1, 1));
    assert_eq!(report.was_under, Some(published(&restored.first).epoch));
    assert_eq!(report.epoch, 3);
    assert_eq!(
        report.buckets.len(),
        restored.last.buckets_of(ShardId(1)).len()
    );
    append(&store, &here, 1, &["shipped"]).await.unwrap();
    assert_eq!(restored.epoch_of(1).await, 3);
}

#[tokio::test]
async fn stale_copies_are_removed_and_what_is_nowhere_else_is_moved_with_its_fence() {
    let restored = grown_since().await;
    let stale = restored.id(ON(1), ON(2));
    restored.put(1, &stale, &["placed"]).await;
    restored.put(2, &stale, &["placed", "shipped"]).await;
    let first = published(&restored.first).epoch;
    let misplaced = (0..100_000)
        .map(|n| id(&format!("other-{n}")))
        .find(|id| {
            restored.last.route_id(id.as_str()) == ON(2)
                && restored.first.route_id(id.as_str()) == ON(1)
        })
        .unwrap();
    restored.put(1, &misplaced, &["placed", "paid"]).await;
    let fencing = restored.shards[1].capabilities().fencing.unwrap();
    let fence = AcquireFence::new(misplaced.clone()).with_epoch(first);
    fencing.acquire_fence(fence).await.unwrap();

    let store = restored.open().await;
    let report = repaired(&store, 1).await;
    assert_eq!((report.records, report.removed, report.moved), (2, 1, 1));
    assert!(report.treated.iter().any(|record| record.id == stale
        && record.treatment == Treatment::Removed { counts: ShardId(2) }));
    assert!(
        report.treated.iter().any(|record| record.id == misplaced
            && record.treatment == Treatment::Moved { to: ShardId(2) })
    );
    assert!(!restored.has(1, &stale).await && !restored.has(1, &misplaced).await);
    assert_eq!(kinds(&store, &stale).await, ["placed", "shipped"]);
    assert_eq!(kinds(&store, &misplaced).await, ["placed", "paid"]);
    let fencing = store.capabilities().fencing.unwrap();
    let fence = fencing
        .acquire_fence(AcquireFence::new(misplaced))
        .await
        .unwrap();
    assert!(fence > FenceToken(1), "{fence:?}");
    // Doing it again finds nothing to do.
    let again = repaired(&store, 1).await;
    assert_eq!((again.records, again.treated.len()), (0, 0));
}

#[tokio::test]
async fn what_a_move_had_sealed_when_the_backup_was_made_is_writable_again() {
    let restored = grown_since().await;
    let sealed = restored.id(ON(1), ON(1));
    restored.put(1, &sealed, &["placed"]).await;
    restored.seal(1, &sealed).await;
    let store = restored.open().await;
    let report = repaired(&store, 1).await;
    assert_eq!((report.unsealed, report.kept), (1, 0));
    append(&store, &sealed, 1, &["shipped"]).await.unwrap();
}

/// Shard 0 of two from before everything went to shard 1, came back, and goes there again.
async fn leaving_again() -> (Restored, Placement) {
    let first = ShardPlan::with_buckets(1, 4).unwrap();
    let there = settled(&crate::support::all_to(&first, 1));
    let back = settled(&crate::support::all_to(&there, 0));
    let last = crate::support::all_to(&back, 1);
    (Restored::new(0, first, last).await, moving(0, 1))
}

#[tokio::test]
async fn in_a_bucket_that_migrates_away_the_copy_that_has_moved_counts() {
    let (restored, away) = leaving_again().await;
    let moved = restored.id(ON(0), away);
    restored.put(0, &moved, &["placed"]).await;
    restored.put(1, &moved, &["placed", "shipped"]).await;
    let store = restored.open().await;
    let report = repaired(&store, 0).await;
    assert_eq!((report.removed, report.kept), (1, 0));
    assert!(!restored.has(0, &moved).await);
    assert_eq!(kinds(&store, &moved).await, ["placed", "shipped"]);
}

#[tokio::test]
async fn of_a_copy_that_a_move_has_sealed_on_the_other_side_the_longer_one_counts() {
    for (here, there, kept) in [
        (&["placed"][..], &["placed", "paid"][..], 0),
        (&["placed", "paid"], &["placed", "paid"], 1),
        (&["placed", "paid"], &["placed"], 1),
    ] {
        let (restored, away) = leaving_again().await;
        let both = restored.id(ON(0), away);
        restored.put(0, &both, here).await;
        restored.put(1, &both, there).await;
        restored.seal(1, &both).await;
        let store = restored.open().await;
        let report = repaired(&store, 0).await;
        assert_eq!(
            (report.kept, report.removed),
            (kept, 1 - kept),
            "{here:?} {there:?}"
        );
        let longer = if here.len() > there.len() {
            here
        } else {
            there
        };
        assert_eq!(kinds(&store, &both).await, longer);
        append(&store, &both, longer.len() as u64, &["shipped"])
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn logs_that_differ_are_reported_and_touched_by_nobody() {
    let (restored, away) = leaving_again().await;
    let both = restored.id(ON(0), away);
    restored.put(0, &both, &["placed", "paid"]).await;
    restored.put(1, &both, &["placed", "cancelled"]).await;
    restored.seal(1, &both).await;
    let store = restored.open().await;
    let report = repaired(&store, 0).await;
    assert_eq!((report.differing, report.kept, report.removed), (1, 0, 0));
    assert!(
        matches!(
            &report.treated[0].treatment,
            Treatment::Differs { on: ShardId(1), .. }
        ),
        "{report:?}"
    );
    assert!(restored.has(0, &both).await && restored.has(1, &both).await);
}

#[tokio::test]
async fn executions_that_others_branched_off_into_and_that_are_gone_are_named() {
    let restored = grown_since().await;
    let (parent, child) = (restored.id(ON(0), ON(0)), restored.id(ON(1), ON(1)));
    restored.put(0, &parent, &["placed"]).await;
    let last = published(&restored.last).epoch;
    let branches = restored.shards[0].capabilities().branches.unwrap();
    let edge = RecordLineage::new(parent, child.clone(), "ship".to_owned()).with_epoch(last);
    branches.record_lineage(edge).await.unwrap();
    let store = restored.open().await;
    let report = repaired(&store, 1).await;
    assert_eq!((report.gone, report.gone_named), (1, vec![child.clone()]));
    append(&store, &child, 0, &["packed"]).await.unwrap();
    assert_eq!(repaired(&store, 1).await.gone, 0);
}

#[tokio::test]
async fn a_shard_that_is_one_epoch_behind_is_raised_before_it_is_cleaned() {
    let first = ShardPlan::with_buckets(2, 24).unwrap();
    let last = grown(&first, 3);
    let restored = Restored::new(1, first, last).await;
    let moved = restored.id(ON(1), moving(1, 2));
    restored.put(1, &moved, &["placed"]).await;
    restored.put(2, &moved, &["placed", "shipped"]).await;
    let store = restored.open().await;
    let mut epochs = Vec::new();
    let repair = store.repair(ShardId(1)).await.unwrap();
    let report = repair
        .run(|report| epochs.push(report.epoch))
        .await
        .unwrap();
    // Nodes use it from now on, and may be moving the same record: what is to be done about it is for a move.
    assert_eq!((report.removed, restored.has(1, &moved).await), (0, true));
    assert_eq!(restored.epoch_of(1).await, 2);
    assert_eq!(kinds(&store, &moved).await, ["placed", "shipped"]);
    store.migrate_execution(&moved).await.unwrap();
    assert!(!restored.has(1, &moved).await);
    assert_eq!(kinds(&store, &moved).await, ["placed", "shipped"]);
}

#[tokio::test]
async fn an_import_that_was_half_done_is_no_record() {
    let restored = grown_since().await;
    let half = restored.id(ON(1), ON(1));
    let head = {
        let scratch = MemoryStore::new();
        append(&scratch, &half, 0, &["placed", "shipped"])
            .await
            .unwrap();
        let sealed = scratch.seal(Seal::new(half.clone())).await.unwrap();
        let events = scratch
            .read(loom_spi::Read::new(half.clone(), 0, 1))
            .await
            .unwrap()
            .events;
        (sealed.head, events)
    };
    let part = Import::new(
        half.clone(),
        SealedRecord::new(head.0, None, Vec::new()),
        head.1,
    )
    .with_epoch(published(&restored.first).epoch);
    restored.shards[1].import(part).await.unwrap();
    let store = restored.open().await;
    assert_eq!(repaired(&store, 1).await.records, 0);
    append(&store, &half, 0, &["placed"]).await.unwrap();
}
