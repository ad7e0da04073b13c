//! `loom graph run`, killed and run again with the same id: what has finished is not run again.

use std::collections::BTreeMap;
use std::fs;

use fastrand::Rng;

use crate::process::{Kill, expect_ok, loom};
use crate::world::World;

/// Every node says in the file of its run in which attempt it ran.
const GRAPH: &str = r#"
[graph]
limit = 3

[node.fetch]
command = ["sh", "-c", "echo fetch $ATTEMPT >> $LOG"]
[node.left]
command = ["sh", "-c", "echo left $ATTEMPT >> $LOG"]
after = ["fetch"]
[node.right]
command = ["sh", "-c", "echo right $ATTEMPT >> $LOG"]
after = ["fetch"]
[node.side]
command = ["sh", "-c", "echo side $ATTEMPT >> $LOG"]
[node.join]
command = ["sh", "-c", "echo join $ATTEMPT >> $LOG"]
after = ["left", "right", "side"]
"#;
const NODES: [&str; 5] = ["fetch", "left", "right", "side", "join"];
/// The most kills of one run.
const KILLS: u64 = 3;

/// Runs graph after graph until everything is over.
pub(crate) fn slot(world: &World, enough: u64) {
    let mut rng = Rng::with_seed(world.seed ^ 0x22);
    let (mut killed, mut satisfied) = (0, false);
    for number in 0.. {
        killed += run(world, number, &mut rng);
        if !satisfied && killed >= enough {
            satisfied = true;
            world.change(|state| state.satisfied += 1);
        }
        if world.is_over() {
            break;
        }
    }
}

/// Runs a graph to its end, and says how often it was killed.
fn run(world: &World, number: u64, rng: &mut Rng) -> u64 {
    let (id, log) = (format!("graph-{number}"), format!("ran-{number}"));
    let file = format!("graph-{number}.toml");
    world.write(&file, &GRAPH.replace("$LOG", &log));
    // The attempt in which a node was first told to have completed.
    let mut completed: BTreeMap<String, u64> = BTreeMap::new();
    let mut attempt = 0;
    loop {
        let kill = if attempt < KILLS {
            Kill::Told(Kill::point(rng, 4))
        } else {
            Kill::Never
        };
        let mut on_line = |line: &str| {
            if let Some((key, outcome)) = line.split_once(": ")
                && outcome.starts_with("completed")
            {
                completed.entry(key.to_owned()).or_insert(attempt);
            }
        };
        // The run before was killed: nobody waits until its lease has lapsed.
        let args = ["graph", "run", &file, "--id", &id, "--take-over"];
        let env = attempt.to_string();
        let env = Some(("ATTEMPT", env.as_str()));
        let ran = loom(world, "graphs", &args, env, kill, &mut on_line);
        if expect_ok(world, "loom graph run", &ran) || world.has_failed() {
            break;
        }
        attempt += 1;
    }
    if world.has_failed() {
        return attempt;
    }
    let ran = fs::read_to_string(world.folder.join(&log)).unwrap();
    for node in NODES {
        let Some(completed) = completed.get(node) else {
            world.fail(format!("node `{node}` of `{id}` did not complete"));
            continue;
        };
        // A command that was left behind by a killed run may write late: it has the number of that run.
        let runs: Vec<u64> = ran
            .lines()
            .filter_map(|line| line.strip_prefix(node)?.trim().parse().ok())
            .collect();
        if runs.is_empty() || runs.iter().any(|attempt| attempt > completed) {
            world.fail(format!(
                "node `{node}` of `{id}` completed in run {completed} and was run in {runs:?}"
            ));
        }
    }
    attempt
}
