use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use loom_spi::{
    AcquireFence, Append, EventStore as _, EventStoreExt as _, ExecutionId, List, NewEvent,
};
use loom_store_memory::MemoryStore;
use serde_json::Value;

use futures_util::TryStreamExt as _;

use super::*;
use crate::export::export;
use crate::failure::Exit;

const SMALL: Effort = Effort {
    window: 7,
    appends: 3,
};

/// Lines of `executions` executions with `events` events each, interleaved; the odd ones end.
fn lines(executions: usize, events: usize) -> String {
    let mut text = String::new();
    for event in 0..events {
        for execution in 0..executions {
            let last = if event + 1 == events && execution % 2 == 1 {
                ",\"last\":true"
            } else {
                ""
            };
            text.push_str(&format!(
                "{{\"execution\":\"e-{execution}\",\"at\":{event},\"type\":\"t{event}\",\"n\":{execution}.50{last}}}\n"
            ));
        }
    }
    text
}

async fn run(store: &MemoryStore, text: impl Into<Vec<u8>>) -> Result<Totals, Failure> {
    import(store, Input::of(text), SMALL, ProgressMode::Off).await
}

async fn exported(store: &MemoryStore) -> Vec<u8> {
    let mut out = Vec::new();
    let progress = Progress::new(ProgressMode::Off, "export", None);
    export(store, &mut out, &progress).await.unwrap();
    out
}

/// The JSON values of each execution, in order.
fn by_execution(text: &[u8]) -> Vec<(String, Vec<Value>)> {
    let mut logs = std::collections::BTreeMap::<String, Vec<Value>>::new();
    for line in std::str::from_utf8(text).unwrap().lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let id = value["execution"].as_str().unwrap().to_owned();
        logs.entry(id).or_default().push(value);
    }
    logs.into_iter().collect()
}

fn totals(executions: u64, events: u64, skipped: u64) -> Totals {
    Totals {
        executions,
        events,
        skipped,
    }
}

async fn event_count(store: &MemoryStore) -> u64 {
    let summaries: Vec<_> = store.list_all(List::new(10)).try_collect().await.unwrap();
    summaries
        .iter()
        .map(|summary| summary.head.next_sequence)
        .sum()
}

#[tokio::test]
async fn what_is_imported_is_exported_and_importing_it_again_changes_nothing() {
    let store = MemoryStore::new();
    let text = lines(10, 9);
    assert_eq!(run(&store, text.as_str()).await.unwrap(), totals(10, 90, 0));
    let out = exported(&store).await;
    assert_eq!(by_execution(&out), by_execution(text.as_bytes()));
    assert_eq!(run(&store, text.as_str()).await.unwrap(), totals(10, 0, 90));
    assert_eq!(run(&store, out).await.unwrap(), totals(10, 0, 90));
    assert_eq!(event_count(&store).await, 90);
}

#[tokio::test]
async fn an_import_goes_on_wherever_it_was_cut_off() {
    let text = lines(4, 5);
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    for cut in 0..=all.len() {
        let store = MemoryStore::new();
        run(&store, all[..cut].concat()).await.unwrap();
        let rest = run(&store, text.as_str()).await.unwrap();
        assert_eq!(rest, totals(4, (all.len() - cut) as u64, cut as u64));
        assert_eq!(event_count(&store).await, 20);
    }
}

#[tokio::test]
async fn gzip_in_several_members_is_read_whole() {
    let store = MemoryStore::new();
    let mut bytes = Vec::new();
    for text in [lines(2, 3), lines(3, 1).replace("e-", "f-")] {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        bytes.extend(encoder.finish().unwrap());
    }
    assert_eq!(run(&store, bytes).await.unwrap(), totals(5, 9, 0));
}

#[tokio::test]
async fn gzip_that_is_cut_off_is_bad_input() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(lines(50, 50).as_bytes()).unwrap();
    let mut bytes = encoder.finish().unwrap();
    bytes.truncate(bytes.len() - 40);
    let failure = run(&MemoryStore::new(), bytes).await.unwrap_err();
    assert_eq!(failure.exit(), Exit::Usage);
    assert!(
        failure.to_string().contains("expected a whole gzip file"),
        "{failure}"
    );
}

#[tokio::test]
async fn exactly_what_stands_before_a_bad_line_is_stored() {
    let text = lines(4, 5);
    let mut all: Vec<&str> = text.split_inclusive('\n').collect();
    for bad in [0, 6, 7, 13, 19] {
        let good = all[bad];
        all[bad] = "{\"execution\":\"e-1\",\"at\":\"soon\",\"type\":\"t\"}\n";
        let store = MemoryStore::new();
        let failure = run(&store, all.concat()).await.unwrap_err();
        assert_eq!(failure.exit(), Exit::Usage);
        let place = format!("f.jsonl:{}: `at` is", bad + 1);
        assert!(failure.to_string().contains(&place), "{failure}");
        assert_eq!(event_count(&store).await, bad as u64);
        all[bad] = good;
        assert_eq!(run(&store, all.concat()).await.unwrap().skipped, bad as u64);
        assert_eq!(event_count(&store).await, 20);
    }
}

#[tokio::test]
async fn an_event_after_the_last_one_is_bad_input() {
    let store = MemoryStore::new();
    let text = lines(2, 2);
    let failure = run(&store, format!("{text}{text}")).await.unwrap_err();
    assert_eq!(failure.exit(), Exit::Usage);
    let text = failure.to_string();
    assert!(text.contains("f.jsonl:6: execution `e-1` ended"), "{text}");
    assert!(text.contains("on line 4"), "{text}");
    // Line 5 continued `e-0`, which had not ended.
    assert_eq!(event_count(&store).await, 5);
}

#[tokio::test]
async fn a_log_that_differs_is_told_with_its_line_and_left_as_it_is() {
    let cases = [
        // The stored payload differs.
        (
            vec![("t0", r#"{"n":1.5}"#, false)],
            "f.jsonl:2: execution `e-1` is stored differently: event 0 is",
        ),
        // The stored log is shorter than it should be, and closed.
        (
            vec![
                ("t0", r#"{"n":1.50}"#, false),
                ("t1", r#"{"n":1.50}"#, true),
            ],
            "event 1 is",
        ),
        // The stored log goes on after the file's last event.
        (
            vec![
                ("t0", r#"{"n":1.50}"#, false),
                ("t1", r#"{"n":1.50}"#, false),
                ("t2", r#"{"n":1.50}"#, false),
                ("t3", r#"{"n":1.50}"#, false),
            ],
            "event 2 is",
        ),
    ];
    for (stored, expected) in cases {
        let store = MemoryStore::new();
        let events = stored
            .iter()
            .enumerate()
            .map(|(at, (kind, payload, last))| {
                let event = NewEvent::new(*kind, *payload)
                    .recorded_at(loom_spi::Timestamp::from_millis(at.try_into().unwrap()));
                if *last { event.terminal() } else { event }
            });
        let id = ExecutionId::new("e-1").unwrap();
        let append = Append::new(id, 0, events.collect());
        store.append(append).await.unwrap();
        let before = event_count(&store).await;
        let failure = run(&store, lines(2, 3)).await.unwrap_err();
        assert_eq!(failure.exit(), Exit::Failed);
        assert!(failure.to_string().contains(expected), "{failure}");
        assert_eq!(
            event_count(&store).await,
            before + 3,
            "only `e-0` was added"
        );
    }
}

#[tokio::test]
async fn a_closed_log_that_the_file_continues_is_left_as_it_is() {
    let store = MemoryStore::new();
    let line = |n: u8, last: bool| {
        format!("{{\"execution\":\"e\",\"at\":{n},\"type\":\"t\",\"last\":{last}}}\n")
    };
    run(
        &store,
        line(0, true).replace(",\"last\":true", ",\"x\":1,\"last\":true"),
    )
    .await
    .unwrap();
    let text = format!(
        "{{\"execution\":\"e\",\"at\":0,\"type\":\"t\",\"x\":1}}\n{}",
        line(1, false)
    );
    let failure = run(&store, text).await.unwrap_err();
    assert!(
        failure.to_string().contains("f.jsonl:1: execution `e`"),
        "{failure}"
    );
    assert_eq!(event_count(&store).await, 1);
}

#[tokio::test]
async fn an_execution_that_another_writer_holds_is_refused_and_the_others_go_on() {
    let store = MemoryStore::new();
    let id = ExecutionId::new("e-0").unwrap();
    let fencing = store.capabilities().fencing.unwrap();
    fencing.acquire_fence(AcquireFence::new(id)).await.unwrap();
    let failure = run(&store, lines(3, 2)).await.unwrap_err();
    assert_eq!(failure.exit(), Exit::Refused);
    assert!(
        failure
            .to_string()
            .contains("f.jsonl:1: cannot append to execution `e-0`"),
        "{failure}"
    );
    assert_eq!(event_count(&store).await, 4);
}

#[tokio::test]
async fn two_imports_of_one_file_at_once_store_it_once() {
    let store = MemoryStore::new();
    let text = lines(20, 8);
    let (one, other) = tokio::join!(run(&store, text.as_str()), run(&store, text.as_str()));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(one.events + other.events, 160);
    assert_eq!(one.skipped + other.skipped, 160);
    assert_eq!(event_count(&store).await, 160);
}

#[tokio::test]
async fn a_long_log_is_split_over_appends() {
    let store = MemoryStore::new();
    let text = lines(1, 25_000);
    let effort = Effort {
        window: 30_000,
        appends: 4,
    };
    let imported = import(&store, Input::of(text.clone()), effort, ProgressMode::Off).await;
    assert_eq!(imported.unwrap(), totals(1, 25_000, 0));
    assert_eq!(
        by_execution(&exported(&store).await),
        by_execution(text.as_bytes())
    );
    let again = import(&store, Input::of(text), effort, ProgressMode::Off).await;
    assert_eq!(again.unwrap(), totals(1, 0, 25_000));
}

#[tokio::test]
async fn a_payload_over_the_limit_is_told_before_anything_of_its_line_is_sent() {
    let store = MemoryStore::new();
    let long = "x".repeat(2 << 20);
    let text = format!(
        "{}{{\"execution\":\"b\",\"at\":1,\"type\":\"t\",\"x\":\"{long}\"}}\n",
        lines(1, 1)
    );
    let failure = run(&store, text).await.unwrap_err();
    assert_eq!(failure.exit(), Exit::Usage);
    assert!(
        failure.to_string().contains("f.jsonl:2: the payload has"),
        "{failure}"
    );
    assert_eq!(event_count(&store).await, 1);
}

#[tokio::test]
async fn blank_lines_and_no_newline_at_the_end_are_fine() {
    let store = MemoryStore::new();
    let text = format!("\n  \r\n{}", lines(2, 2).replace('\n', "\r\n"));
    assert_eq!(run(&store, text.trim_end()).await.unwrap(), totals(2, 4, 0));
    assert_eq!(run(&store, "").await.unwrap(), totals(0, 0, 0));
}
