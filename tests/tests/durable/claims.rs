//! Work that several want at the same time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use loom_spi::{AcquireFence, EventStore, ExecutionId, StoreErrorKind};
use loom_store_memory::MemoryStore;
use loom_store_postgres::PostgresStore;
use loom_store_sqlite::SqliteStore;
use loom_test_postgres::{server, unique_name};
use tokio::sync::Barrier;

const MANY: usize = 10;

/// Looks for a piece of work that nobody has, beginning with the first, as all of them do.
async fn claim(store: &dyn EventStore, work: &[ExecutionId], who: usize) -> Option<ExecutionId> {
    let fencing = store.capabilities().fencing.unwrap();
    for piece in work {
        let wanted = AcquireFence::new(piece.clone())
            .with_holder(format!("claimer {who}"))
            .with_lease(Duration::from_secs(3600));
        match fencing.acquire_fence(wanted).await {
            Ok(_) => return Some(piece.clone()),
            Err(error) => assert!(
                matches!(error.kind(), StoreErrorKind::Leased { .. }),
                "{error}"
            ),
        }
    }
    None
}

async fn ten_of_ten(store: Arc<dyn EventStore>) {
    for round in 0..5 {
        let ids = (0..MANY).map(|n| ExecutionId::new(format!("work-{round}-{n}")).unwrap());
        let work: Arc<[ExecutionId]> = ids.collect();
        let begin = Arc::new(Barrier::new(MANY));
        let claimers: Vec<_> = (0..MANY)
            .map(|who| {
                let (store, work) = (Arc::clone(&store), Arc::clone(&work));
                let begin = Arc::clone(&begin);
                tokio::spawn(async move {
                    begin.wait().await;
                    claim(&*store, &work, who).await
                })
            })
            .collect();
        let mut claimed = BTreeSet::new();
        for claimer in claimers {
            let piece = claimer
                .await
                .unwrap()
                .expect("nobody was told that nothing is left");
            assert!(claimed.insert(piece), "claimed twice");
        }
        assert_eq!(claimed.len(), MANY);
        assert_eq!(claim(&*store, &work, MANY).await, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e15_ten_claimers_of_ten_pieces_of_work_get_one_each_and_nobody_is_told_that_nothing_is_left()
 {
    ten_of_ten(Arc::new(MemoryStore::new())).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shard.db");
    let options = loom_store_sqlite::Options::new();
    ten_of_ten(Arc::new(SqliteStore::create(file, options).await.unwrap())).await;

    let Some(server) = server() else { return };
    let url = server.url();
    let mark = if url.contains('?') { '&' } else { '?' };
    let place = format!("{url}{mark}schema={}", unique_name());
    let (place, options) = (place.parse().unwrap(), loom_store_postgres::Options::new());
    ten_of_ten(Arc::new(
        PostgresStore::create(&place, options.clone())
            .await
            .unwrap(),
    ))
    .await;
    if server.outlives_the_tests() {
        PostgresStore::remove(&place, options).await.unwrap();
    }
}
