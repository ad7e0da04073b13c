//! What an effect records, and what it returns the next time.

use std::convert::Infallible;

use loom_journal::{EffectFailureKind, JournalError, JournalOptions};
use loom_spi::Limits;
use loom_store_memory::MemoryStore;

use crate::support::{Counter, FaultStore, counted, id, open, open_with, request};

#[tokio::test]
async fn an_effect_runs_once_and_its_result_is_replayed() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    for _ in 0..3 {
        let journal = open(&store).await.unwrap();
        assert_eq!(counted(&journal, "charge", 42, &runs).await.unwrap(), 42);
    }
    assert_eq!(runs.count(), 1);
    assert_eq!(
        store.kinds(&id("order-7")).await,
        ["loom.started", "loom.effect"]
    );
}

#[tokio::test]
async fn the_first_run_sees_what_a_replay_will_see() {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Receipt {
        number: u32,
        #[serde(skip)]
        secret: u32,
    }
    let store = FaultStore::new();
    for _ in 0..2 {
        let journal = open(&store).await.unwrap();
        let receipt = journal.effect("charge", |_| async {
            Ok::<_, Infallible>(Receipt {
                number: 7,
                secret: 9,
            })
        });
        let expected = Receipt {
            number: 7,
            secret: 0,
        };
        assert_eq!(receipt.await.unwrap(), expected);
    }
}

#[tokio::test]
async fn unit_and_null_results_are_results() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    for _ in 0..2 {
        let journal = open(&store).await.unwrap();
        let unit = journal.effect("notify", |_| async {
            runs.tick();
            Ok::<(), Infallible>(())
        });
        unit.await.unwrap();
        let none: Option<u32> = journal
            .effect("look up", |_| async {
                runs.tick();
                Ok::<Option<u32>, Infallible>(None)
            })
            .await
            .unwrap();
        assert_eq!(none, None);
    }
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn an_error_is_a_result_and_is_replayed() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    let mut errors = Vec::new();
    for _ in 0..2 {
        let journal = open(&store).await.unwrap();
        let charged = journal.effect("charge", |_| async {
            Err::<u64, _>(format!("declined the {}. time", runs.tick()))
        });
        let error = charged.await.unwrap_err();
        assert!(!error.halts());
        let JournalError::EffectFailed { failure, .. } = &error else {
            panic!("expected EffectFailed, got {error:?}");
        };
        assert_eq!(failure.kind, EffectFailureKind::Returned);
        errors.push(error.to_string());
        // A flow that catches it goes on.
        counted(&journal, "apologise", 1, &runs).await.unwrap();
    }
    assert_eq!(errors[0], errors[1]);
    assert!(errors[0].contains("declined the 1. time"), "{}", errors[0]);
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn e16_a_result_over_the_limit_fails_at_once_and_for_good() {
    let limits = Limits::default().with_max_payload_bytes(512);
    let store = FaultStore::over(MemoryStore::builder().limits(limits).build(), true);
    let runs = Counter::default();
    for _ in 0..2 {
        let journal = open(&store).await.unwrap();
        let fetched = journal.effect("fetch", |_| async {
            runs.tick();
            Ok::<_, Infallible>("x".repeat(1000))
        });
        let error = fetched.await.unwrap_err();
        let JournalError::EffectFailed { failure, .. } = &error else {
            panic!("expected EffectFailed, got {error:?}");
        };
        assert_eq!(failure.kind, EffectFailureKind::TooLarge);
        assert!(error.to_string().contains("at most 512"), "{error}");
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_long_error_is_cut_to_what_the_store_takes_in_every_run_alike() {
    let limits = Limits::default().with_max_payload_bytes(512);
    let store = FaultStore::over(MemoryStore::builder().limits(limits).build(), true);
    let mut errors = Vec::new();
    for _ in 0..2 {
        let journal = open(&store).await.unwrap();
        let text = "é\"\n".repeat(1000);
        let failed = journal.effect("fetch", |_| async { Err::<(), _>(text) });
        errors.push(failed.await.unwrap_err().to_string());
    }
    assert_eq!(errors[0], errors[1]);
    assert!(errors[0].ends_with('…'), "{}", errors[0]);
}

#[tokio::test]
async fn a_result_that_is_no_json_fails_for_good() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    for _ in 0..2 {
        let journal = open(&store).await.unwrap();
        let fetched = journal.effect("fetch", |_| async {
            runs.tick();
            // The keys of JSON objects are texts.
            Ok::<_, Infallible>(std::collections::HashMap::from([(vec![1_u8], 1)]))
        });
        let error = fetched.await.unwrap_err();
        assert!(
            matches!(&error, JournalError::EffectFailed { failure, .. } if failure.kind == EffectFailureKind::NotJson),
            "{error:?}"
        );
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_result_that_does_not_fit_the_type_of_the_flow_stops_the_journal() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    let journal = open(&store).await.unwrap();
    counted(&journal, "charge", 42, &runs).await.unwrap();
    let journal = open(&store).await.unwrap();
    let text = journal.effect("charge", |_| async { Ok::<_, Infallible>(String::new()) });
    let error = text.await.unwrap_err();
    assert!(
        matches!(error, JournalError::ResultType { sequence: 1, .. }),
        "{error:?}"
    );
    assert!(
        journal
            .fail(loom_spi::Failure::error("caught"))
            .await
            .is_err()
    );
    assert_eq!(store.kinds(&id("order-7")).await.len(), 2);
}

#[tokio::test]
async fn the_idempotency_key_is_the_same_when_an_effect_runs_again() {
    let store = FaultStore::new();
    let mut keys = Vec::new();
    for _ in 0..2 {
        let journal = open(&store).await.unwrap();
        // Dropped after it ran and before it was recorded, as by a crash.
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let charge = journal.effect("charge", |key| async move {
            sender.send(key).unwrap();
            std::future::pending::<Result<(), Infallible>>().await
        });
        tokio::select! {
            _ = charge => panic!("it never ends"),
            key = receiver => keys.push(key.unwrap()),
        }
    }
    assert_eq!(keys[0], keys[1]);
}

#[tokio::test]
async fn effects_of_one_name_are_told_apart_by_their_place() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    for _ in 0..2 {
        let journal = open(&store).await.unwrap();
        for value in 0..5 {
            assert_eq!(
                counted(&journal, "next", value, &runs).await.unwrap(),
                value
            );
        }
    }
    assert_eq!(runs.count(), 5);
}

#[tokio::test]
async fn joined_effects_replay_in_program_order_whatever_order_they_end_in() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    for round in 0..2 {
        let journal = open(&store).await.unwrap();
        let gate = tokio::sync::Notify::new();
        // The first one ends last.
        let slow = journal.effect("slow", |_| async {
            gate.notified().await;
            runs.tick();
            Ok::<_, Infallible>("slow".to_owned())
        });
        let fast = journal.effect("fast", |_| async {
            runs.tick();
            Ok::<_, Infallible>("fast".to_owned())
        });
        let fast = async {
            let result = fast.await;
            gate.notify_one();
            result
        };
        let (slow, fast) = tokio::join!(slow, fast);
        assert_eq!(
            (slow.unwrap().as_str(), fast.unwrap().as_str()),
            ("slow", "fast"),
            "round {round}"
        );
    }
    assert_eq!(runs.count(), 2);
    let events = store.events(&id("order-7")).await;
    let first = std::str::from_utf8(&events[1].payload).unwrap();
    assert!(first.contains(r#""ordinal":1,"key":"fast""#), "{first}");
}

#[tokio::test]
async fn branches_with_scopes_replay_whatever_order_their_steps_interleave_in() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    // Which branch goes first changes from run to run.
    for branches in [["a", "b"], ["b", "a"], ["a", "b"]] {
        let journal = open(&store).await.unwrap();
        let branch = |name: &'static str| {
            let (scope, runs) = (journal.scope(name), runs.clone());
            async move {
                let mut results = Vec::new();
                for step in 0..3 {
                    let runs = runs.clone();
                    let effect = scope.effect("step", move |_| async move {
                        runs.tick();
                        tokio::task::yield_now().await;
                        Ok::<_, Infallible>(format!("{name}{step}"))
                    });
                    results.push(effect.await.unwrap());
                }
                results
            }
        };
        let (first, second) = tokio::join!(branch(branches[0]), branch(branches[1]));
        for (name, results) in branches.iter().zip([first, second]) {
            assert_eq!(
                results,
                [format!("{name}0"), format!("{name}1"), format!("{name}2")]
            );
        }
        // A scope in a scope is a place of its own.
        let nested = journal.scope("a").scope("b");
        let runs = runs.clone();
        let effect = nested.effect("step", move |_| async move {
            runs.tick();
            Ok::<_, Infallible>("nested".to_owned())
        });
        assert_eq!(effect.await.unwrap(), "nested");
    }
    assert_eq!(runs.count(), 7);
}

#[tokio::test]
async fn a_name_that_cannot_be_recorded_is_refused_and_nothing_runs() {
    let (store, runs) = (FaultStore::new(), Counter::default());
    let journal = open(&store).await.unwrap();
    let error = counted(&journal, &"k".repeat(256), 1, &runs)
        .await
        .unwrap_err();
    assert!(
        matches!(error, JournalError::InvalidName { .. }),
        "{error:?}"
    );
    assert_eq!(runs.count(), 0);
    counted(&journal, "k", 1, &runs).await.unwrap();
}

#[tokio::test]
async fn effects_can_be_spawned() {
    let store = FaultStore::new();
    let journal = open_with(&store, &request(), JournalOptions::default())
        .await
        .unwrap();
    let spawned = tokio::spawn(journal.effect("far", |_| async { Ok::<_, Infallible>(1_u8) }));
    assert_eq!(spawned.await.unwrap().unwrap(), 1);
}
