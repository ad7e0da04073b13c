//! The format that `docs/specification/journal-format.md` describes.

use std::convert::Infallible;

use futures_util::FutureExt;
use loom_journal::{EffectFailureKind, JournalError, JournalOptions};
use loom_spi::{
    Append, DispatchRequest, EventStore, ExecutionOutcome, Failure, NewEvent, Upstream,
};
use serde_json::Value;

use crate::support::{FaultStore, id, open_with};

/// The example of the specification: kinds and payloads.
fn example() -> Vec<(String, String)> {
    let text = include_str!("../../../../docs/specification/journal-format.md");
    let (_, example) = text.rsplit_once("```text\n").unwrap();
    let lines = example.lines().take_while(|line| !line.starts_with("```"));
    let parts = lines.map(|line| line.split_once(' ').unwrap());
    parts
        .map(|(kind, payload)| (kind.to_owned(), payload.trim_start().to_owned()))
        .collect()
}

fn request() -> DispatchRequest {
    DispatchRequest::new(id("order-7"), "ship-order")
        .with_input(r#"{"parcel":7}"#)
        .with_parent(id("batch-3"))
        .with_upstream(vec![
            Upstream::new("stock", "12").with_execution(id("batch-3/stock")),
        ])
}

#[tokio::test]
async fn the_example_of_the_specification_is_what_is_read() {
    let events: Vec<NewEvent> = example()
        .into_iter()
        .map(|(kind, payload)| {
            let terminal = kind == "loom.completed";
            let event = NewEvent::new(kind, payload);
            if terminal { event.terminal() } else { event }
        })
        .collect();
    assert_eq!(events.len(), 6);

    let store = FaultStore::new();
    store
        .append(Append::new(id("order-7"), 0, events.clone()))
        .await
        .unwrap();
    let journal = open_with(&store, &request(), JournalOptions::default())
        .await
        .unwrap();
    let output = r#""shipped""#.into();
    assert_eq!(
        journal.outcome(),
        Some(&ExecutionOutcome::Completed { output })
    );

    // Without its end it is replayed.
    let store = FaultStore::new();
    store
        .append(Append::new(id("order-7"), 0, events[..5].to_vec()))
        .await
        .unwrap();
    let journal = open_with(&store, &request(), JournalOptions::default())
        .await
        .unwrap();
    let none = |_| async { Err::<Value, _>("it ran") };
    let reserved: Value = journal.effect("reserve", none).await.unwrap();
    assert_eq!(reserved, serde_json::json!({ "shelf": 12 }));
    let sent = journal
        .scope("mail")
        .scope("copy")
        .effect("send", none)
        .await;
    let Err(JournalError::EffectFailed {
        failure,
        sequence: 2,
        ..
    }) = sent
    else {
        panic!("expected EffectFailed, got {sent:?}");
    };
    assert_eq!(
        (failure.kind, failure.message.as_str()),
        (EffectFailureKind::Returned, "mailbox full")
    );
    let paid = journal.effect_at_most_once("pay", none).await;
    assert!(
        matches!(paid, Err(JournalError::OutcomeUnknown { sequence: 3, .. })),
        "{paid:?}"
    );
    let looked: Option<u8> = journal
        .effect("look up payment", |_| async {
            Ok::<_, Infallible>(Some(1))
        })
        .await
        .unwrap();
    assert_eq!(looked, None);
    journal.complete("shipped").await.unwrap();
}

#[tokio::test]
async fn the_example_of_the_specification_is_what_is_written() {
    let store = FaultStore::new();
    let journal = open_with(&store, &request(), JournalOptions::default())
        .await
        .unwrap();
    let shelf = serde_json::json!({ "shelf": 12 });
    let _: Value = journal
        .effect("reserve", |_| async { Ok::<_, Infallible>(shelf) })
        .await
        .unwrap();
    let full = |_| async { Err::<(), _>("mailbox full") };
    journal
        .scope("mail")
        .scope("copy")
        .effect("send", full)
        .await
        .unwrap_err();
    // The intent is written; the effect never ends.
    let mut paying = Box::pin(
        journal.effect_at_most_once("pay", |_| std::future::pending::<Result<(), Infallible>>()),
    );
    assert!((&mut paying).now_or_never().is_none());
    drop(paying);
    let journal = open_with(&store, &request(), JournalOptions::default())
        .await
        .unwrap();
    let _: Value = journal
        .effect("reserve", |_| async { Err::<Value, _>("it ran") })
        .await
        .unwrap();
    drop(journal.scope("mail").scope("copy").effect("send", full));
    drop(journal.effect("pay", full));
    let none = |_| async { Ok::<Option<u8>, Infallible>(None) };
    journal.effect("look up payment", none).await.unwrap();
    journal.complete("shipped").await.unwrap();

    let events = store.events(&id("order-7")).await;
    let runs: Vec<String> = events.iter().map(|event| run_of(&event.payload)).collect();
    assert_ne!(runs[0], runs[5]);
    for (event, (kind, payload)) in events.iter().zip(example()) {
        assert_eq!(*event.kind, *kind);
        assert_eq!(event.terminal, kind == "loom.completed");
        let run = run_of(payload.as_bytes());
        let expected = payload.replace(&run, &run_of(&event.payload));
        assert_eq!(std::str::from_utf8(&event.payload).unwrap(), expected);
    }
    assert_eq!(events.len(), 6);
}

#[tokio::test]
async fn failures_and_cancellations_are_written_as_specified() {
    for (end, expected) in [
        (
            Err(Failure::error("no stock")),
            r#""error":{"kind":"error","message":"no stock"}}"#,
        ),
        (
            Err(Failure::panicked("boom")),
            r#""error":{"kind":"panicked","message":"boom"}}"#,
        ),
        (Ok("by the user"), r#""reason":"by the user"}"#),
    ] {
        let store = FaultStore::new();
        let journal = open_with(&store, &request(), JournalOptions::default())
            .await
            .unwrap();
        match end {
            Ok(reason) => journal.cancel(reason).await.unwrap(),
            Err(failure) => journal.fail(failure).await.unwrap(),
        };
        let events = store.events(&id("order-7")).await;
        let payload = std::str::from_utf8(&events[1].payload).unwrap();
        assert!(payload.ends_with(expected), "{payload}");
        assert!(events[1].terminal);
    }
}

#[tokio::test]
async fn a_reader_ignores_members_it_does_not_know_and_takes_unknown_kinds_of_failure_for_plain_ones()
 {
    let store = FaultStore::new();
    let events = vec![
        NewEvent::new("loom.started", r#"{"new":[1],"v":1,"run":"r","flow":"f"}"#),
        NewEvent::new(
            "loom.failed",
            r#"{"v":1,"run":"r","error":{"kind":"melted","message":"m","at":3}}"#,
        )
        .terminal(),
    ];
    store.append(Append::new(id("e"), 0, events)).await.unwrap();
    let request = DispatchRequest::new(id("e"), "f");
    let journal = open_with(&store, &request, JournalOptions::default())
        .await
        .unwrap();
    assert_eq!(
        journal.outcome(),
        Some(&ExecutionOutcome::Failed(Failure::error("m")))
    );
}

fn run_of(payload: &[u8]) -> String {
    let payload: Value = serde_json::from_slice(payload).unwrap();
    payload["run"].as_str().unwrap().to_owned()
}
