//! Graphs of commands, run, resumed, interrupted and refused.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Bench, finish, number};

fn outcomes(report: &Value) -> Vec<(String, String)> {
    let nodes = report["nodes"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    nodes
        .map(|node| (text(&node["key"]), text(&node["outcome"])))
        .collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected
        .iter()
        .map(|(key, outcome)| ((*key).to_owned(), (*outcome).to_owned()))
        .collect()
}

/// A node that appends a line to a file, to count how often it ran.
fn counted(key: &str, after: &str) -> String {
    format!(
        "[node.{key}]\ncommand = [\"sh\", \"-c\", \"echo ran >> {key}.ran; echo {key} done\"]\nafter = [{after}]\n"
    )
}

fn runs(bench: &Bench, key: &str) -> usize {
    fs::read_to_string(bench.path(format!("{key}.ran"))).map_or(0, |text| text.lines().count())
}

#[test]
fn the_incident_runs_from_any_folder_each_node_as_an_execution_of_its_own() {
    let graph =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/incident/incident.toml");
    let bench = Bench::with_shards(4);
    let run = [
        "graph".as_ref(),
        "run".as_ref(),
        graph.as_os_str(),
        "--id".as_ref(),
        "incident-42".as_ref(),
    ];
    let ran = bench.run(&run);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for line in [
        "metrics: started",
        "metrics: completed",
        "report: completed",
    ] {
        assert!(
            ran.stderr.contains(line),
            "live progress says `{line}`:\n{}",
            ran.stderr
        );
    }
    assert!(
        ran.stdout.contains("4 of 4 nodes completed"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("Checkout is slow"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("loom log incident-42/metrics"),
        "{}",
        ran.stdout
    );

    let report = bench.json(&["graph", "show", "incident-42"]);
    assert_eq!(report["outcome"], "completed");
    for node in report["nodes"].as_array().unwrap() {
        let key = node["key"].as_str().unwrap();
        assert_eq!(node["execution"], format!("incident-42/{key}"));
        assert_eq!(
            (&node["outcome"], &node["attempts"]),
            (&"completed".into(), &1.into())
        );
        let log = bench.json(&["log", node["execution"].as_str().unwrap()]);
        assert_eq!(
            (&log["shard"], &log["file"]),
            (&node["shard"], &node["file"]),
            "it is where the join says"
        );
        assert_eq!(log["events"].as_array().unwrap().len(), 3, "one effect");
    }
    let (executions, _) = bench.audited();
    assert_eq!(executions, 5, "four nodes and the graph");
    // Nothing runs again, and nothing is written.
    let before = bench.ok(&["export"]);
    let again = bench.run(&run);
    assert_eq!((again.code, again.stderr.as_str()), (Some(0), ""));
    assert_eq!(again.stdout, ran.stdout);
    assert_eq!(bench.ok(&["export"]), before);
}

#[test]
fn what_journals_wrote_is_exported_and_imported_like_everything_else() {
    let bench = Bench::with_shards(2);
    bench.write("graph.toml", counted("a", "") + &counted("b", "\"a\""));
    bench.ok(&["graph", "run", "graph.toml", "--id", "g"]);
    let lines = bench.ok(&["export"]);
    let other = Bench::with_shards(3);
    other.run_with_stdin(&["import", "-"], lines.as_bytes());
    support::assert_same(&other.exported(), &support::logs(lines.as_bytes()));
    let ran = bench.run_with_stdin(&["import", "-", "--json"], lines.as_bytes());
    let totals: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(number(&totals["events"]), 0, "it is all there already");
}

#[test]
fn a_command_gets_its_input_the_outputs_it_waits_for_and_its_environment() {
    let bench = Bench::with_shards(2);
    bench.write(
        "graph.toml",
        "[node.first]\ncommand = [\"printf\", 'say \"hi\"\\n\\n']\n\
         [node.second]\ncommand = [\"sh\", \"-c\", \"cat; echo $NAME $LOOM_NODE $LOOM_EXECUTION; test -n \\\"$LOOM_IDEMPOTENCY_KEY\\\"\"]\n\
         after = [\"first\"]\nenv = { NAME = \"x y\" }\ninput = { n = [1, 2.5] }\n",
    );
    let report = bench.json(&["graph", "run", "graph.toml", "--id", "g"]);
    assert_eq!(report["nodes"][0]["output"], "say \"hi\"");
    assert_eq!(
        report["nodes"][1]["output"],
        "{\"input\":{\"n\":[1,2.5]},\"after\":{\"first\":\"say \\\"hi\\\"\"}}\nx y second g/second"
    );
}

#[test]
fn a_node_that_fails_keeps_only_those_from_running_that_wait_for_it() {
    let bench = Bench::with_shards(2);
    let fails = "[node.bad]\ncommand = [\"sh\", \"-c\", \"echo ran >> bad.ran; echo no such table >&2; exit 3\"]\n";
    let text = counted("a", "")
        + fails
        + &counted("b", "\"a\"")
        + &counted("c", "\"bad\"")
        + &counted("d", "\"c\"");
    bench.write("graph.toml", text);
    let run = ["graph", "run", "graph.toml", "--id", "g", "--json"];
    for _ in 0..2 {
        let ran = bench.run(&run);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("3 of 5 nodes did not complete"),
            "{}",
            ran.stderr
        );
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(
            outcomes(&report),
            pairs(&[
                ("a", "completed"),
                ("bad", "failed"),
                ("b", "completed"),
                ("c", "skipped"),
                ("d", "skipped")
            ])
        );
        assert_eq!(report["outcome"], "failed");
        let message = report["nodes"][1]["message"].as_str().unwrap();
        assert!(
            message.contains("exit status: 3") && message.contains("no such table"),
            "{message}"
        );
        assert_eq!(
            report["nodes"][3]["shard"],
            Value::Null,
            "what was skipped has no log"
        );
        // The outcome is recorded: the second time nothing runs.
        assert_eq!(
            ["a", "bad", "b", "c"].map(|key| runs(&bench, key)),
            [1, 1, 1, 0]
        );
    }
}

#[test]
fn output_that_is_too_long_and_programs_that_are_not_there_are_failures() {
    let bench = Bench::with_shards(1);
    bench.write(
        "graph.toml",
        "[node.long]\ncommand = [\"yes\"]\n[node.none]\ncommand = [\"./no-such-program\"]\n",
    );
    let ran = bench.run(&["graph", "run", "graph.toml", "--json"]);
    assert_eq!(ran.code, Some(1));
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let message = |node: usize| {
        report["nodes"][node]["message"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(
        message(0).contains("more than 262144 bytes"),
        "{}",
        message(0)
    );
    assert!(
        message(1).contains("could not be started"),
        "{}",
        message(1)
    );
}

/// `b` says that it runs, on a fifo that it keeps open, and waits until the file `go` is there.
fn stuck_graph(bench: &Bench) -> String {
    let made = std::process::Command::new("mkfifo")
        .arg(bench.path("alive"))
        .status()
        .unwrap();
    assert!(made.success());
    let script = "test -e go && exec echo went; exec 3>alive; echo $$ >&3; sleep 1000 & wait";
    counted("a", "")
        + &format!("[node.b]\ncommand = [\"sh\", \"-c\", \"{script}\"]\nafter = [\"a\"]\n")
        + &counted("c", "\"b\"")
}

#[test]
fn a_run_that_is_killed_goes_on_where_it_was() {
    let bench = Bench::with_shards(3);
    bench.limit("lease_ms = 300");
    let graph = stuck_graph(&bench);
    bench.write("graph.toml", graph);
    let run = ["graph", "run", "graph.toml", "--id", "g"];
    let mut child = bench.command(&run).spawn().unwrap();
    let mut alive = BufReader::new(fs::File::open(bench.path("alive")).unwrap());
    let mut pid = String::new();
    alive.read_line(&mut pid).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // A process that is killed cannot stop its commands; whoever did that has to.
    let orphan = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process_group(orphan, Signal::KILL).unwrap();

    let left = bench.json(&["graph", "show", "g"]);
    assert_eq!(
        outcomes(&left),
        pairs(&[("a", "completed"), ("b", "open"), ("c", "waiting")])
    );
    bench.write("go", "");
    let report = bench.json(&run);
    assert_eq!(
        outcomes(&report),
        pairs(&[("a", "completed"), ("b", "completed"), ("c", "completed")])
    );
    assert_eq!(
        [runs(&bench, "a"), runs(&bench, "c")],
        [1, 1],
        "finished branches are not run again"
    );
    assert_eq!(
        number(&report["nodes"][1]["attempts"]),
        1,
        "the one attempt went on"
    );
    assert_eq!(report["nodes"][1]["output"], "went");
}

#[test]
fn an_interrupt_stops_the_commands_and_records_nothing_about_them() {
    for signal in [Signal::INT, Signal::TERM] {
        let bench = Bench::with_shards(3);
        let graph = stuck_graph(&bench);
        bench.write("graph.toml", graph);
        let run = ["graph", "run", "graph.toml", "--id", "g"];
        let child = bench.command(&run).spawn().unwrap();
        let mut alive = BufReader::new(fs::File::open(bench.path("alive")).unwrap());
        let mut line = String::new();
        alive.read_line(&mut line).unwrap();
        kill_process(
            Pid::from_raw(child.id().try_into().unwrap()).unwrap(),
            signal,
        )
        .unwrap();
        let ran = finish(child);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains("interrupted"), "{}", ran.stderr);
        // The end of the fifo: neither the command nor what it had started is left.
        line.clear();
        assert_eq!(alive.read_line(&mut line).unwrap(), 0);
        let left = bench.json(&["graph", "show", "g"]);
        assert_eq!(
            outcomes(&left),
            pairs(&[("a", "completed"), ("b", "open"), ("c", "waiting")])
        );
        bench.write("go", "");
        assert_eq!(bench.json(&run)["outcome"], "completed");
        assert_eq!(runs(&bench, "a"), 1);
    }
}

#[test]
fn a_changed_graph_under_the_same_id_is_refused_with_what_changed() {
    let bench = Bench::with_shards(2);
    let graph = counted("a", "") + &counted("b", "\"a\"");
    bench.write("graph.toml", &graph);
    bench.ok(&["graph", "run", "graph.toml", "--id", "g"]);
    let before = bench.ok(&["export"]);
    for (changed, says) in [
        (
            graph.replace("b done", "b really done"),
            "`command` of node `b` has changed",
        ),
        (
            graph.replace("after = [\"a\"]", "after = []"),
            "`after` of node `b` has changed",
        ),
        (
            format!("{graph}input = 1\n"),
            "`input` of node `b` has changed",
        ),
        (format!("{graph}{}", counted("c", "")), "node `c` is new"),
        (counted("a", ""), "node `b` is gone"),
    ] {
        bench.write("graph.toml", changed);
        let ran = bench.run(&["graph", "run", "graph.toml", "--id", "g"]);
        ran.refused(3, &["is the run of another graph", says, "another --id"]);
    }
    assert_eq!(bench.ok(&["export"]), before);
    assert_eq!(
        [runs(&bench, "a"), runs(&bench, "b"), runs(&bench, "c")],
        [1, 1, 0]
    );
    // The limit is no part of what it is.
    bench.write("graph.toml", format!("[graph]\nlimit = 1\n{graph}"));
    bench.ok(&["graph", "run", "graph.toml", "--id", "g"]);
}

#[test]
fn an_id_under_which_something_else_stands_is_refused_and_left_alone() {
    let bench = Bench::with_shards(2);
    bench.write("graph.toml", counted("a", ""));
    let line = |id: &str| format!("{{\"execution\":\"{id}\",\"at\":1,\"type\":\"t\"}}\n");
    bench.run_with_stdin(&["import", "-"], (line("g") + &line("h/a")).as_bytes());
    let ran = bench.run(&["graph", "run", "graph.toml", "--id", "g"]);
    ran.refused(3, &["was not written by a journal"]);
    let ran = bench.run(&["graph", "run", "graph.toml", "--id", "h"]);
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("node `a` was not run to its end"),
        "{}",
        ran.stderr
    );
    assert_eq!(runs(&bench, "a"), 0);
    assert_eq!(
        bench.json(&["log", "h/a"])["next_sequence"],
        1,
        "nothing was written into it"
    );
}

#[test]
fn an_id_comes_from_the_command_line_or_the_file_or_is_made() {
    let bench = Bench::with_shards(2);
    bench.write(
        "graph.toml",
        "[graph]\nid = \"from-file\"\n".to_owned() + &counted("a", ""),
    );
    assert_eq!(
        bench.json(&["graph", "run", "graph.toml"])["id"],
        "from-file"
    );
    assert_eq!(
        bench.json(&["graph", "run", "graph.toml", "--id", "mine"])["id"],
        "mine"
    );
    bench.write("graph.toml", counted("a", ""));
    let (one, other) = (
        bench.json(&["graph", "run", "graph.toml"]),
        bench.json(&["graph", "run", "graph.toml"]),
    );
    assert_ne!(one["id"], other["id"]);
    assert_eq!(runs(&bench, "a"), 4);
    bench.write("graph.toml", "");
    assert_eq!(
        bench.json(&["graph", "run", "graph.toml", "--id", "empty"])["outcome"],
        "completed"
    );
}

#[test]
fn a_graph_runs_over_a_deployment_that_is_growing() {
    let bench = Bench::with_shards(4);
    bench.write(
        "graph.toml",
        (0..40)
            .map(|n| counted(&format!("n{n}"), ""))
            .collect::<String>(),
    );
    bench.ok(&["graph", "run", "graph.toml", "--id", "before"]);
    bench.ok(&["rebalance", "--shards", "5", "--yes"]);
    bench.ok(&["graph", "run", "graph.toml", "--id", "during"]);
    bench.ok(&["graph", "run", "graph.toml", "--id", "before"]);
    bench.ok(&["drain", "--until-settled"]);
    for id in ["before", "during"] {
        let report = bench.json(&["graph", "show", id]);
        assert!(
            outcomes(&report)
                .iter()
                .all(|(_, outcome)| outcome == "completed")
        );
        assert!(
            report["nodes"]
                .as_array()
                .unwrap()
                .iter()
                .any(|node| node["shard"] == 4)
        );
    }
    assert_eq!(runs(&bench, "n0"), 2);
    assert_eq!(bench.audited().0, 82);
}

/// A node that fails until its file of runs has so many lines.
fn flaky(key: &str, succeeds_at: usize, more: &str) -> String {
    let script = format!(
        "echo ran >> {key}.ran; test $(wc -l < {key}.ran) -ge {succeeds_at} || {{ echo not yet >&2; exit 1; }}; echo {key} done"
    );
    format!("[node.{key}]\ncommand = [\"sh\", \"-c\", \"{script}\"]\n{more}\n")
}

#[test]
fn a_node_is_tried_again_as_often_as_its_file_says_and_each_attempt_has_a_log() {
    let bench = Bench::with_shards(3);
    let retries = "retries = { max = 3, base = \"1ms\", cap = \"2ms\" }";
    bench.write(
        "graph.toml",
        flaky("a", 3, retries) + &flaky("b", 9, retries) + &counted("c", "\"a\""),
    );
    let run = ["graph", "run", "graph.toml", "--id", "g", "--json"];
    let ran = bench.run(&run);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("a: attempt 1 failed"), "{}", ran.stderr);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let nodes = &report["nodes"];
    assert_eq!(
        outcomes(&report),
        pairs(&[("a", "completed"), ("b", "failed"), ("c", "completed")])
    );
    let attempts = [0, 1, 2].map(|node| number(&nodes[node]["attempts"]));
    assert_eq!(attempts, [3, 4, 1]);
    assert_eq!(
        (&nodes[0]["execution"], &nodes[0]["last_execution"]),
        (&"g/a".into(), &"g/a~3".into())
    );
    assert_eq!(nodes[1]["last_execution"], "g/b~4");
    assert_eq!(nodes[2]["last_execution"], "g/c");
    for attempt in ["g/a", "g/a~2", "g/a~3", "g/b~4"] {
        assert_eq!(
            bench.json(&["log", attempt])["state"],
            "closed",
            "{attempt}"
        );
    }
    // It is all recorded: nothing runs again.
    let shown = bench.json(&["graph", "show", "g"]);
    assert_eq!(shown["nodes"], report["nodes"]);
    bench.run(&run);
    assert_eq!(["a", "b", "c"].map(|key| runs(&bench, key)), [3, 4, 1]);
    bench.audited();
}

#[test]
fn a_node_that_takes_too_long_is_killed_and_its_log_says_so() {
    let bench = Bench::with_shards(2);
    let made = std::process::Command::new("mkfifo")
        .arg(bench.path("alive"))
        .status()
        .unwrap();
    assert!(made.success());
    let script = "exec 3>alive; echo $$ >&3; sleep 1000 & wait";
    bench.write(
        "graph.toml",
        format!("[node.a]\ncommand = [\"sh\", \"-c\", \"{script}\"]\ntimeout = \"300ms\"\n")
            + &counted("b", "\"a\""),
    );
    let child = bench
        .command(&["graph", "run", "graph.toml", "--id", "g", "--json"])
        .spawn()
        .unwrap();
    let mut alive = BufReader::new(fs::File::open(bench.path("alive")).unwrap());
    let mut line = String::new();
    alive.read_line(&mut line).unwrap();
    line.clear();
    assert_eq!(
        alive.read_line(&mut line).unwrap(),
        0,
        "nothing is left of it"
    );
    let ran = finish(child);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        outcomes(&report),
        pairs(&[("a", "timed-out"), ("b", "skipped")])
    );
    assert_eq!(report["nodes"][0]["message"], "timed out after 300 ms");
}

#[test]
fn a_graph_that_fails_fast_kills_what_runs_and_begins_nothing_more() {
    let bench = Bench::with_shards(2);
    let made = std::process::Command::new("mkfifo")
        .args([bench.path("alive"), bench.path("go")])
        .status()
        .unwrap();
    assert!(made.success());
    // `slow` and what it starts hold a fifo open, and `fails` waits for a word.
    let slow = "exec 3>alive; echo runs >&3; sleep 1000 & wait";
    let fails = "read line < go; exit 1";
    let node = |key: &str, script: &str| {
        format!("[node.{key}]\ncommand = [\"sh\", \"-c\", \"{script}\"]\n")
    };
    bench.write(
        "graph.toml",
        "[graph]\non_failure = \"fail-fast\"\nlimit = 2\n".to_owned()
            + &node("slow", slow)
            + &node("fails", fails)
            + &counted("more", "")
            + &counted("after", "\"fails\""),
    );
    let run = ["graph", "run", "graph.toml", "--id", "g", "--json"];
    let child = bench.command(&run).spawn().unwrap();
    let mut alive = BufReader::new(fs::File::open(bench.path("alive")).unwrap());
    let mut line = String::new();
    alive.read_line(&mut line).unwrap();
    fs::write(bench.path("go"), "fail\n").unwrap();
    line.clear();
    assert_eq!(
        alive.read_line(&mut line).unwrap(),
        0,
        "nothing is left of it"
    );
    let ran = finish(child);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let expected = [
        ("slow", "cancelled"),
        ("fails", "failed"),
        ("more", "not-begun"),
        ("after", "skipped"),
    ];
    assert_eq!(outcomes(&report), pairs(&expected));
    let message = report["nodes"][0]["message"].as_str().unwrap();
    assert!(
        message.contains("the graph fails fast: node `fails`"),
        "{message}"
    );
    assert_eq!(runs(&bench, "more"), 0);
}

#[test]
fn a_past_run_is_drawn_for_graphviz_and_as_a_picture() {
    let bench = Bench::with_shards(2);
    bench.write("graph.toml", counted("a", "") + &counted("b", "\"a\""));
    bench.ok(&["graph", "run", "graph.toml", "--id", "<g>"]);
    let dot = bench.ok(&["graph", "show", "<g>", "--dot"]);
    assert!(dot.starts_with("digraph \"<g>\" {"), "{dot}");
    assert!(dot.contains("\"a\" -> \"b\";"), "{dot}");
    let svg = bench.ok(&["graph", "show", "<g>", "--svg"]);
    assert!(
        svg.contains("<title>Graph &lt;g&gt;, completed</title>"),
        "{svg}"
    );
    let told = bench.ok(&["graph", "show", "<g>", "--svg", "g.svg"]);
    assert_eq!(bench.read("g.svg"), svg);
    assert!(told.contains("2 of 2 nodes completed"), "{told}");
    let both = bench.run(&["--json", "graph", "show", "<g>", "--dot"]);
    both.refused(
        2,
        &["stdout cannot have the drawing and the report", "--dot OUT"],
    );
    bench
        .run(&["graph", "show", "no", "--dot"])
        .refused(1, &["no"]);
}
