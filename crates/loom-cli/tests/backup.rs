//! A deployment is copied while it is used, and brought back.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::fs;
use std::path::Path;
use std::process::Child;

use serde_json::Value;
use support::{Bench, assert_same, count, generated, logs, number};

/// Starts a child that is killed at the end of the test at the latest.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn imported(shards: u16, executions: u64) -> (Bench, String) {
    let bench = Bench::with_shards(shards);
    let lines = generated(executions);
    bench.write("events.jsonl", &lines);
    bench.ok(&["import", "events.jsonl"]);
    (bench, lines)
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_was_backed_up_comes_back_elsewhere() {
    let (bench, lines) = imported(3, 100);
    let expected = logs(lines.as_bytes());
    let (executions, events) = count(&expected);
    let backup = bench.json(&["backup", "--to", "monday"]);
    assert_eq!(
        (number(&backup["executions"]), number(&backup["events"])),
        (executions, events)
    );
    assert_eq!(backup["epoch"], 1);
    assert_eq!(
        files(&bench.path("monday")),
        [
            "backup.json",
            "deployment.toml",
            "shard-0.db",
            "shard-1.db",
            "shard-2.db"
        ]
    );
    let manifest: Value = serde_json::from_str(&bench.read("monday/backup.json")).unwrap();
    assert_eq!(manifest, backup);

    let dry = bench.json(&[
        "restore",
        "--from",
        "monday",
        "--config",
        "new/loom.toml",
        "--dry-run",
    ]);
    assert_eq!(dry["restored"], false);
    assert!(!bench.path("new").exists());
    let restored = bench.json(&["restore", "--from", "monday", "--config", "new/loom.toml"]);
    assert_eq!(restored["restored"], true);
    assert_eq!(restored["repair"], Value::Array(vec![]));
    assert_eq!(number(&restored["events"]), events);
    let export = bench.ok(&["export", "--config", "new/loom.toml"]);
    assert_same(&logs(export.as_bytes()), &expected);
    assert_eq!(
        bench.json(&["audit", "--config", "new/loom.toml"])["violations"],
        0
    );
    // Nor was the original touched.
    assert_same(&bench.exported(), &expected);
}

/// Every backup that is made while executions move is sound and complete, whatever it caught.
#[test]
fn a_backup_while_a_drain_moves_live_executions_has_each_of_them() {
    let (bench, lines) = imported(4, 1500);
    let open: String = (0..500)
        .map(|n| format!("{{\"execution\":\"open-{n}\",\"at\":{n},\"type\":\"begun\"}}\n"))
        .collect();
    bench.write("open.jsonl", &open);
    bench.ok(&["import", "open.jsonl"]);
    let expected = logs((lines + &open).as_bytes());
    bench.ok(&["rebalance", "--shards", "5", "--yes"]);

    let drain = ["drain", "--live", "--until-settled", "--rate", "60"];
    let mut drain = Running(bench.command(&drain).spawn().unwrap());
    while bench.ids_on(4).is_empty() {
        assert!(drain.0.try_wait().unwrap().is_none(), "the drain ended");
    }
    let mut on_the_new_shard = Vec::new();
    for n in 0..6 {
        let backup = bench.json(&["backup", "--to", &format!("backup-{n}")]);
        let shard = &backup["shards"][4];
        assert_eq!(shard["shard"], 4);
        on_the_new_shard.push(number(&shard["executions"]));
    }
    drop(drain);
    bench.ok(&["drain", "--live", "--until-settled"]);
    let all = bench.ids_on(4).len() as u64;
    assert!(on_the_new_shard.is_sorted(), "{on_the_new_shard:?}");
    assert!(
        on_the_new_shard.iter().any(|on| (1..all).contains(on)),
        "{on_the_new_shard:?} of {all}: nothing was caught in the middle"
    );

    for n in 0..6 {
        let config = format!("restored-{n}/loom.toml");
        bench.ok(&[
            "restore",
            "--from",
            &format!("backup-{n}"),
            "--config",
            &config,
        ]);
        let export = bench.ok(&["export", "--config", &config]);
        assert_same(&logs(export.as_bytes()), &expected);
        bench.ok(&["drain", "--live", "--until-settled", "--config", &config]);
        let audit = bench.json(&["audit", "--config", &config]);
        assert_eq!(audit["violations"], 0);
        let (executions, events) = count(&expected);
        assert_eq!(
            (number(&audit["executions"]), number(&audit["events"])),
            (executions, events)
        );
    }
}

#[test]
fn a_shard_that_comes_back_beside_others_is_to_be_repaired() {
    let (bench, _) = imported(3, 60);
    bench.ok(&["backup", "--to", "b"]);
    let whole = bench.exported();
    bench.write(
        "later.jsonl",
        "{\"execution\":\"later\",\"at\":1,\"type\":\"begun\"}\n",
    );
    bench.ok(&["import", "later.jsonl"]);
    fs::remove_file(bench.path("shard-1.db")).unwrap();
    bench.run(&["restore", "--from", "b"]).refused(
        3,
        &[
            "`shard-0.db`, `shard-2.db` will not be overwritten",
            "--shard",
        ],
    );
    assert!(!bench.path("shard-1.db").exists());

    let restored = bench.json(&["restore", "--from", "b", "--shard", "1"]);
    assert_eq!(restored["repair"], serde_json::json!([1]));
    assert_eq!(restored["shards"].as_array().unwrap().len(), 1);
    bench.ok(&["repair", "1", "--yes"]);
    let mut found = bench.exported();
    found.remove("later");
    assert_same(&found, &whole);
    bench.audited();
}

#[test]
fn a_backup_that_was_changed_restores_nothing() {
    let (bench, _) = imported(2, 40);
    bench.ok(&["backup", "--to", "b"]);
    let path = bench.path("b/shard-1.db");
    let sound = fs::read(&path).unwrap();
    // A bit in a payload: SQLite itself would not notice.
    let at = sound
        .windows(6)
        .position(|window| window == b"amount")
        .unwrap();
    let mut flipped = sound.clone();
    flipped[at] ^= 1;
    for damaged in [&flipped[..], &sound[..sound.len() - 4096], b""] {
        fs::write(&path, damaged).unwrap();
        let restore = bench.run(&["restore", "--from", "b", "--config", "new/loom.toml"]);
        restore.refused(
            1,
            &["shard-1.db` is not as it was when the backup was made"],
        );
        assert!(!bench.path("new").exists());
    }
    fs::write(&path, &sound).unwrap();
    bench.ok(&["restore", "--from", "b", "--config", "new/loom.toml"]);
}

#[test]
fn a_restore_that_was_interrupted_goes_on_and_one_that_was_used_is_left_alone() {
    let (bench, lines) = imported(2, 40);
    bench.ok(&["backup", "--to", "b"]);
    fs::create_dir(bench.path("new")).unwrap();
    fs::copy(bench.path("b/shard-0.db"), bench.path("new/shard-0.db")).unwrap();
    let restore = ["restore", "--from", "b", "--config", "new/loom.toml"];
    // The rest of another file beside it would be taken for a part of it.
    bench.write("new/shard-1.db-wal", "of a file that is gone");
    bench
        .run(&restore)
        .refused(3, &["shard-1.db-wal` will not be overwritten"]);
    fs::remove_file(bench.path("new/shard-1.db-wal")).unwrap();
    bench.ok(&restore);
    let export = bench.ok(&["export", "--config", "new/loom.toml"]);
    assert_same(&logs(export.as_bytes()), &logs(lines.as_bytes()));
    bench.run(&restore).refused(3, &["will not be overwritten"]);
}

#[test]
fn a_backup_replaces_nothing_and_what_is_none_is_not_restored() {
    let (bench, _) = imported(2, 20);
    bench.ok(&["backup", "--to", "b"]);
    bench
        .run(&["backup", "--to", "b"])
        .refused(3, &["`b` is not empty", "holds a backup already"]);
    fs::remove_file(bench.path("b/backup.json")).unwrap();
    bench
        .run(&["backup", "--to", "b"])
        .refused(3, &["interrupted backup"]);
    bench
        .run(&["restore", "--from", "b"])
        .refused(2, &["is no backup, or one that was interrupted"]);
    bench.write("b/backup.json", "{}");
    bench
        .run(&["restore", "--from", "b"])
        .refused(1, &["is not what `loom backup` has written"]);

    bench.ok(&["backup", "--to", "c"]);
    bench
        .run(&["restore", "--from", "c", "--shard", "7"])
        .refused(2, &["shard 7 is not in the backup"]);
    let other = Bench::with_shards(2);
    let from = bench.path("c");
    let restore = ["restore".as_ref(), "--from".as_ref(), from.as_os_str()];
    other
        .run(&restore)
        .refused(3, &["the backup is of deployment"]);
}
