//! Bad input: one clear message with the place and what was expected, exit 2, and nothing half-written.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use support::{Bench, generated};

#[test]
fn wrong_usage_exits_with_2() {
    let bench = Bench::new();
    for args in [
        &["frobnicate"][..],
        &["init"],
        &["init", "--shards", "none"],
        &["import"],
        &["log"],
        &["log", ""],
        &["log", "two\nlines"],
        &["rm", &"x".repeat(256)],
        &["ls", "--limit", "0"],
        &["graph", "run", "x.toml", "--limit", "0"],
        &["graph", "run", "x.toml", "--runtime", "moon"],
        &["completions", "fish-and-chips"],
        &["status", "--watch", "0"],
        &["drain", "--rate", "0"],
        &["settle", "x"],
        &["settle", "1,,2"],
        &["resolve", "x"],
        &["resolve", "x", "--keep", "0"],
        &["resolve", "x", "--other-as", "y"],
        &["revert"],
        &["revert", "--all", "7"],
        &["publish"],
        &["publish", "x.plan", "--yes", "--dry-run"],
        &["move"],
        &["move", ""],
        &["rebalance", "--weight", "3"],
        &["shard", "add"],
        &["shard", "abandon"],
        &["shard", "abandon", "-1"],
        &["repair", "x"],
    ] {
        let ran = bench.run(args);
        ran.refused(2, &[]);
    }
}

#[test]
fn a_bad_deployment_file_is_told_with_its_place() {
    let bench = Bench::new();
    let shard = "[[shard]]\nid = 0\nurl = \"sqlite:a.db\"\n";
    for (text, says) in [
        ("deployment = ", "loom.toml:1:14"),
        ("shards", "loom.toml:1:"),
        (shard, "missing field `deployment`"),
        ("deployment = \"d\"\nshards = 3\n", "loom.toml:2:1"),
        (
            "deployment = \"d\"\n[[shard]]\nid = 0\nurl = \"postgres://u:hunter2@h\"\n",
            "loom.toml:4:7",
        ),
        (
            "deployment = \"d\"\n[[shard]]\nid = -1\nurl = \"sqlite:a\"\n",
            "loom.toml:3:6",
        ),
    ] {
        bench.write("loom.toml", text);
        for args in [
            &["status"][..],
            &["import", "-"],
            &["rebalance", "--shards", "2", "--yes"],
        ] {
            let ran = bench.run(args);
            ran.refused(2, &[says, "expected"]);
            assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
        }
    }
    bench.write("loom.toml", [0xff, 0xfe]);
    bench
        .run(&["status"])
        .refused(2, &["loom.toml:1:1: expected UTF-8"]);
}

#[test]
fn a_bad_graph_file_is_told_with_its_place_before_any_shard_is_opened() {
    let bench = Bench::new();
    for (text, says) in [
        (
            "[node.a]\ncommand = [\"true\"]\ntimeout = 3\n",
            "graph.toml:3:1",
        ),
        (
            "[node.a]\ncommand = [\"true\"]\nafter = [\"b\"]\n",
            "graph.toml:3:10",
        ),
        (
            "[node.a]\ncommand = [\"true\"]\nafter = [\"a\"]\n",
            "graph.toml:3:10",
        ),
        ("[node.a]\ncommand = []\n", "graph.toml:2:11"),
        ("[graph]\nlimit = 0\n", "graph.toml:2:9"),
        ("[graph\n", "graph.toml:1:7"),
    ] {
        bench.write("graph.toml", text);
        bench
            .run(&["graph", "run", "graph.toml"])
            .refused(2, &[says, "expected"]);
    }
    bench
        .run(&["graph", "run", "none.toml"])
        .refused(2, &["there is no graph file at `none.toml`"]);
}

#[test]
fn a_bad_line_is_told_with_its_number_and_exactly_what_stands_before_it_is_stored() {
    let bench = Bench::with_shards(2);
    let good = generated(30);
    let before: String = good
        .lines()
        .take(20)
        .map(|line| format!("{line}\n"))
        .collect();
    for (bad, says) in [
        ("nonsense", "log.jsonl:21:2: not valid JSON"),
        (
            "[]",
            "log.jsonl:21:1: invalid type: sequence, expected a JSON object",
        ),
        (
            "{\"execution\":\"x\",\"at\":1}",
            "log.jsonl:21: expected a key `type`",
        ),
        (
            "{\"execution\":\"\",\"at\":1,\"type\":\"t\"}",
            "log.jsonl:21: `execution`",
        ),
        (
            "{\"execution\":\"x\",\"at\":1,\"type\":\"\"}",
            "log.jsonl:21: `type` has 0 bytes",
        ),
        (
            "{\"execution\":\"x\",\"at\":\"1\",\"type\":\"t\"}",
            "log.jsonl:21: `at`",
        ),
        (
            "{\"execution\":\"x\",\"at\":1,\"type\":\"t\",\"last\":1}",
            "log.jsonl:21: `last`",
        ),
    ] {
        bench.write("log.jsonl", format!("{before}{bad}\n{good}"));
        let ran = bench.run(&["import", "log.jsonl"]);
        ran.refused(2, &[says, "expected", "what stands before it is stored"]);
        assert_eq!(bench.audited().1, 20);
        assert!(!bench.ok(&["export"]).contains("\"x\""));
    }
    bench.write("log.jsonl", &good);
    bench.ok(&["import", "log.jsonl"]);
    assert_eq!(bench.audited().1, good.lines().count() as u64);
    bench
        .run(&["import", "no.jsonl"])
        .refused(2, &["there is no file `no.jsonl`"]);
    bench.run(&["import", "."]).refused(2, &["`.` is a folder"]);
}

#[test]
fn a_log_that_differs_is_told_with_its_execution_and_line() {
    let bench = Bench::with_shards(2);
    let line = |amount: u8| {
        format!("{{\"execution\":\"e\",\"at\":1,\"type\":\"t\",\"amount\":{amount}}}\n")
    };
    bench.run_with_stdin(&["import", "-"], line(1).as_bytes());
    let ran = bench.run_with_stdin(
        &["import", "-"],
        format!("{}{}", line(2), line(3)).as_bytes(),
    );
    ran.refused(
        1,
        &[
            "<stdin>:1: execution `e` is stored differently",
            "\"amount\":1",
            "\"amount\":2",
        ],
    );
    assert_eq!(bench.audited(), (1, 1));
}

#[test]
fn a_bad_plan_is_told_with_its_place() {
    let bench = Bench::with_shards(2);
    let plan = bench.ok(&["plan", "show"]);
    bench.write("plan.txt", &plan);
    assert_eq!(bench.ok(&["plan", "show", "plan.txt"]), plan);
    let shown = bench.json(&["plan", "show", "plan.txt"]);
    assert_eq!(
        (&shown["epoch"], &shown["buckets"], &shown["shards"]),
        (&1.into(), &4096.into(), &2.into())
    );
    bench.write("plan.txt", plan.replacen("epoch 1", "epoch one", 1));
    bench
        .run(&["plan", "show", "plan.txt"])
        .refused(2, &["plan.txt:2:7: expected a number"]);
    bench.write("plan.json", "{\"format\": 7}");
    bench
        .run(&["plan", "show", "plan.json"])
        .refused(2, &["plan.json:1:", "expected"]);
}

#[test]
fn executions_that_are_not_there_or_not_graphs_are_told() {
    let bench = Bench::with_shards(2);
    bench.run_with_stdin(
        &["import", "-"],
        b"{\"execution\":\"e\",\"at\":1,\"type\":\"t\"}\n",
    );
    for args in [["log", "none"], ["rm", "none"]] {
        bench
            .run(&args)
            .refused(1, &["there is no execution `none`", "loom ls"]);
    }
    bench
        .run(&["graph", "show", "none"])
        .refused(1, &["there is no execution `none`"]);
    bench
        .run(&["graph", "show", "e"])
        .refused(3, &["was not written by a journal"]);
    bench
        .run(&["ls", "--shard", "9"])
        .refused(2, &["there is no shard 9: expected one of 0, 1"]);
    bench.run(&["rm", "e"]).refused(3, &["is open", "--force"]);
    assert_eq!(bench.json(&["rm", "e", "--force"])["events"], 1);
    assert_eq!(bench.audited(), (0, 0));
    bench.run(&["export", "--json"]).refused(2, &["--out"]);
}

#[test]
fn buckets_are_written_as_they_are_printed() {
    let bench = Bench::with_shards(2);
    for (buckets, says) in [
        ("abc", "as in 7, 820-1023 or 3,8-20; found `abc`"),
        ("1,,2", "as in 7, 820-1023 or 3,8-20; found ``"),
        ("9-1", "expected 1-9"),
        ("4096", "there is no bucket 4096"),
    ] {
        for command in [&["settle"][..], &["revert", "--yes"]] {
            bench
                .run(&[command, &[buckets]].concat())
                .refused(2, &[says]);
        }
    }
}

#[test]
fn a_shard_that_is_not_there_is_told_with_those_that_are() {
    let bench = Bench::with_shards(2);
    for args in [
        &["repair", "99", "--yes"][..],
        &["log", "e", "--shard", "99"],
        &["ls", "--shard", "99"],
    ] {
        bench
            .run(args)
            .refused(2, &["there is no shard 99: expected one of 0, 1"]);
    }
}

#[test]
fn a_folder_is_no_shard() {
    let bench = Bench::with_shards(1);
    let before = bench.read("loom.toml");
    for args in [
        &["shard", "add", "sqlite:."][..],
        &[
            "rebalance",
            "--shards",
            "2",
            "--add-url",
            "sqlite:.",
            "--yes",
        ],
    ] {
        bench
            .run(args)
            .refused(2, &["`sqlite:.` is a folder: expected the path of a file"]);
    }
    assert_eq!(bench.read("loom.toml"), before);
    let empty = Bench::new();
    empty
        .run(&["init", "--url", "sqlite:."])
        .refused(2, &["is a folder"]);
}

#[test]
fn what_is_not_there_cannot_be_moved_and_that_is_said_once() {
    let bench = Bench::with_shards(2);
    let settled = bench.run(&["move", "nothing"]);
    settled.refused(1, &["there is no execution `nothing`", "loom ls"]);
    bench.ok(&["rebalance", "--shards", "3", "--yes"]);
    for n in 0..20 {
        let id = format!("nothing-{n}");
        let ran = bench.run(&["move", &id]);
        ran.refused(1, &[&format!("there is no execution `{id}`")]);
        assert_eq!(ran.stderr.matches(&id).count(), 1, "{}", ran.stderr);
    }
}
