//! What is imported is stored once and comes back as it was.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use support::{Bench, assert_same, count, generated, gunzip, logs, number, real_log};

/// Imports a file twice and exports it.
fn there_and_back(bench: &Bench, file: &Path, lines: &[u8]) {
    let expected = logs(lines);
    let (executions, events) = count(&expected);
    let first = bench.json(&["import".as_ref(), file.as_os_str()]);
    assert_eq!(number(&first["executions"]), executions);
    assert_eq!(number(&first["events"]), events);
    assert_eq!(first["skipped"], 0);
    assert_eq!(bench.audited(), (executions, events));

    let before = bench.ok(&["export"]);
    assert_same(&logs(before.as_bytes()), &expected);
    let again = bench.json(&["import".as_ref(), file.as_os_str()]);
    assert_eq!(
        (number(&again["events"]), number(&again["skipped"])),
        (0, events)
    );
    assert_eq!(
        bench.ok(&["export"]),
        before,
        "importing again changes nothing"
    );
}

#[test]
fn a_generated_log_goes_in_and_comes_out() {
    let bench = Bench::with_shards(4);
    let lines = generated(300);
    let file = bench.write("log.jsonl", &lines);
    there_and_back(&bench, &file, lines.as_bytes());
}

#[test]
fn the_real_permit_log_goes_in_and_comes_out() {
    let Some(file) = real_log("permits.jsonl.gz") else {
        return;
    };
    let bench = Bench::with_shards(4);
    there_and_back(&bench, &file, &gunzip(&file));
    assert_eq!(bench.audited(), (1_434, 8_577));
}

#[test]
fn an_export_can_be_a_gzip_file_and_be_imported_elsewhere() {
    let bench = Bench::with_shards(3);
    let lines = generated(50);
    bench.run_with_stdin(&["import", "-"], lines.as_bytes());
    let out = bench.json(&["export", "--out", "all.jsonl.gz"]);
    assert_eq!(number(&out["executions"]), 50);
    let other = Bench::with_shards(7);
    let file = bench.path("all.jsonl.gz");
    other.ok(&["import".as_ref(), file.as_os_str()]);
    assert_same(&other.exported(), &logs(lines.as_bytes()));
}

#[test]
fn a_gzip_stream_is_read_from_stdin() {
    let bench = Bench::with_shards(2);
    let lines = generated(20);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(lines.as_bytes()).unwrap();
    let ran = bench.run_with_stdin(&["import", "-"], &encoder.finish().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_same(&bench.exported(), &logs(lines.as_bytes()));
}

#[test]
fn an_export_that_fails_leaves_the_old_file() {
    let bench = Bench::with_shards(1);
    fs::create_dir(bench.path("folder.jsonl")).unwrap();
    let ran = bench.run(&["export", "--out", "folder.jsonl"]);
    ran.refused(1, &["cannot write `folder.jsonl`"]);
    let left = fs::read_dir(bench.path("")).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(
        !left.into_iter().any(|name| name.contains("export")),
        "nothing half-written is left"
    );
}

/// Kills an import at each of several moments, told by its own progress, until it comes to its end.
fn killed_again_and_again(bench: &Bench, file: &Path, executions: u64, events: u64) {
    let import = [
        "import".as_ref(),
        file.as_os_str(),
        "--progress".as_ref(),
        "plain".as_ref(),
    ];
    let mut kills = 0;
    let mut stored = 0;
    // Every run gets a few windows further than the one before, and is killed in the next.
    while kills < 4 {
        let further = stored + events / 6;
        let reached = bench.kill_when(&import, |line| {
            let words = line.strip_prefix("import ");
            let done = words.and_then(|line| line.split(' ').next());
            let done = done.and_then(|done| done.replace(',', "").parse::<u64>().ok());
            done.is_some_and(|done| done >= further)
        });
        assert!(reached, "it ended before it had stored {further} events");
        kills += 1;
        let (_, now) = bench.audited();
        assert!(
            now >= further,
            "what was reported is stored: {now} of {further}"
        );
        assert!(now < events, "it was killed in the middle");
        stored = now;
    }
    let rest = bench.json(&["import".as_ref(), file.as_os_str()]);
    assert_eq!(number(&rest["skipped"]), stored);
    assert_eq!(number(&rest["events"]), events - stored);
    assert_eq!(bench.audited(), (executions, events));
}

#[test]
fn an_import_that_is_killed_goes_on_with_nothing_lost_or_doubled() {
    let bench = Bench::with_shards(4);
    bench.limit("import_window = 32");
    let lines = generated(400);
    let file = bench.write("log.jsonl", &lines);
    let expected = logs(lines.as_bytes());
    let (executions, events) = count(&expected);
    killed_again_and_again(&bench, &file, executions, events);
    assert_same(&bench.exported(), &expected);
}

#[test]
fn an_import_of_the_real_loan_log_that_is_killed_goes_on() {
    let Some(file) = real_log("loan-applications.jsonl.gz") else {
        return;
    };
    let bench = Bench::with_shards(4);
    killed_again_and_again(&bench, &file, 13_087, 262_200);
    assert_same(&bench.exported(), &logs(&gunzip(&file)));
}

#[test]
fn two_processes_that_import_the_same_file_store_it_once() {
    let bench = Bench::with_shards(2);
    bench.limit("import_window = 64");
    let lines = generated(200);
    bench.write("log.jsonl", &lines);
    let start = || {
        bench
            .command(&["import", "log.jsonl", "--json"])
            .spawn()
            .unwrap()
    };
    let (one, other) = (start(), start());
    let (one, other) = (support::finish(one), support::finish(other));
    assert_eq!(
        (one.code, other.code),
        (Some(0), Some(0)),
        "{}{}",
        one.stderr,
        other.stderr
    );
    let stored = |ran: &support::Ran| {
        number(&serde_json::from_str::<serde_json::Value>(&ran.stdout).unwrap()["events"])
    };
    let expected = logs(lines.as_bytes());
    assert_eq!(stored(&one) + stored(&other), count(&expected).1);
    assert_same(&bench.exported(), &expected);
}

#[test]
fn a_reader_of_the_export_that_has_seen_enough_is_no_failure() {
    let bench = Bench::with_shards(1);
    bench.run_with_stdin(&["import", "-"], generated(2000).as_bytes());
    let mut child = bench.command(&["export"]).spawn().unwrap();
    drop(child.stdout.take());
    let ran = support::finish(child);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}

#[test]
fn an_export_says_what_it_left_out_and_clears_away_what_a_killed_one_left() {
    let bench = Bench::with_shards(2);
    let ran = bench.run_with_stdin(&["import", "-"], generated(9).as_bytes());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    // A process that was killed with SIGKILL removes nothing, and holds no lock any more.
    bench.write(".loom-staged-killed", "half an export");
    let exported = bench.json(&["export", "--out", "out.jsonl"]);
    assert_eq!(
        (&exported["executions"], &exported["skipped"]),
        (&9.into(), &0.into())
    );
    assert!(!bench.path(".loom-staged-killed").exists());
}
