//! Opening: begin, resume, or refuse.

use std::sync::atomic::Ordering;

use loom_journal::{Difference, JournalError, JournalOptions};
use loom_spi::{
    AcquireFence, Append, DispatchRequest, EventStore, Fencing, Limits, NewEvent, Upstream,
};
use loom_store_memory::MemoryStore;

use crate::support::{Counter, Fault, FaultStore, counted, id, open, open_with, request};

async fn refused(begun: DispatchRequest, asked: DispatchRequest) -> JournalError {
    let (store, runs) = (FaultStore::new(), Counter::default());
    let owner = open_with(&store, &begun, JournalOptions::default())
        .await
        .unwrap();
    let appends = store.appends.load(Ordering::SeqCst);
    let error = open_with(&store, &asked, JournalOptions::default())
        .await
        .unwrap_err();
    assert_eq!(store.appends.load(Ordering::SeqCst), appends);
    // Whoever is refused does not fence the owner out.
    counted(&owner, "go on", 1, &runs).await.unwrap();
    error
}

fn difference(error: JournalError) -> Difference {
    match error {
        JournalError::IdTaken { difference, .. } => difference,
        other => panic!("expected IdTaken, got {other:?}"),
    }
}

#[tokio::test]
async fn e6_an_id_that_was_begun_for_something_else_is_refused_naming_the_difference() {
    let error = refused(
        request(),
        DispatchRequest::new(id("order-7"), "refund").with_input(r#"{"parcel":7}"#),
    )
    .await;
    assert!(
        error
            .to_string()
            .contains("it runs flow `ship-order`, not `refund`"),
        "{error}"
    );
    assert!(matches!(difference(error), Difference::Flow { .. }));

    let error = refused(request(), request().with_input(r#"{"parcel":8}"#)).await;
    assert!(
        error
            .to_string()
            .contains(r#"its input is `{"parcel":7}`, not `{"parcel":8}`"#),
        "{error}"
    );
    assert!(matches!(difference(error), Difference::Input { .. }));

    let error = refused(request(), request().with_input("")).await;
    assert!(error.to_string().contains("not nothing"), "{error}");

    let error = refused(
        request().with_parent(id("a")),
        request().with_parent(id("b")),
    )
    .await;
    assert!(
        error.to_string().contains("its parent is `a`, not `b`"),
        "{error}"
    );
    let error = refused(request().with_parent(id("a")), request()).await;
    assert!(matches!(
        difference(error),
        Difference::Parent {
            requested: None,
            ..
        }
    ));

    let metrics = || vec![Upstream::new("metrics", "1")];
    let error = refused(request().with_upstream(metrics()), request()).await;
    assert!(
        error
            .to_string()
            .contains("it builds on `metrics`, not nothing"),
        "{error}"
    );
}

#[tokio::test]
async fn inputs_that_are_the_same_json_are_the_same() {
    let store = FaultStore::new();
    let with = |input: &'static str| DispatchRequest::new(id("e"), "f").with_input(input);
    let options = JournalOptions::default;
    open_with(&store, &with(r#"{"a":1,"b":[true]}"#), options())
        .await
        .unwrap();
    open_with(&store, &with("{ \"b\": [true],\n \"a\": 1 }\n"), options())
        .await
        .unwrap();

    let store = FaultStore::new();
    open_with(&store, &with("null"), options()).await.unwrap();
    open_with(&store, &with(""), options()).await.unwrap();
}

#[tokio::test]
async fn a_log_that_no_journal_wrote_is_refused_and_left_alone() {
    let store = FaultStore::new();
    let event = NewEvent::new("permit.filed", "{}");
    store
        .append(Append::new(id("order-7"), 0, vec![event]))
        .await
        .unwrap();
    let error = open(&store).await.unwrap_err();
    assert!(
        matches!(&error, JournalError::NotAJournal { kind, sequence: 0, .. } if kind == "permit.filed"),
        "{error:?}"
    );
    // Not even fenced: its owner goes on without a token.
    let event = NewEvent::new("permit.granted", "{}");
    store
        .append(Append::new(id("order-7"), 1, vec![event]))
        .await
        .unwrap();
}

#[tokio::test]
async fn an_event_of_another_hand_in_the_middle_stops_the_replay() {
    let (store, runs) = (FaultStore::without_fencing(), Counter::default());
    counted(&open(&store).await.unwrap(), "charge", 1, &runs)
        .await
        .unwrap();
    let foreign = vec![NewEvent::new("order.noted", "{}")];
    store
        .append(Append::new(id("order-7"), 2, foreign))
        .await
        .unwrap();
    let options = JournalOptions::default().with_page_events(1);
    let journal = open_with(&store, &request(), options).await.unwrap();
    counted(&journal, "charge", 1, &runs).await.unwrap();
    let error = counted(&journal, "ship", 1, &runs).await.unwrap_err();
    assert!(
        matches!(error, JournalError::NotAJournal { sequence: 2, .. }),
        "{error:?}"
    );
    assert!(journal.complete(&()).await.is_err());
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_newer_format_is_named_as_such() {
    let store = FaultStore::new();
    let event = NewEvent::new("loom.started", r#"{"v":2,"who":"knows"}"#);
    store
        .append(Append::new(id("order-7"), 0, vec![event]))
        .await
        .unwrap();
    let error = open(&store).await.unwrap_err();
    assert!(
        matches!(error, JournalError::UnsupportedVersion { version: 2, .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_anchor_that_does_not_parse_is_corrupt_and_says_where() {
    for payload in [
        "",
        "[]",
        r#"{"v":1}"#,
        "\u{0}",
        r#"{"v":1,"run":"r","flow":7}"#,
    ] {
        let store = FaultStore::new();
        let event = NewEvent::new("loom.started", payload);
        store
            .append(Append::new(id("order-7"), 0, vec![event]))
            .await
            .unwrap();
        let error = open(&store).await.unwrap_err();
        assert!(
            matches!(error, JournalError::Corrupt { sequence: 0, .. }),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn input_that_is_no_json_and_flows_without_a_name_begin_nothing() {
    let store = FaultStore::new();
    for bad in [
        request().with_input("{"),
        request().with_input(&b"\xff"[..]),
        request().with_input("1 2"),
    ] {
        let error = open_with(&store, &bad, JournalOptions::default())
            .await
            .unwrap_err();
        assert!(
            matches!(error, JournalError::InvalidStart { .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains("no JSON text"), "{error}");
    }
    let nameless = DispatchRequest::new(id("order-7"), "");
    assert!(
        open_with(&store, &nameless, JournalOptions::default())
            .await
            .is_err()
    );
    assert_eq!(store.appends.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn e16_an_input_over_the_limit_begins_nothing() {
    let limits = Limits::default().with_max_payload_bytes(256);
    let store = FaultStore::over(MemoryStore::builder().limits(limits).build(), true);
    let large = request().with_input(format!("\"{}\"", "x".repeat(300)));
    let error = open_with(&store, &large, JournalOptions::default())
        .await
        .unwrap_err();
    assert!(
        matches!(error, JournalError::InvalidStart { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("at most 256"), "{error}");
    assert_eq!(store.appends.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn beginning_survives_lost_replies() {
    for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Refuse] {
        for store in [FaultStore::new(), FaultStore::without_fencing()] {
            let runs = Counter::default();
            store.fail(0, fault);
            let journal = open(&store).await.unwrap();
            counted(&journal, "charge", 1, &runs).await.unwrap();
            assert_eq!(store.events(&id("order-7")).await.len(), 2);
        }
    }
}

#[tokio::test]
async fn a_fence_taken_by_others_before_is_overtaken() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    let inner = store.capabilities().fencing.unwrap();
    inner
        .acquire_fence(AcquireFence::new(id("order-7")))
        .await
        .unwrap();
    counted(&open(&store).await.unwrap(), "charge", 1, &runs)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_lease_that_somebody_holds_is_respected() {
    let store = FaultStore::new();
    let fencing: &dyn Fencing = store.capabilities().fencing.unwrap();
    let lease = AcquireFence::new(id("order-7"))
        .with_holder("worker-1".to_owned())
        .with_lease(std::time::Duration::from_secs(3600));
    fencing.acquire_fence(lease).await.unwrap();
    let error = open(&store).await.unwrap_err();
    assert!(
        matches!(&error, JournalError::Leased { holder, .. } if holder == "worker-1"),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_append_that_was_on_its_way_when_the_fence_was_taken_is_replayed_or_refused() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Arrives {
        BeforeTheFirstLook,
        BeforeTheFence,
        AfterTheFence,
    }
    for arrives in [
        Arrives::BeforeTheFirstLook,
        Arrives::BeforeTheFence,
        Arrives::AfterTheFence,
    ] {
        let (store, runs) = (FaultStore::new(), Counter::default());
        let first = open(&store).await.unwrap();
        store.fail(0, Fault::Delay);
        store.fail(1, Fault::CrashBefore);
        tokio::select! {
            biased;
            result = counted(&first, "charge", 1, &runs) => panic!("it hangs: {result:?}"),
            () = store.crashed.notified() => {}
        }
        match arrives {
            Arrives::BeforeTheFirstLook => assert_eq!(store.deliver().await, 1),
            Arrives::BeforeTheFence => store.deliver_before_fence.store(true, Ordering::SeqCst),
            Arrives::AfterTheFence => {}
        }
        let second = open(&store).await.unwrap();
        assert_eq!(store.deliver().await, 0, "the fence keeps it out");
        counted(&second, "charge", 1, &runs).await.unwrap();
        let expected = if arrives == Arrives::AfterTheFence {
            2
        } else {
            1
        };
        assert_eq!(runs.count(), expected, "{arrives:?}");
        second.complete(&()).await.unwrap();
        assert_eq!(store.events(&id("order-7")).await.len(), 3);
    }
}
