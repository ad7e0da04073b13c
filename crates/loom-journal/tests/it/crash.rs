//! A flow is interrupted at each of its appends in turn, in every way, and run again.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use loom_journal::{ExecutionJournal, JournalError, JournalOptions};
use loom_spi::ExecutionOutcome;

use crate::support::{Counter, Fault, FaultStore, counted, id, open_with, request};

#[derive(Clone, Default)]
struct Runs {
    first: Counter,
    joined: [Counter; 2],
    branch: Counter,
    once: Counter,
    last: Counter,
}

/// Nine appends: the anchor, six effects, one of them after its intent, and the end. What `once` came to does not matter to it.
async fn flow(journal: &ExecutionJournal, runs: &Runs) -> Result<u64, JournalError> {
    let first = counted(journal, "first", 1, &runs.first).await?;
    let (left, right) = tokio::join!(
        counted(journal, "left", 2, &runs.joined[0]),
        counted(journal, "right", 3, &runs.joined[1]),
    );
    let (scope, branch) = (journal.scope("branch"), runs.branch.clone());
    let step: u64 = scope
        .effect("step", move |_| async move {
            branch.tick();
            Ok::<_, Infallible>(4)
        })
        .await?;
    let once = runs.once.clone();
    let once = journal.effect_at_most_once("once", move |_| async move {
        once.tick();
        Ok::<u64, Infallible>(5)
    });
    match once.await {
        Ok(_) | Err(JournalError::OutcomeUnknown { .. }) => {}
        Err(error) => return Err(error),
    }
    let last = counted(journal, "last", 6, &runs.last).await?;
    Ok(first + left? + right? + step + last)
}

async fn run(store: &Arc<FaultStore>, runs: &Runs) -> Result<ExecutionOutcome, JournalError> {
    let options = JournalOptions::default().with_page_events(2);
    let journal = open_with(store, &request(), options).await?;
    if let Some(outcome) = journal.outcome() {
        return Ok(outcome.clone());
    }
    let output = flow(&journal, runs).await?;
    journal.complete(&output).await
}

async fn check(fencing: bool, nth: usize, fault: Fault) {
    let store = if fencing {
        FaultStore::new()
    } else {
        FaultStore::without_fencing()
    };
    let runs = Runs::default();
    store.fail(nth, fault);
    let interrupted = tokio::select! {
        biased;
        result = run(&store, &runs) => Some(result),
        () = store.crashed.notified() => None,
    };
    let context = format!("{fault:?} at append {nth}, fencing {fencing}: {interrupted:?}");
    assert_eq!(interrupted.is_none(), fault.is_crash(), "{context}");
    if let Some(result) = interrupted {
        // No store was down for long, so the flow noticed nothing.
        assert!(result.is_ok(), "{context}");
        for runs in [
            &runs.first,
            &runs.joined[0],
            &runs.joined[1],
            &runs.branch,
            &runs.once,
            &runs.last,
        ] {
            assert_eq!(runs.count(), 1, "{context}");
        }
    }
    let recorded_before = match store.appends.load(Ordering::SeqCst) {
        0 => Vec::new(),
        _ => recorded_keys(&store).await,
    };
    let before = runs.counts();
    let outcome = run(&store, &runs).await.unwrap();
    let output = "16".into();
    assert_eq!(outcome, ExecutionOutcome::Completed { output }, "{context}");

    // What was recorded before the interruption did not run again, and nothing ran more than twice.
    for ((key, before), (_, after)) in before.into_iter().zip(runs.counts()) {
        if recorded_before.iter().any(|recorded| recorded == key) {
            assert_eq!(before, after, "`{key}`, {context}");
        }
        assert!(
            (1..=2).contains(&after) || key == "once",
            "`{key}` ran {after} times, {context}"
        );
    }
    assert!(runs.once.count() <= 1, "{context}");

    // The log is whole: each effect once, one end.
    let keys = recorded_keys(&store).await;
    for key in ["first", "left", "right", "step", "last"] {
        assert_eq!(
            keys.iter().filter(|found| *found == key).count(),
            1,
            "`{key}`, {context}"
        );
    }
    let kinds = store.kinds(&id("order-7")).await;
    assert_eq!(
        kinds.iter().filter(|kind| *kind == "loom.started").count(),
        1,
        "{context}"
    );
    assert_eq!(
        kinds.last().map(String::as_str),
        Some("loom.completed"),
        "{context}"
    );
}

impl Runs {
    fn counts(&self) -> Vec<(&'static str, u32)> {
        let [left, right] = &self.joined;
        [
            ("first", &self.first),
            ("left", left),
            ("right", right),
            ("step", &self.branch),
            ("once", &self.once),
            ("last", &self.last),
        ]
        .map(|(key, runs)| (key, runs.count()))
        .to_vec()
    }
}

async fn recorded_keys(store: &Arc<FaultStore>) -> Vec<String> {
    use loom_spi::EventStoreExt;
    if !store.exists(&id("order-7")).await.unwrap() {
        return Vec::new();
    }
    let events = store.events(&id("order-7")).await;
    let effects = events.iter().filter(|event| &*event.kind == "loom.effect");
    let payloads = effects.map(|event| serde_json::from_slice(&event.payload).unwrap());
    payloads
        .map(|payload: serde_json::Value| payload["key"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_flow_interrupted_at_any_append_in_any_way_ends_the_same_and_repeats_nothing_recorded() {
    const APPENDS: usize = 9;
    let store = FaultStore::new();
    run(&store, &Runs::default()).await.unwrap();
    assert_eq!(store.events(&id("order-7")).await.len(), APPENDS);
    for fencing in [true, false] {
        for fault in Fault::ALL {
            for nth in 0..APPENDS {
                check(fencing, nth, fault).await;
            }
        }
    }
}

#[tokio::test]
async fn a_flow_interrupted_again_and_again_gets_on_by_one_append_each_time() {
    let (store, runs) = (FaultStore::new(), Runs::default());
    for round in 0..7 {
        match round {
            0 => store.fail(0, Fault::CrashAfter),
            _ => store.fail(1, Fault::CrashBefore),
        }
        tokio::select! {
            biased;
            result = run(&store, &runs) => panic!("it crashes: {result:?}"),
            () = store.crashed.notified() => {}
        }
        assert_eq!(store.events(&id("order-7")).await.len(), round + 1);
    }
    let outcome = run(&store, &runs).await.unwrap();
    assert!(outcome.is_completed());
}

#[tokio::test]
async fn a_store_that_stays_out_of_reach_stops_the_journal_and_the_log_can_be_resumed() {
    let (store, runs) = (FaultStore::new(), Runs::default());
    for nth in 2..10 {
        store.fail(nth, Fault::LoseRequest);
    }
    let error = run(&store, &runs).await.unwrap_err();
    assert!(matches!(error, JournalError::Store { .. }), "{error:?}");
    assert!(error.halts());
    assert_eq!(store.kinds(&id("order-7")).await.len(), 2);
    // The store recovers once the faults that are left are used up.
    while store.appends.load(Ordering::SeqCst) < 10 {
        let _ = run(&store, &runs).await;
    }
    assert!(run(&store, &runs).await.unwrap().is_completed());
    assert_eq!(runs.first.count(), 1);
}
