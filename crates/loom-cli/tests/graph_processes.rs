//! Graphs whose nodes are processes of their own, and graphs that two processes want to run.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStderr, Command};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Bench, Ran, finish};

const RUNTIMES: [&str; 2] = ["local", "process"];

fn run<'a>(id: &'a str, runtime: &'a str) -> [&'a str; 7] {
    [
        "graph",
        "run",
        "graph.toml",
        "--id",
        id,
        "--runtime",
        runtime,
    ]
}

fn outputs(report: &Value) -> Vec<String> {
    let nodes = report["nodes"].as_array().unwrap().iter();
    nodes
        .map(|node| node["output"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_same_file_runs_with_both_runtimes_and_each_node_gets_a_process_of_its_own() {
    let bench = Bench::with_shards(3);
    // Each says which process started its command; the last one also what it was handed.
    let node = |key: &str| format!("[node.{key}]\ncommand = [\"sh\", \"-c\", \"echo $PPID\"]\n");
    let last =
        "[node.last]\ncommand = [\"sh\", \"-c\", \"cat; echo $PPID\"]\nafter = [\"a\", \"b\"]\n";
    bench.write("graph.toml", node("a") + &node("b") + &node("c") + last);
    for runtime in RUNTIMES {
        let report = bench.json(&run(runtime, runtime));
        assert_eq!(report["outcome"], "completed");
        let outputs = outputs(&report);
        let handed: Value = serde_json::from_str(outputs[3].lines().next().unwrap()).unwrap();
        let after = |key: &str| handed["after"][key].as_str().unwrap().to_owned();
        assert_eq!(
            [after("a"), after("b")],
            [outputs[0].clone(), outputs[1].clone()]
        );
        let processes: BTreeSet<&str> = outputs
            .iter()
            .map(|output| output.lines().last().unwrap())
            .collect();
        assert_eq!(processes.len(), if runtime == "local" { 1 } else { 4 });
        // What one runtime has run the other one does not run again.
        for other in RUNTIMES {
            assert_eq!(bench.json(&run(runtime, other)), report);
        }
    }
}

#[test]
fn a_command_that_fails_in_a_process_of_its_own_is_told_like_any_other() {
    let bench = Bench::with_shards(1);
    bench.write(
        "graph.toml",
        "[node.a]\ncommand = [\"sh\", \"-c\", \"echo no such table >&2; exit 3\"]\n",
    );
    let messages = RUNTIMES.map(|runtime| {
        let ran = bench.run(&run(runtime, runtime));
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        let show = bench.json(&["graph", "show", runtime]);
        show["nodes"][0]["message"].as_str().unwrap().to_owned()
    });
    assert!(messages[0].contains("no such table"), "{}", messages[0]);
    assert_eq!(messages[0], messages[1]);
}

/// `a` counts its runs; `b` says what somebody writes to the fifo `gate`.
fn gated() -> Bench {
    let bench = Bench::with_shards(2);
    bench.limit("lease_ms = 300");
    let made = Command::new("mkfifo").arg(bench.path("gate")).status();
    assert!(made.unwrap().success());
    bench.write(
        "graph.toml",
        "[node.a]\ncommand = [\"sh\", \"-c\", \"echo ran >> a.ran\"]\n\
         [node.b]\ncommand = [\"sh\", \"-c\", \"echo $$ >> b.pid; cat gate\"]\nafter = [\"a\"]\n",
    );
    bench
}

/// Starts a run, and waits until it says something.
fn start(bench: &Bench, args: &[&str], until: &str) -> (Child, BufReader<ChildStderr>) {
    let mut child = bench.command(args).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(until) {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "no `{until}`");
    }
    (child, stderr)
}

fn end((child, mut stderr): (Child, BufReader<ChildStderr>)) -> Ran {
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stderr, &mut rest).unwrap();
    let mut ran = finish(child);
    ran.stderr = rest;
    ran
}

fn lines(bench: &Bench, name: &str) -> usize {
    fs::read_to_string(bench.path(name)).map_or(0, |text| text.lines().count())
}

#[test]
fn e24_a_second_run_of_the_same_graph_says_who_runs_it_and_joins() {
    for runtime in RUNTIMES {
        let bench = gated();
        let first = start(&bench, &run("g", runtime), "b: started");
        let second = start(&bench, &run("g", runtime), "`g` is run by process");
        fs::write(bench.path("gate"), "went\n").unwrap();
        for ran in [end(first), end(second)] {
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            assert!(
                ran.stdout.contains("2 of 2 nodes completed"),
                "{}",
                ran.stdout
            );
        }
        assert_eq!([lines(&bench, "a.ran"), lines(&bench, "b.pid")], [1, 1]);
    }
}

#[test]
fn e24_a_run_that_takes_over_on_purpose_stops_the_other_one() {
    let bench = gated();
    let first = start(&bench, &run("g", "local"), "b: started");
    let mut take_over = run("g", "local").to_vec();
    take_over.push("--take-over");
    let second = start(&bench, &take_over, "b: started");
    let ran = end(first);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stderr.contains("taken over"), "{}", ran.stderr);
    fs::write(bench.path("gate"), "went\n").unwrap();
    let ran = end(second);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(lines(&bench, "a.ran"), 1, "it had ended");
}

#[test]
fn a_run_that_is_interrupted_stops_its_processes_and_can_go_on_at_once() {
    let bench = gated();
    // Nobody would wait for so long.
    bench.write(
        "loom.toml",
        bench.read("loom.toml").replace("300", "3600000"),
    );
    let first = start(&bench, &run("g", "process"), "b: started");
    while lines(&bench, "b.pid") == 0 {
        std::thread::yield_now();
    }
    let pid = Pid::from_raw(first.0.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let ran = end(first);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("interrupted"), "{}", ran.stderr);
    let command: i32 = bench.read("b.pid").trim().parse().unwrap();
    let command = Pid::from_raw(command).unwrap();
    assert!(
        rustix::process::test_kill_process(command).is_err(),
        "its command is gone, too"
    );
    let second = start(&bench, &run("g", "process"), "b: started");
    fs::write(bench.path("gate"), "went\n").unwrap();
    let ran = end(second);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn a_run_whose_worker_was_killed_ends_and_can_go_on_at_once() {
    let bench = Bench::with_shards(2);
    bench.limit("lease_ms = 3600000");
    let script = "if [ -e killed ]; then echo went; else touch killed; kill -9 $PPID; fi";
    bench.write(
        "graph.toml",
        format!("[node.a]\ncommand = [\"sh\", \"-c\", \"{script}\"]\n"),
    );
    let ran = bench.run(&run("g", "process"));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let report = bench.json(&run("g", "process"));
    assert_eq!(outputs(&report), ["went"]);
    assert_eq!(report["nodes"][0]["attempts"], 1);
}

#[test]
fn a_worker_that_nobody_assigned_anything_to_says_so() {
    let bench = Bench::with_shards(1);
    let ran = bench.run(&["worker", "run", "--folder", "."]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("LOOM_EXECUTION"), "{}", ran.stderr);
}
