//! `loom conformance`: a store of the user's under the suite.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use loom_test_postgres::server;
use support::{Bench, number};

#[test]
fn a_folder_is_put_through_some_of_the_suite_and_left_as_it_was() {
    let bench = Bench::with_shards(1);
    let before: Vec<_> = listing(&bench);
    let said = bench.json(&[
        "conformance",
        "--url",
        "sqlite:shard-0.db",
        "--only",
        "append",
    ]);
    assert!(number(&said["passed"]) > 10, "{said}");
    // One case would cut the store off, which cannot be done to a file.
    assert_eq!((&said["failed"], &said["skipped"]), (&0.into(), &1.into()));
    assert_eq!(said["url"], "sqlite:shard-0.db");
    assert_eq!(listing(&bench), before);
    let text = bench.ok(&[
        "conformance",
        "--url",
        "sqlite:new.db",
        "--only",
        "terminal",
    ]);
    assert!(text.contains("conforms: sqlite:new.db"), "{text}");
    assert!(!bench.path("new.db").exists());
}

#[test]
fn a_database_is_put_through_some_of_the_suite_and_left_as_it_was() {
    let Some(server) = server() else { return };
    let bench = Bench::new();
    let url = server.url();
    let said = bench.json(&["conformance", "--url", &url, "--only", "fencing"]);
    assert!(number(&said["passed"]) > 10, "{said}");
    assert_eq!((&said["failed"], &said["skipped"]), (&0.into(), &0.into()));
    if let loom_test_postgres::Server::Own(cluster) = &*server {
        let left = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'loom_scratch%'";
        assert_eq!(cluster.execute("postgres", left).unwrap().trim(), "0");
    }
}

#[test]
fn a_place_where_no_store_can_be_is_told_once() {
    let bench = Bench::new();
    let run = |url: &str| bench.run(&["conformance", "--url", url]);
    run("sqlite:missing/folder/a.db").refused(1, &["missing/folder"]);
    run("mysql://h/d").refused(2, &["--url", "mysql"]);
    let unreachable = run("postgres://loom:hidden@127.0.0.1:9/d");
    unreachable.refused(4, &["127.0.0.1:9"]);
    assert!(!unreachable.stderr.contains("hidden"));
    bench
        .run(&[
            "conformance",
            "--url",
            "sqlite:a.db",
            "--only",
            "nothing at all",
        ])
        .refused(2, &["no case", "nothing at all"]);
}

fn listing(bench: &Bench) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> = std::fs::read_dir(bench.path("."))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    names
}
