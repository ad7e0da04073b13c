//! Deployments on PostgreSQL servers.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::{fs, thread};

use loom_test_postgres::{Cluster, Settings, available};
use support::{Bench, assert_same, count, logs};

/// A server with the role `loom`, whose password is `hunter2`, and a database of its own.
fn cluster() -> Cluster {
    let cluster = Cluster::start(&Settings::fast()).unwrap();
    let role = "CREATE ROLE loom LOGIN PASSWORD 'hunter2'";
    cluster.execute("postgres", role).unwrap();
    let database = "CREATE DATABASE events OWNER loom";
    cluster.execute("postgres", database).unwrap();
    cluster
}

fn url(cluster: &Cluster, login: &str, schema: &str) -> String {
    format!(
        "postgres://{login}@127.0.0.1:{}/events?schema={schema}",
        cluster.port()
    )
}

fn lines(executions: u32) -> String {
    (0..executions)
        .flat_map(|n| {
            (0..3).map(move |seq| {
                format!("{{\"execution\":\"e-{n}\",\"at\":{seq},\"type\":\"t{seq}\"}}\n")
            })
        })
        .collect()
}

#[test]
fn a_deployment_grows_from_a_file_to_servers_and_shrinks_to_one_of_them() {
    if !available() {
        return;
    }
    let (first, second) = (cluster(), cluster());
    let bench = Bench::with_shards(1);
    let text = lines(60);
    bench.write("in.jsonl", &text);
    bench.ok(&["import", "in.jsonl"]);
    let expected = logs(text.as_bytes());

    let (one, two) = (
        url(&first, "loom:hunter2", "a"),
        url(&second, "loom:hunter2", "b"),
    );
    let grow = [
        "rebalance",
        "--shards",
        "3",
        "--add-url",
        &one,
        "--add-url",
        &two,
        "--yes",
    ];
    let said = bench.run(&grow);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    bench.ok(&["drain", "--live", "--until-settled"]);
    assert_eq!(bench.audited(), count(&expected));
    assert!(!bench.ids_on(1).is_empty() && !bench.ids_on(2).is_empty());

    // The password is in the deployment file, which nobody else may read, and nowhere else.
    assert!(bench.read("loom.toml").contains("hunter2"));
    let mode = fs::metadata(bench.path("loom.toml"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o077, 0);
    let mut printed = said.stdout + &said.stderr;
    for args in [
        &["shard", "ls"][..],
        &["status", "--json"],
        &["shard", "ls", "--json"],
    ] {
        printed += &bench.ok(args);
    }
    bench
        .run(&["backup", "--to", "copy"])
        .refused(3, &["on a server", "pg_dump"]);
    assert!(!printed.contains("hunter2"), "{printed}");
    let directory = second
        .execute(
            "events",
            "SELECT string_agg(location, ' ') FROM b.locations",
        )
        .unwrap();
    assert!(directory.contains("schema=a") && !directory.contains("hunter2"));

    bench.ok(&["rebalance", "--remove", "0", "--remove", "1", "--yes"]);
    bench.ok(&["drain", "--live", "--until-settled"]);
    assert_eq!(bench.audited(), count(&expected));
    assert_same(&bench.exported(), &expected);
    assert_eq!(bench.ids_on(2).len(), 60);
    // The events that went are gone from where they were; that is done in the background.
    bench.ok(&["shard", "ls"]);
}

#[test]
fn a_server_that_is_down_is_told_with_its_shard_and_without_its_password() {
    if !available() {
        return;
    }
    let (mut first, second) = (cluster(), cluster());
    let bench = Bench::new();
    let (one, two) = (
        url(&first, "loom:hunter2", "a"),
        url(&second, "loom:hunter2", "b"),
    );
    bench.ok(&["init", "--url", &one, "--url", &two]);
    bench.ok(&["status"]);
    first.stop_immediately();
    let ran = bench.run(&["status"]);
    assert_ne!(ran.code, Some(0));
    assert!(ran.stderr.contains("shard 0"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    first.start_again().unwrap();
    bench.ok(&["status"]);
    // One that lets nobody in is there: nothing is given up.
    let may = |may: &str| {
        let sql = format!("ALTER ROLE loom {may}");
        second.execute("postgres", &sql).unwrap();
    };
    may("NOLOGIN");
    let ran = bench.run(&["status"]);
    assert_ne!(ran.code, Some(0));
    assert!(!ran.stderr.contains("abandon"), "{}", ran.stderr);
    bench
        .run(&["shard", "abandon", "1", "--yes-lose-data"])
        .refused(3, &["shard 1 is there", "not permitted to log in"]);
    may("LOGIN");
    bench.ok(&["status"]);
    // The same schema twice is one shard too many.
    bench
        .run(&["shard", "add", &one, "--id", "7"])
        .refused(3, &["is shard 0 already"]);
}

/// Moves everything from shard 0 to a new one at `to`, by movers that are killed, while others write.
fn moves_under_load(bench: &Bench, to: &str) {
    let before = lines(150);
    bench.write("before.jsonl", &before);
    bench.ok(&["import", "before.jsonl"]);
    bench.ok(&[
        "rebalance",
        "--add",
        "1",
        "--remove",
        "0",
        "--add-url",
        to,
        "--yes",
    ]);
    let during: String = (0..150)
        .map(|n| format!("{{\"execution\":\"e-{n}\",\"at\":3,\"type\":\"last\"}}\n"))
        .chain((0..60).map(|n| format!("{{\"execution\":\"new-{n}\",\"at\":0,\"type\":\"t\"}}\n")))
        .collect();
    let whole = before + &during;
    bench.write("whole.jsonl", &whole);
    let importing = bench
        .command(&["import", "whole.jsonl"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let drain = ["drain", "--live", "--progress", "plain"];
    let mut kills = 0;
    while kills < 3 && bench.kill_when(&drain, |line| !line.contains(" 0 moved")) {
        kills += 1;
    }
    assert!(kills > 0, "no mover was killed");
    let imported = importing.wait_with_output().unwrap();
    let said = String::from_utf8(imported.stderr).unwrap();
    assert!(imported.status.success(), "{said}");
    bench.ok(&["drain", "--live", "--until-settled"]);
    let expected = logs(whole.as_bytes());
    assert_eq!(bench.audited(), count(&expected));
    assert_same(&bench.exported(), &expected);
    assert!(bench.ids_on(0).is_empty());
}

#[test]
fn executions_move_from_a_file_to_a_server_while_movers_are_killed_and_others_write() {
    if !available() {
        return;
    }
    let server = cluster();
    let bench = Bench::with_shards(1);
    moves_under_load(&bench, &url(&server, "loom:hunter2", "a"));
}

#[test]
fn executions_move_from_server_to_server_while_movers_are_killed_and_others_write() {
    if !available() {
        return;
    }
    let (first, second) = (cluster(), cluster());
    let bench = Bench::new();
    bench.ok(&["init", "--url", &url(&first, "loom:hunter2", "a")]);
    moves_under_load(&bench, &url(&second, "loom:hunter2", "b"));
    // What retired logs leave is removed in the background, by whichever process comes by.
    let left = "SELECT count(*) FROM a.garbage";
    while first.execute("events", left).unwrap().trim() != "0" {
        bench.ok(&["shard", "ls"]);
        thread::yield_now();
    }
}
