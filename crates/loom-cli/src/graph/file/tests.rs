use std::time::Duration;

use loom_graph_executor::Retry;
use serde_json::json;

use super::*;

fn parse(text: &str) -> Result<GraphFile, String> {
    GraphFile::parse(&Source::new(Path::new("g/graph.toml"), text.to_owned()))
        .map_err(|failure| failure.to_string())
}

#[test]
fn a_whole_file_is_read_in_its_own_order() {
    let graph = parse(
        "[graph]\nid = \"incident-42\"\nlimit = 3\n\
         [node.report]\ncommand = [\"sh\", \"report.sh\"]\nafter = [\"metrics\", \"logs\"]\n\
         [node.metrics]\ncommand = [\"true\"]\nenv = { LC_ALL = \"C\" }\n\
         [node.logs]\ncommand = [\"true\"]\ninput = { since = 2024-05-06T07:08:09Z, n = [1, 2.5, true] }\n",
    )
    .unwrap();
    let keys: Vec<_> = graph.nodes.iter().map(|node| node.key.as_str()).collect();
    assert_eq!(keys, ["report", "metrics", "logs"]);
    assert_eq!(graph.id.unwrap().as_str(), "incident-42");
    assert_eq!(graph.limit, Some(3));
    assert_eq!(graph.folder, Path::new("g"));
    assert_eq!(graph.nodes[0].after, ["metrics", "logs"]);
    assert_eq!(graph.nodes[1].env["LC_ALL"], "C");
    assert_eq!(
        graph.nodes[2].input,
        json!({ "since": "2024-05-06T07:08:09Z", "n": [1, 2.5, true] })
    );
}

#[test]
fn how_nodes_are_run_is_read_and_is_no_part_of_what_they_are() {
    let plain = "[node.a]\ncommand = [\"true\"]\n[node.b]\ncommand = [\"true\"]\n";
    let text = "[graph]\non_failure = \"fail-fast\"\n\
         [node.a]\ncommand = [\"true\"]\ntimeout = \"90s\"\nretries = 3\n\
         [node.b]\ncommand = [\"true\"]\nretries = { max = 1, base = \"500ms\", cap = \"2m\" }\n";
    let graph = parse(text).unwrap();
    assert_eq!(graph.on_failure, OnFailure::FailFast);
    let (seconds, milliseconds) = (Duration::from_secs, Duration::from_millis);
    let expected = [
        Policy {
            timeout: Some(seconds(90)),
            retry: Some(Retry::attempts(4)),
        },
        Policy {
            timeout: None,
            retry: Some(Retry::attempts(2).with_backoff(milliseconds(500), seconds(120))),
        },
    ];
    assert_eq!(graph.policies, expected);
    let plain = parse(plain).unwrap();
    assert_eq!(plain.policies, [Policy::default(); 2]);
    assert_eq!(plain.definition().difference(&graph.definition()), None);
    for same in ["settle-all", "skip-dependents"] {
        let graph = parse(&format!("[graph]\non_failure = \"{same}\"\n")).unwrap();
        assert_eq!(graph.on_failure, OnFailure::SettleAll);
    }
}

#[test]
fn an_empty_graph_is_one() {
    assert_eq!(parse("").unwrap().nodes, []);
}

#[test]
fn what_is_wrong_is_said_with_its_place_and_what_was_expected() {
    let a = "[node.a]\ncommand = [\"true\"]\n";
    let cases = [
        (
            "[node.a]\n".to_owned(),
            "g/graph.toml:1:",
            "missing field `command`",
        ),
        ("[node.a\n".to_owned(), "g/graph.toml:1:8", "expected"),
        (
            "[node.a]\ncommand = \"true\"\n".to_owned(),
            "g/graph.toml:2:11",
            "expected a sequence",
        ),
        (
            "[node.a]\ncommand = []\n".to_owned(),
            "g/graph.toml:2:11",
            "expected a program",
        ),
        (
            "[node.a]\ncommand = [\"a\\u0000\"]\n".to_owned(),
            "g/graph.toml:2:11",
            "NUL",
        ),
        (
            format!("{a}timeout = 3\n"),
            "g/graph.toml:3:1",
            "`timeout` of node `a`: expected a time above 0, in quotes and with a unit",
        ),
        (
            format!("{a}timeout = \"0s\"\n"),
            "g/graph.toml:3:11",
            "expected a time above 0",
        ),
        (
            format!("{a}timeout = \"3 parsecs\"\n"),
            "g/graph.toml:3:11",
            "\"90s\"",
        ),
        (
            format!("{a}retries = -1\n"),
            "g/graph.toml:3:11",
            "expected a number from 0 to 1000, or { max = NUMBER",
        ),
        (
            format!("{a}retries = \"3\"\n"),
            "g/graph.toml:3:11",
            "expected a number from 0 to 1000",
        ),
        (
            format!("{a}retries = {{ base = \"1s\" }}\n"),
            "g/graph.toml:3:11",
            "expected a number from 0 to 1000",
        ),
        (
            format!("{a}retries = {{ max = 3, wait = \"1s\" }}\n"),
            "g/graph.toml:3:11",
            "unknown key `wait`: expected `max`, `base` and `cap`",
        ),
        (
            format!("{a}retries = {{ max = 3, base = 1 }}\n"),
            "g/graph.toml:3:11",
            "`base` is no time: expected \"500ms\"",
        ),
        (
            format!("{a}retries = {{ max = 3, base = \"1m\", cap = \"1s\" }}\n"),
            "g/graph.toml:3:11",
            "`cap` is less than `base`",
        ),
        (
            format!("{a}retry = 3\n"),
            "g/graph.toml:3:1",
            "unknown field `retry`, expected one of `command`, `after`, `env`, `input`, `timeout`, `retries`",
        ),
        (
            format!("[graph]\non_failure = \"stop\"\n{a}"),
            "g/graph.toml:2:14",
            "`on_failure` is `stop`: expected `settle-all`, `skip-dependents` (the same) or `fail-fast`",
        ),
        (
            format!("[graph]\nlimit = 0\n{a}"),
            "g/graph.toml:2:9",
            "expected at least 1",
        ),
        (
            format!("[graph]\nlimit = -1\n{a}"),
            "g/graph.toml:2:9",
            "expected",
        ),
        (
            format!("[graph]\nid = \"\"\n{a}"),
            "g/graph.toml:2:6",
            "expected 1 to 255",
        ),
        (
            format!("{a}after = [\"b\"]\n"),
            "g/graph.toml:3:10",
            "`b`, which is no node: expected one of `a`",
        ),
        (
            format!("{a}after = [\"a\"]\n"),
            "g/graph.toml:3:10",
            "after itself: expected",
        ),
        (
            format!("{a}[node.b]\ncommand = [\"true\"]\nafter = [\"a\", \"a\"]\n"),
            "g/graph.toml:5:15",
            "twice: expected",
        ),
        (format!("{a}{a}"), "g/graph.toml:3:", "duplicate key"),
        (
            format!("{a}env = {{ \"A=B\" = \"c\" }}\n"),
            "g/graph.toml:3:9",
            "expected a name without `=`",
        ),
        (
            format!("{a}input = nan\n"),
            "g/graph.toml:3:9",
            "expected a finite one",
        ),
        (
            "[node.\"\"]\ncommand = [\"true\"]\n".to_owned(),
            "g/graph.toml:1:7",
            "1 to 255 bytes",
        ),
        (
            format!("nodes = 3\n{a}"),
            "g/graph.toml:1:1",
            "unknown field `nodes`, expected `graph` or `node`",
        ),
    ];
    for (text, place, expected) in cases {
        let refusal = parse(&text).unwrap_err();
        assert!(refusal.contains(place), "{refusal}\nfor\n{text}");
        assert!(refusal.contains(expected), "{refusal}\nfor\n{text}");
    }
}

#[test]
fn a_cycle_is_named_from_one_of_its_nodes_and_not_from_one_behind_it() {
    let node =
        |key: &str, after: &str| format!("[node.{key}]\ncommand = [\"true\"]\nafter = [{after}]\n");
    let text = [
        node("behind", "\"b\""),
        node("a", "\"c\", \"start\""),
        node("b", "\"a\""),
        node("c", "\"b\""),
        node("start", ""),
    ]
    .concat();
    let refusal = parse(&text).unwrap_err();
    assert!(
        refusal.contains("`b` after `a` after `c` after `b`: expected"),
        "{refusal}"
    );
    assert!(refusal.contains("g/graph.toml:7:7"), "{refusal}");
}

#[test]
fn a_changed_graph_is_told_by_what_changed() {
    let text = "[node.a]\ncommand = [\"true\"]\n[node.b]\ncommand = [\"true\"]\nafter = [\"a\"]\n";
    let before = parse(text).unwrap().definition();
    let difference = |text: &str| before.difference(&parse(text).unwrap().definition());
    assert_eq!(difference(text), None);
    for (from, to, expected) in [
        ("after = [\"a\"]", "", "`after` of node `b` has changed"),
        (
            "[\"true\"]\n[",
            "[\"false\"]\n[",
            "`command` of node `a` has changed",
        ),
        (
            "after",
            "input = 1\nafter",
            "`input` of node `b` has changed",
        ),
        (
            "after",
            "env = { A = \"1\" }\nafter",
            "`env` of node `b` has changed",
        ),
        ("[node.b]", "[node.c]", "node `b` is gone"),
        (
            "[node.b]",
            "[node.c]\ncommand = [\"true\"]\n[node.b]",
            "node `c` is new",
        ),
    ] {
        assert_eq!(difference(&text.replacen(from, to, 1)).unwrap(), expected);
    }
    let moved = "[node.b]\ncommand = [\"true\"]\nafter = [\"a\"]\n[node.a]\ncommand = [\"true\"]\n";
    assert_eq!(
        difference(moved).unwrap(),
        "the order of the nodes has changed"
    );
}

#[test]
fn a_definition_survives_its_json() {
    let text = "[node.a]\ncommand = [\"true\"]\nenv = { A = \"1\" }\ninput = { b = [1, 2.0] }\n";
    let definition = parse(text).unwrap().definition();
    let json = serde_json::to_string(&definition).unwrap();
    assert_eq!(
        serde_json::from_str::<Definition>(&json).unwrap(),
        definition
    );
}
