//! Leases: who runs an execution, and until when.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use loom_journal::{ExecutionJournal, JournalError, JournalOptions};
use loom_spi::EventStore;
use loom_store_memory::{ManualClock, MemoryStore};

use crate::support::{Counter, FaultStore, counted, id, open_with, request};

const LEASE: Duration = Duration::from_secs(30);

fn store() -> (Arc<FaultStore>, ManualClock) {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (FaultStore::over(store, true), clock)
}

fn worker(name: &str) -> JournalOptions {
    JournalOptions::default()
        .with_holder(name)
        .with_lease(LEASE)
}

async fn open_as(store: &Arc<FaultStore>, name: &str) -> Result<ExecutionJournal, JournalError> {
    open_with(store, &request(), worker(name)).await
}

#[tokio::test]
async fn e24_a_second_worker_is_told_who_runs_the_execution_and_changes_nothing() {
    let (store, clock) = store();
    let runs = Counter::default();
    let first = open_as(&store, "first").await.unwrap();
    clock.advance(Duration::from_secs(12));
    let error = open_as(&store, "second").await.unwrap_err();
    let JournalError::Leased {
        holder, remaining, ..
    } = &error
    else {
        panic!("expected Leased, got {error:?}");
    };
    assert_eq!(
        (holder.as_str(), *remaining),
        ("first", Duration::from_secs(18))
    );
    assert!(!error.halts());
    let text = error.to_string();
    assert!(
        text.contains("`order-7` is run by `first`") && text.contains("18000 ms"),
        "{text}"
    );
    // The first one goes on, as if nobody had asked.
    counted(&first, "charge", 1, &runs).await.unwrap();
    first.complete(&()).await.unwrap();
    // What has ended is open to everybody.
    assert!(open_as(&store, "second").await.unwrap().outcome().is_some());
}

#[tokio::test]
async fn e24_a_second_worker_takes_over_when_the_lease_of_a_dead_one_lapses() {
    let (store, clock) = store();
    let runs = Counter::default();
    let first = open_as(&store, "first").await.unwrap();
    counted(&first, "charge", 1, &runs).await.unwrap();
    drop(first);
    assert!(open_as(&store, "second").await.is_err());
    clock.advance(LEASE);
    let second = open_as(&store, "second").await.unwrap();
    counted(&second, "charge", 1, &runs).await.unwrap();
    second.complete(&()).await.unwrap();
    assert_eq!(runs.count(), 1, "what is recorded is not run again");
}

#[tokio::test]
async fn a_worker_that_takes_over_on_purpose_does_not_wait() {
    let (store, _clock) = store();
    let runs = Counter::default();
    let first = open_as(&store, "first").await.unwrap();
    let options = worker("second").with_take_over(true);
    let second = open_with(&store, &request(), options).await.unwrap();
    let error = first.renew_lease().await.unwrap_err();
    assert!(matches!(error, JournalError::TakenOver { .. }), "{error:?}");
    assert!(first.halted().is_some());
    let error = counted(&first, "charge", 1, &runs).await.unwrap_err();
    assert!(matches!(error, JournalError::TakenOver { .. }), "{error:?}");
    assert_eq!(runs.count(), 0);
    second.complete(&()).await.unwrap();
}

#[tokio::test]
async fn a_worker_that_gives_its_lease_up_is_followed_at_once() {
    let (store, _clock) = store();
    let first = open_as(&store, "first").await.unwrap();
    first.release().await.unwrap();
    let second = open_as(&store, "second").await.unwrap();
    // Giving up what somebody else has is refused, and takes nothing from them.
    assert!(first.release().await.is_err());
    assert!(open_as(&store, "third").await.is_err());
    second.complete(&()).await.unwrap();
}

#[tokio::test]
async fn a_lease_lasts_as_long_as_it_is_renewed() {
    let (store, clock) = store();
    let first = open_as(&store, "first").await.unwrap();
    for _ in 0..5 {
        clock.advance(LEASE * 2 / 3);
        first.renew_lease().await.unwrap();
    }
    clock.advance(LEASE - Duration::from_millis(1));
    assert!(open_as(&store, "second").await.is_err());
    clock.advance(Duration::from_millis(1));
    open_as(&store, "second").await.unwrap();
}

#[tokio::test]
async fn effects_renew_the_lease_when_they_ask_whether_they_may_begin() {
    let (store, clock) = store();
    let runs = Counter::default();
    let options = worker("first").with_confirm_after(Duration::ZERO);
    let first = open_with(&store, &request(), options).await.unwrap();
    for value in 0..5 {
        clock.advance(LEASE * 2 / 3);
        counted(&first, "next", value, &runs).await.unwrap();
    }
    assert!(open_as(&store, "second").await.is_err());
}

#[tokio::test]
async fn whoever_keeps_a_lease_renews_it_before_it_lapses_and_is_told_when_it_is_lost() {
    let (store, clock) = store();
    let first = open_as(&store, "first").await.unwrap();
    let pauses = Mutex::new(Vec::new());
    let taken_over = first.keep_lease(|pause| {
        pauses.lock().unwrap().push(pause);
        clock.advance(pause);
        let (store, last) = (Arc::clone(&store), pauses.lock().unwrap().len() == 10);
        async move {
            match open_as(&store, "second").await {
                Err(JournalError::Leased { .. }) => {}
                other => panic!("the lease was kept: {other:?}"),
            }
            if last {
                let options = worker("second").with_take_over(true);
                open_with(&store, &request(), options).await.unwrap();
            }
        }
    });
    let error = taken_over.await;
    assert!(matches!(error, JournalError::TakenOver { .. }), "{error:?}");
    let pauses = pauses.into_inner().unwrap();
    assert_eq!(pauses, vec![LEASE / 3; 10]);
}

#[tokio::test]
async fn a_journal_that_goes_on_under_a_fence_taken_for_it_is_the_same_writer() {
    let (store, clock) = store();
    let runs = Counter::default();
    let boots = open_as(&store, "instance 1").await.unwrap();
    let token = boots.token();
    assert!(token.is_some());
    let on_behalf = |token| {
        let options = worker("whatever").with_confirm_after(Duration::ZERO);
        options.with_token(token)
    };
    let instance = open_with(&store, &request(), on_behalf(token))
        .await
        .unwrap();
    assert_eq!(instance.token(), token);
    counted(&instance, "charge", 1, &runs).await.unwrap();
    // It has renewed the lease that was taken for it.
    clock.advance(LEASE - Duration::from_millis(1));
    assert!(open_as(&store, "second").await.is_err());
    clock.advance(Duration::from_millis(1));

    // Whoever waited for it gives up, and takes the fence: one that comes late is out before it has done anything.
    let second = open_as(&store, "second").await.unwrap();
    let events = store.events(&id("order-7")).await.len();
    let late = open_with(&store, &request(), on_behalf(token)).await;
    assert!(
        matches!(late, Err(JournalError::TakenOver { .. })),
        "{late:?}"
    );
    let error = counted(&instance, "ship", 1, &runs).await.unwrap_err();
    assert!(matches!(error, JournalError::TakenOver { .. }), "{error:?}");
    assert_eq!(store.events(&id("order-7")).await.len(), events);
    counted(&second, "charge", 1, &runs).await.unwrap();
    second.complete(&()).await.unwrap();
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn without_fences_there_is_no_lease_and_nothing_to_keep() {
    let store = FaultStore::without_fencing();
    let journal = open_as(&store, "first").await.unwrap();
    assert_eq!((journal.lease(), journal.token()), (None, None));
    journal.renew_lease().await.unwrap();
    journal.release().await.unwrap();
    tokio::select! {
        biased;
        error = journal.keep_lease(|_| async {}) => panic!("there is nothing to lose: {error}"),
        () = async {} => {}
    }
    open_as(&store, "second").await.unwrap();
}

#[tokio::test]
async fn a_lease_that_no_store_would_give_is_refused_and_nothing_is_begun() {
    let (store, _clock) = store();
    for options in [
        worker("first").with_lease(Duration::ZERO),
        worker(""),
        worker(&"x".repeat(256)),
    ] {
        let error = open_with(&store, &request(), options).await.unwrap_err();
        assert!(matches!(error, JournalError::Store { .. }), "{error:?}");
    }
    let head = loom_spi::Head::new(id("order-7"));
    assert!(store.head(head).await.unwrap().is_none());
}

#[tokio::test]
async fn an_effect_of_a_worker_whose_lease_lapsed_unnoticed_still_counts() {
    // Nobody took over: the token is the highest, and the lease is only renewed late.
    let (store, clock) = store();
    let first = open_as(&store, "first").await.unwrap();
    clock.advance(LEASE * 3);
    let effect = first.effect("charge", |_| async { Ok::<_, Infallible>(1_u32) });
    assert_eq!(effect.await.unwrap(), 1);
    first.renew_lease().await.unwrap();
    assert!(open_as(&store, "second").await.is_err());
}
