//! Commands that look: what people and scripts see.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use support::{Bench, generated, number};

const LINES: &str = concat!(
    "{\"execution\":\"a\",\"at\":1286004039266,\"type\":\"start\",\"who\":\"\\u001b[2J\"}\n",
    "{\"execution\":\"a\",\"at\":1286004039267,\"type\":\"end\",\"last\":true}\n",
    "{\"execution\":\"b\",\"at\":-1,\"type\":\"start\",\"n\":1e400}\n",
);

#[test]
fn a_log_is_shown_with_its_place() {
    let bench = Bench::with_shards(1);
    bench.run_with_stdin(&["import", "-"], LINES.as_bytes());
    let text = bench.ok(&["log", "a"]);
    assert!(
        text.starts_with("a: closed, 2 events on shard 0 (shard-0.db)\n"),
        "{text}"
    );
    assert!(
        text.contains("0   2010-10-02T07:20:39.266Z  start  {\"who\":\"\\u001b[2J\"}"),
        "{text}"
    );
    assert!(
        text.contains("1 ■ 2010-10-02T07:20:39.267Z  end  {}"),
        "{text}"
    );
    let json = bench.json(&["log", "a", "--from", "1"]);
    assert_eq!(json["events"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&json["state"], &json["shard"]),
        (&"closed".into(), &0.into())
    );
    assert_eq!(json["events"][0]["last"], true);
    assert!(
        bench.ok(&["log", "b", "--json"]).contains("1e400"),
        "numbers keep their text"
    );
    assert!(bench.ok(&["log", "a", "--limit", "1"]).contains("2 in all"));
}

#[test]
fn executions_are_listed_page_by_page() {
    let bench = Bench::with_shards(3);
    bench.run_with_stdin(&["import", "-"], LINES.as_bytes());
    bench.run_with_stdin(&["import", "-"], generated(50).as_bytes());
    let mut seen = Vec::new();
    let mut args = vec!["ls".to_owned(), "--limit".to_owned(), "7".to_owned()];
    loop {
        let page = bench.json(&args);
        let rows = page["executions"].as_array().unwrap();
        seen.extend(
            rows.iter()
                .map(|row| row["execution"].as_str().unwrap().to_owned()),
        );
        if page["more"] == false {
            break;
        }
        args.truncate(3);
        args.extend(["--after".to_owned(), seen.last().unwrap().clone()]);
    }
    assert_eq!(seen.len(), 52);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 52, "each once");
    let open = bench.json(&["ls", "--state", "open"]);
    assert_eq!(open["executions"].as_array().unwrap().len(), 1);
    assert_eq!(open["executions"][0]["execution"], "b");
    assert!(
        bench
            .ok(&["ls", "--limit", "1"])
            .contains("there are more: --after")
    );
}

#[test]
fn status_counts_what_there_is() {
    let bench = Bench::with_shards(3);
    bench.run_with_stdin(&["import", "-"], LINES.as_bytes());
    let status = bench.json(&["status"]);
    let counted = [
        "executions",
        "open",
        "closed",
        "events",
        "migrating",
        "drained",
    ];
    assert_eq!(counted.map(|key| number(&status[key])), [2, 1, 1, 3, 0, 0]);
    let shards = status["per_shard"].as_array().unwrap();
    assert_eq!(
        shards
            .iter()
            .map(|shard| number(&shard["events"]))
            .sum::<u64>(),
        3
    );
    assert!(bench.ok(&["status"]).contains("every bucket is settled"));
}

#[test]
fn nothing_is_coloured_where_there_is_no_terminal() {
    let bench = Bench::with_shards(2);
    for args in [&["status"][..], &["ls"], &["audit"], &["--help"]] {
        assert!(!bench.ok(args).contains('\u{1b}'));
    }
}

#[test]
fn completions_and_manual_pages_name_the_commands() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(bench.ok(&["completions", shell]).contains("rebalance"));
    }
    assert!(
        bench.json(&["completions", "bash"])["script"]
            .as_str()
            .unwrap()
            .contains("loom")
    );
    assert!(bench.ok(&["man"]).contains(".TH loom 1"));
    let written = bench.json(&["man", "--out", "man"]);
    let pages = written["pages"].as_array().unwrap();
    assert!(
        pages.contains(&"loom-graph-run.1".into()) && pages.contains(&"loom.1".into()),
        "{pages:?}"
    );
    assert!(bench.read("man/loom-import.1").contains("gzip"));
}

#[test]
fn what_is_left_on_sources_is_forecast_by_what_has_ended() {
    let bench = Bench::with_shards(2);
    assert_eq!(bench.json(&["status"])["forecast"], serde_json::Value::Null);
    let goes_on: String = (0..100)
        .map(|n| format!("{{\"execution\":\"open-{n}\",\"at\":{n},\"type\":\"t\"}}\n"))
        .collect();
    let lines = format!("{}{goes_on}", generated(200));
    bench.run_with_stdin(&["import", "-"], lines.as_bytes());
    bench.ok(&["rebalance", "--shards", "3", "--yes"]);
    let status = bench.json(&["status"]);
    let forecast = &status["forecast"];
    let (closed, open) = (number(&forecast["closed"]), number(&forecast["open"]));
    assert!(closed > 0 && open > 0, "{status}");
    assert_eq!(closed + open, number(&status["left_to_drain"]));
    let text = bench.ok(&["status"]);
    assert!(
        text.contains(&format!(
            "forecast: {closed} closed executions can move now"
        )),
        "{text}"
    );
    bench.ok(&["drain"]);
    assert_eq!(bench.json(&["status"])["forecast"]["closed"], 0);
    bench.ok(&["drain", "--live", "--until-settled"]);
    assert_eq!(bench.json(&["status"])["forecast"], serde_json::Value::Null);
}
