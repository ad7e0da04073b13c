//! What goes wrong on the way to the server and in it, and what callers are told.

use std::sync::Arc;
use std::time::Duration;

use loom_spi::{
    AcquireFence, Append, Delete, EventStore, Fencing, Head, NewEvent, PlanEpoch, PlanFingerprint,
    PlanLedger, Publish, PublishedPlan, Read, Retry, StoreError, StoreErrorKind,
};
use loom_store_postgres::{Options, PostgresStore};
use loom_test_postgres::{Cluster, Settings, available, server};
use tokio::sync::{mpsc, watch};

use crate::proxy::Proxy;
use crate::support::{Schema, append, client, id, location};

/// What an error says of the outcome; `None` when it is none of reaching the store.
fn outcome_known(error: &StoreError) -> Option<bool> {
    match error.kind() {
        StoreErrorKind::Unavailable { outcome_known, .. } => Some(*outcome_known),
        _ => None,
    }
}

async fn length(store: &PostgresStore, text: &str) -> u64 {
    let head = store.head(Head::new(id(text))).await.unwrap();
    head.map_or(0, |head| head.next_sequence)
}

/// A cluster that keeps what it acknowledged, with a store on it behind a proxy.
async fn behind_a_proxy() -> (Cluster, Proxy, PostgresStore) {
    let cluster = Cluster::start(&Settings::durable()).unwrap();
    let proxy = Proxy::to(cluster.port()).await;
    let place = location(&proxy.url(), "loom");
    let store = PostgresStore::create(&place, Options::new()).await.unwrap();
    (cluster, proxy, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_committed_while_the_connection_broke_is_there_once() {
    if !available() {
        return;
    }
    let (_cluster, proxy, store) = behind_a_proxy().await;
    // Both committers have their connections and statements then.
    for sequence in 0..8 {
        store.append(append("e", sequence)).await.unwrap();
    }

    proxy.lose_answer();
    let error = store.append(append("e", 8)).await.unwrap_err();
    assert_eq!(error.retry(), Retry::OutcomeUnknown, "{error}");
    // Reading tells, and what is there is not written again.
    assert_eq!(length(&store, "e").await, 9);
    let again = store.append(append("e", 8)).await.unwrap_err();
    assert!(matches!(
        again.kind(),
        StoreErrorKind::SequenceConflict { actual: 9, .. }
    ));
    store.append(append("e", 9)).await.unwrap();
    let page = store.read(Read::new(id("e"), 0, 100)).await.unwrap();
    let sequences: Vec<u64> = page.events.iter().map(|event| event.sequence).collect();
    assert_eq!(sequences, (0..10).collect::<Vec<u64>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_never_got_to_the_server_is_not_there_and_may_be_written_after_a_look() {
    if !available() {
        return;
    }
    let (_cluster, proxy, store) = behind_a_proxy().await;
    for sequence in 0..8 {
        store.append(append("e", sequence)).await.unwrap();
    }
    proxy.lose_request();
    let error = store.append(append("e", 8)).await.unwrap_err();
    assert_eq!(error.retry(), Retry::OutcomeUnknown, "{error}");
    assert_eq!(length(&store, "e").await, 8);
    store.append(append("e", 8)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_commit_was_not_answered_may_have_happened_and_one_before_it_has_not() {
    if !available() {
        return;
    }
    let (_cluster, proxy, store) = behind_a_proxy().await;
    let first = store
        .acquire_fence(AcquireFence::new(id("e")))
        .await
        .unwrap();

    proxy.lose_commit();
    let error = store
        .acquire_fence(AcquireFence::new(id("e")))
        .await
        .unwrap_err();
    assert_eq!(error.retry(), Retry::OutcomeUnknown, "{error}");
    // It did happen: the next token is two further.
    let third = store
        .acquire_fence(AcquireFence::new(id("e")))
        .await
        .unwrap();
    assert_eq!(third.0, first.0 + 2);

    // A connection that breaks before anything was asked to be committed: another one does.
    proxy.lose_request();
    let fourth = store
        .acquire_fence(AcquireFence::new(id("e")))
        .await
        .unwrap();
    assert_eq!(fourth.0, third.0 + 1);
}

/// Appends to one log until told to stop, through every fault: what is acknowledged counts, what is unknown is looked up.
async fn write(
    store: Arc<PostgresStore>,
    name: String,
    acknowledged: mpsc::UnboundedSender<()>,
    mut up: watch::Receiver<bool>,
    stop: watch::Receiver<bool>,
) -> u64 {
    let mut next = 0;
    while !*stop.borrow() {
        let event = NewEvent::new("k", format!("{name} {next}"));
        match store
            .append(Append::new(id(&name), next, vec![event]))
            .await
        {
            Ok(_) => {
                next += 1;
                let _ = acknowledged.send(());
            }
            Err(error) => {
                let known = outcome_known(&error).unwrap_or_else(|| panic!("{error}"));
                let there = loop {
                    up.wait_for(|up| *up).await.unwrap();
                    match store.head(Head::new(id(&name))).await {
                        Ok(head) => break head.map_or(0, |head| head.next_sequence),
                        Err(error) => assert!(outcome_known(&error).is_some(), "{error}"),
                    }
                };
                if known {
                    assert_eq!(there, next, "it was said that nothing was changed: {error}");
                } else {
                    assert!(there == next || there == next + 1, "{there} after {next}");
                }
                next = there;
            }
        }
    }
    next
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_crashes_in_the_middle_of_groups_of_appends_keeps_what_it_acknowledged() {
    const WRITERS: u64 = 16;
    if !available() {
        return;
    }
    let mut cluster = Cluster::start(&Settings::durable()).unwrap();
    let place = location(&cluster.url("postgres"), "loom");
    let options = Options::new().with_connect_timeout(Duration::from_secs(60));
    let store = Arc::new(PostgresStore::create(&place, options).await.unwrap());
    let (sender, mut acknowledged) = mpsc::unbounded_channel();
    let (up, watch_up) = watch::channel(true);
    let (stop, watch_stop) = watch::channel(false);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            tokio::spawn(write(
                Arc::clone(&store),
                format!("w{writer}"),
                sender.clone(),
                watch_up.clone(),
                watch_stop.clone(),
            ))
        })
        .collect();
    for _crash in 0..3 {
        for _ in 0..300 {
            acknowledged.recv().await.unwrap();
        }
        up.send_replace(false);
        cluster = tokio::task::spawn_blocking(move || {
            cluster.stop_immediately();
            cluster.start_again().unwrap();
            cluster
        })
        .await
        .unwrap();
        while acknowledged.try_recv().is_ok() {}
        up.send_replace(true);
    }
    for _ in 0..50 {
        acknowledged.recv().await.unwrap();
    }
    stop.send_replace(true);
    for (writer, ended) in writers.into_iter().enumerate() {
        let name = format!("w{writer}");
        let next = ended.await.unwrap();
        let mut events = Vec::new();
        while (events.len() as u64) < next {
            let read = Read::new(id(&name), events.len() as u64, 10_000);
            events.extend(store.read(read).await.unwrap().events);
        }
        assert_eq!(events.len() as u64, next);
        for (sequence, event) in events.iter().enumerate() {
            assert_eq!(event.payload, format!("{name} {sequence}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_somebody_holds_keeps_waiting_who_wants_it_and_nobody_else() {
    let Some(server) = server() else { return };
    let schema = Schema::new(&server);
    let options = Options::new().with_statement_timeout(Duration::from_millis(700));
    let store = Arc::new(
        PostgresStore::create(&schema.location, options)
            .await
            .unwrap(),
    );
    store.append(append("held", 0)).await.unwrap();
    let other = client(&server.url()).await.unwrap();
    let name = schema.location.schema();
    other
        .batch_execute(&format!(
            "BEGIN; SELECT 1 FROM {name}.records WHERE id = 'held' FOR UPDATE"
        ))
        .await
        .unwrap();

    let waiting = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.append(append("held", 1)).await })
    };
    for sequence in 0..20 {
        store.append(append("free", sequence)).await.unwrap();
    }
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(outcome_known(&error), Some(true), "{error}");
    assert_eq!(error.retry(), Retry::Safe);
    assert!(error.to_string().contains("timeout"), "{error}");

    other.batch_execute("ROLLBACK").await.unwrap();
    store.append(append("held", 1)).await.unwrap();
    schema.remove().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_finds_all_connections_in_use_is_told_so_after_a_while() {
    let Some(server) = server() else { return };
    let schema = Schema::new(&server);
    let options = Options::new()
        .with_connections(1)
        .with_wait_timeout(Duration::from_millis(100));
    let store = Arc::new(
        PostgresStore::create(&schema.location, options)
            .await
            .unwrap(),
    );
    store.append(append("e", 0)).await.unwrap();
    let other = client(&server.url()).await.unwrap();
    let name = schema.location.schema();
    other
        .batch_execute(&format!(
            "BEGIN; SELECT 1 FROM {name}.records WHERE id = 'e' FOR UPDATE"
        ))
        .await
        .unwrap();
    let deleting = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.delete(Delete::new(id("e"))).await })
    };
    // It may come before the deletion has taken the connection.
    let error = loop {
        match store.head(Head::new(id("e"))).await {
            Ok(_) => tokio::task::yield_now().await,
            Err(error) => break error,
        }
    };
    assert_eq!(outcome_known(&error), Some(true), "{error}");
    assert!(
        error.to_string().contains("all 1 connections were in use"),
        "{error}"
    );
    let error = store.append(append("f", 0)).await.unwrap_err();
    assert_eq!(outcome_known(&error), Some(true), "{error}");

    other.batch_execute("ROLLBACK").await.unwrap();
    deleting.await.unwrap().unwrap();
    store.append(append("f", 0)).await.unwrap();
    schema.remove().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_waits_for_changes_that_are_under_way_and_not_for_ever() {
    let Some(server) = server() else { return };
    let schema = Schema::new(&server);
    let options = Options::new().with_publish_timeout(Duration::from_millis(100));
    let store = PostgresStore::create(&schema.location, options)
        .await
        .unwrap();
    let other = client(&server.url()).await.unwrap();
    let name = schema.location.schema();
    // As a change of another process does.
    other
        .batch_execute(&format!(
            "BEGIN; SELECT pg_advisory_xact_lock_shared((1280266061::int8 << 32) | '{name}.shard'::regclass::oid::int8)"
        ))
        .await
        .unwrap();
    let epoch = PlanEpoch::new(1, PlanFingerprint(7));
    let publish = || Publish::new(PublishedPlan::new(epoch, "plan"), None);
    let error = store.publish(publish()).await.unwrap_err();
    assert_eq!(outcome_known(&error), Some(true), "{error}");
    // Nobody else waits for the one who gave up.
    store.append(append("e", 0)).await.unwrap();
    assert_eq!(store.current().await.unwrap(), None);

    other.batch_execute("COMMIT").await.unwrap();
    store.publish(publish()).await.unwrap();
    assert_eq!(store.current().await.unwrap().unwrap().epoch, epoch);
    schema.remove().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_at_closing_is_answered_and_what_comes_later_is_refused() {
    let Some(server) = server() else { return };
    let schema = Schema::new(&server);
    let store = Arc::new(
        PostgresStore::create(&schema.location, Options::new())
            .await
            .unwrap(),
    );
    let appends: Vec<_> = (0..200)
        .map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.append(append(&format!("e{number}"), 0)).await })
        })
        .collect();
    tokio::task::yield_now().await;
    store.close().await.unwrap();
    let mut made = 0;
    for appended in appends {
        match appended.await.unwrap() {
            Ok(_) => made += 1,
            Err(error) => assert_eq!(outcome_known(&error), Some(true), "{error}"),
        }
    }
    for error in [
        store.append(append("late", 0)).await.unwrap_err(),
        store.head(Head::new(id("e0"))).await.unwrap_err(),
    ] {
        assert!(error.to_string().contains("closed"), "{error}");
    }
    store.close().await.unwrap();
    let client = client(&server.url()).await.unwrap();
    let name = schema.location.schema();
    let rows = client
        .query_one(&format!("SELECT count(*) FROM {name}.records"), &[])
        .await
        .unwrap();
    assert_eq!(rows.get::<_, i64>(0), made);
    schema.remove().await.unwrap();
}
