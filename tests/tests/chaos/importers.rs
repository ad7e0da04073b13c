//! `loom import`, killed and run again, and `loom export` in the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fastrand::Rng;
use serde_json::Value;

use crate::process::{Kill, expect_ok, loom, loom_ok};
use crate::world::World;

/// Executions in a file.
const EXECUTIONS: u64 = 40;
/// The most kills while one file is imported.
const KILLS: u64 = 3;

/// Imports file after file until everything is over. Returns what is in them.
pub(crate) fn slot(world: &World, enough: u64) -> String {
    let mut rng = Rng::with_seed(world.seed ^ 0x11);
    let (mut all, mut killed, mut satisfied) = (String::new(), 0, false);
    for number in 0.. {
        let lines = generated(number, &mut rng);
        let name = format!("import-{number}.jsonl");
        world.write(&name, &lines);
        all.push_str(&lines);
        let mut here = 0;
        loop {
            let kill = if here < KILLS {
                Kill::Told(Kill::point(&mut rng, 6))
            } else {
                Kill::Never
            };
            let args = ["import", &name, "--progress", "plain"];
            let ran = loom(world, "imports", &args, None, kill, &mut |_| {});
            if expect_ok(world, "loom import", &ran) || world.has_failed() {
                break;
            }
            here += 1;
        }
        killed += here;
        if !satisfied && killed >= enough {
            satisfied = true;
            world.change(|state| state.satisfied += 1);
        }
        if world.is_over() {
            break;
        }
    }
    all
}

/// What was imported comes out as it went in.
pub(crate) fn check(world: &World, imported: &str) {
    let exported = loom_ok(world, &["export"]);
    let (expected, mut found) = (logs(imported), logs(&exported));
    found.retain(|id, _| id.starts_with("import-"));
    assert_eq!(found.len(), expected.len(), "executions");
    for (id, events) in &expected {
        assert_eq!(found.get(id), Some(events), "execution `{id}`");
    }
}

fn logs(lines: &str) -> BTreeMap<String, Vec<Value>> {
    let mut logs: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in lines.lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let id = value["execution"].as_str().unwrap().to_owned();
        logs.entry(id).or_default().push(value);
    }
    logs
}

/// Loans, say: interleaved, of different lengths, some still open at the end.
fn generated(file: u64, rng: &mut Rng) -> String {
    let mut left: Vec<(u64, u64)> = (0..EXECUTIONS).map(|n| (n, rng.u64(1..12))).collect();
    let (mut text, mut at) = (String::new(), 1_700_000_000_000_u64 + file * 1_000_000);
    while !left.is_empty() {
        let place = rng.usize(0..left.len());
        let (execution, events) = &mut left[place];
        *events -= 1;
        at += rng.u64(0..5000);
        let last = if *events == 0 && *execution % 5 != 0 {
            ",\"last\":true"
        } else {
            ""
        };
        let amount = rng.u64(0..10_000_000);
        writeln!(
            text,
            "{{\"execution\":\"import-{file}-{execution}\",\"at\":{at},\"type\":\"step {events}\",\"amount\":{amount}.25,\"tags\":[\"a b\",null,{{\"ü\":{place}}}]{last}}}"
        )
        .unwrap();
        if *events == 0 {
            left.swap_remove(place);
        }
    }
    text
}
