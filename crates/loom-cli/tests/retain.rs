//! Executions that ended long ago are removed, with what belongs to them or not at all, and their space comes back.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use loom_spi::{BranchRegistry as _, ExecutionId, PlanLedger as _, RecordLineage};
use loom_store_sqlite::{Options, SqliteStore};
use support::{Bench, count, generated, logs, number};

fn now() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis()
}

/// A line for each: its id, whether it is closed, and when.
fn lines(executions: &[(&str, bool, u128)]) -> String {
    let mut text = String::new();
    for (id, last, at) in executions {
        let line =
            format!("{{\"execution\":\"{id}\",\"at\":{at},\"type\":\"step\",\"last\":{last}}}");
        writeln!(text, "{line}").unwrap();
    }
    text
}

fn branch_off(bench: &Bench, edges: &[(&str, &str)]) {
    let id = |name: &str| ExecutionId::new(name).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let path = bench.path("shard-0.db");
        let store = SqliteStore::open(path, Options::new()).await.unwrap();
        let epoch = store.current().await.unwrap().unwrap().epoch;
        for (parent, child) in edges {
            let lineage = RecordLineage::new(id(parent), id(child), (*child).to_owned());
            store
                .record_lineage(lineage.with_epoch(epoch))
                .await
                .unwrap();
        }
        store.close().await.unwrap();
    });
}

fn ids(bench: &Bench) -> BTreeSet<String> {
    bench.exported().into_keys().collect()
}

#[test]
fn a_family_goes_as_a_whole_or_stays() {
    let bench = Bench::with_shards(1);
    let recent = now();
    bench.write(
        "events.jsonl",
        lines(&[
            ("alone", true, 5),
            ("alone-open", false, 5),
            ("alone-recent", true, recent),
            ("p1", true, 5),
            ("p1-a", true, 5),
            ("p1-b", true, 5),
            ("p2-open", false, 5),
            ("p2-a", true, 5),
            ("p3", true, 5),
            ("p3-a-open", false, 5),
            ("p4", true, 5),
            ("p4-a-recent", true, recent),
            ("p5", true, 5),
            ("p5-a", true, 5),
            ("p5-a-a-open", false, 5),
            // What counts is when it ended, not when it began.
            ("alone-ended-lately", false, 5),
            ("alone-ended-lately", true, recent),
        ]),
    );
    bench.ok(&["import", "events.jsonl"]);
    branch_off(
        &bench,
        &[
            ("p1", "p1-a"),
            ("p1", "p1-b"),
            ("p2-open", "p2-a"),
            ("p3", "p3-a-open"),
            ("p4", "p4-a-recent"),
            ("p5", "p5-a"),
            ("p5-a", "p5-a-a-open"),
        ],
    );
    let before = ids(&bench);
    let retain = ["retain", "--closed-for", "30d"];
    let mut dry_run = retain.to_vec();
    dry_run.push("--dry-run");
    let would = bench.json(&dry_run);
    assert_eq!(ids(&bench), before);
    let done = bench.json(&retain);
    for report in [&would, &done] {
        let numbers = ["executions", "events", "kept"].map(|key| number(&report[key]));
        assert_eq!(numbers, [4, 4, 5], "{report}");
    }
    assert_eq!(
        (&would["dry_run"], &done["dry_run"]),
        (&true.into(), &false.into())
    );
    let gone = ["alone", "p1", "p1-a", "p1-b"].map(str::to_owned).into();
    assert_eq!(&before - &ids(&bench), gone);
    bench.audited();
    let again = bench.json(&retain);
    assert_eq!(
        (number(&again["executions"]), number(&again["kept"])),
        (0, 5)
    );
}

/// Branches go first: what is left is found again by what they branched off from.
#[test]
fn a_run_that_was_interrupted_is_finished_by_the_next_one() {
    let bench = Bench::with_shards(1);
    bench.write(
        "events.jsonl",
        lines(&[("p", true, 5), ("a", true, 5), ("b", true, 5)]),
    );
    bench.ok(&["import", "events.jsonl"]);
    branch_off(&bench, &[("p", "a"), ("p", "b")]);
    bench.ok(&["rm", "b"]);
    let done = bench.json(&["retain", "--closed-for", "1d", "--rate", "1000"]);
    assert_eq!(number(&done["executions"]), 2);
    assert_eq!(ids(&bench), BTreeSet::new());
}

#[test]
fn the_files_become_shorter_also_while_buckets_migrate() {
    let bench = Bench::with_shards(3);
    let text = generated(3000);
    bench.write("events.jsonl", &text);
    bench.ok(&["import", "events.jsonl"]);
    let open = lines(&[("open-1", false, 5), ("open-2", false, 5)]);
    bench.write("open.jsonl", open);
    bench.ok(&["import", "open.jsonl"]);
    bench.ok(&["rebalance", "--shards", "4", "--yes"]);
    let size = || -> u64 {
        let files = (0..4).map(|shard| bench.path(format!("shard-{shard}.db")));
        files.map(|file| file.metadata().unwrap().len()).sum()
    };
    let before = size();
    let (executions, events) = count(&logs(text.as_bytes()));
    let done = bench.json(&["retain", "--closed-for", "1d"]);
    assert_eq!(
        (number(&done["executions"]), number(&done["events"])),
        (executions, events)
    );
    let after = size();
    assert!(after < before / 4, "{before} {after}");
    // More if a file grew in between.
    assert!(number(&done["released_bytes"]) >= before - after);
    bench.ok(&["drain", "--live", "--until-settled"]);
    assert_eq!(bench.audited(), (2, 2));
}

#[test]
fn a_time_without_a_unit_is_refused() {
    let bench = Bench::with_shards(1);
    let ran = bench.run(&["retain", "--closed-for", "30"]);
    ran.refused(2, &["30d, 12h, 90m, 45s"]);
    let ran = bench.run(&["retain"]);
    ran.refused(2, &["--closed-for"]);
}
