//! `loom graph cancel`.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::fs;

use serde_json::{Value, json};
use support::Bench;

/// `a`, then `b`, then `c`, each of which leaves a file when it has run.
fn graph(bench: &Bench, b: &str) {
    let node = |key: &str, script: &str, after: &str| {
        let script = format!("{script}; touch {key}.ran");
        format!("[node.{key}]\ncommand = [\"sh\", \"-c\", '''{script}''']\nafter = [{after}]\n")
    };
    let nodes = [
        node("a", ":", ""),
        node("b", b, "\"a\""),
        node("c", ":", "\"b\""),
    ];
    bench.write("graph.toml", nodes.concat());
}

fn states(bench: &Bench) -> Vec<Value> {
    let report = bench.json(&["graph", "show", "g"]);
    let nodes = report["nodes"].as_array().unwrap().iter();
    nodes.map(|node| node["outcome"].clone()).collect()
}

#[test]
fn a_run_that_nobody_works_on_is_ended_with_its_branches_and_is_not_resumed() {
    let bench = Bench::with_shards(3);
    // The first time, it interrupts the run that it belongs to.
    graph(&bench, "test -e go || { kill -INT $PPID; sleep 1000; }");
    let run = ["graph", "run", "graph.toml", "--id", "g"];
    bench.run(&run).refused(1, &["interrupted"]);
    assert_eq!(states(&bench), ["completed", "open", "waiting"]);

    let cancel = ["graph", "cancel", "g", "--reason", "a false alarm"];
    let cancelled = bench.json(&cancel);
    assert_eq!(cancelled["ended"], json!(["g", "g/b"]));
    assert_eq!(cancelled["finished"], json!(["g/a"]));
    assert_eq!(cancelled["failed"], json!([]));

    bench.write("go", "");
    let ran = bench.run(&run);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert_eq!(states(&bench), ["completed", "cancelled", "skipped"]);
    assert!(!bench.path("b.ran").exists() && !bench.path("c.ran").exists());
    assert!(bench.ok(&["log", "g/b"]).contains("a false alarm"));

    let again = bench.json(&cancel);
    assert_eq!(
        (&again["ended"], &again["finished"]),
        (&json!([]), &json!(["g", "g/a", "g/b"]))
    );
    bench.run(&["graph", "cancel", "h"]).refused(1, &["`h`"]);
}

#[test]
fn a_run_that_another_process_works_on_is_left_to_it() {
    let bench = Bench::with_shards(2);
    let loom = env!("CARGO_BIN_EXE_loom");
    graph(
        &bench,
        &format!("'{loom}' graph cancel g 2> said; echo $? > code"),
    );
    assert_eq!(
        bench.json(&["graph", "run", "graph.toml", "--id", "g"])["outcome"],
        "completed"
    );
    let said = fs::read_to_string(bench.path("said")).unwrap();
    assert_eq!(bench.read("code").trim(), "3", "{said}");
    assert!(said.contains("end the process that runs it"), "{said}");
    assert!(!said.contains("g/a") && !said.contains("g/b"), "{said}");
    assert_eq!(states(&bench), ["completed", "completed", "completed"]);
}
