//! Processes that are killed in the middle of a graph.

use std::collections::BTreeMap;
use std::env;

use fastrand::Rng;

use crate::world::{Recorded, World, is_end};

/// What the graph comes to: see `nodes` of the process.
const RESULT: &str = "ended 4 4 4 4 12 12 12 40";
/// Nodes times effects.
const EFFECTS: usize = 8 * 3;

fn number(name: &str, default: u64) -> u64 {
    match env::var(name) {
        Ok(text) => text.parse().unwrap(),
        Err(_) => default,
    }
}

/// What is recorded of all branches.
fn branches(world: &World, id: &str) -> BTreeMap<String, Recorded> {
    let children = world.children(id);
    let recorded = children.into_iter().map(|child| {
        let recorded = world.recorded(&child);
        (child, recorded)
    });
    recorded.collect()
}

/// Nothing that was recorded when a process died has happened again since, and nothing that had ended was touched.
fn check(world: &World, id: &str, before: &Before) {
    let counts = world.effects();
    for (child, recorded) in &before.branches {
        for key in &recorded.effects {
            let effect = (child.clone(), key.clone());
            assert_eq!(
                counts.get(&effect),
                before.counts.get(&effect),
                "{effect:?} was recorded, and happened again"
            );
        }
        let now = world.recorded(child);
        if recorded.closed {
            assert_eq!(&now, recorded, "`{child}` had ended");
        }
        assert!(now.effects.starts_with(&recorded.effects), "`{child}`");
    }
    assert!(branches(world, id).len() >= before.branches.len());
}

/// How things stood when a process had died.
struct Before {
    branches: BTreeMap<String, Recorded>,
    counts: BTreeMap<(String, String), usize>,
}

impl Before {
    fn look(world: &World, id: &str) -> Self {
        Self {
            branches: branches(world, id),
            counts: world.effects(),
        }
    }
}

/// Runs graphs, killing whoever runs them, until so many processes were killed.
fn kill_again_and_again(what: &str, rounds: u64) {
    let seed = number("LOOM_DURABLE_SEED", 7);
    let mut rng = Rng::with_seed(seed);
    let world = World::new();
    let (mut kills, mut graphs) = (0, 0);
    while kills < rounds {
        graphs += 1;
        let id = format!("{what}-{graphs}");
        loop {
            let mut node = world.start_mortal(what, &id);
            // After so many lines; beyond what is left to say, it gets to its end.
            let mut lines = rng.usize(0..EFFECTS + 4);
            let mut end = None;
            while lines > 0
                && end.is_none()
                && let Some(line) = node.line()
            {
                lines -= 1;
                end = is_end(&line).then_some(line);
            }
            if let Some(end) = end {
                assert_eq!(end, RESULT, "graph {graphs}, seed {seed}");
                break;
            }
            node.kill();
            kills += 1;
            let before = Before::look(&world, &id);
            // Whoever follows is killed in turn, or ends the graph.
            let mut next = world.start_mortal(what, &id);
            if rng.bool() && kills < rounds {
                for _ in 0..rng.usize(0..6) {
                    next.line();
                }
                next.kill();
                kills += 1;
                check(&world, &id, &before);
                continue;
            }
            assert_eq!(next.end(), RESULT, "graph {graphs}, seed {seed}");
            check(&world, &id, &before);
            break;
        }
        let branches = branches(&world, &id);
        assert_eq!(branches.len(), 8);
        for (child, recorded) in branches {
            assert!(recorded.closed, "`{child}`");
            assert_eq!(recorded.effects, ["step-0", "step-1", "step-2"]);
        }
    }
    eprintln!("{what}: {kills} processes killed in {graphs} graphs, seed {seed}");
}

#[test]
fn a_graph_whose_process_is_killed_at_any_moment_goes_on_and_repeats_nothing_recorded() {
    kill_again_and_again("graph", number("LOOM_DURABLE_ROUNDS", 25));
}

#[test]
fn a_graph_that_is_run_again_when_it_has_ended_runs_nothing() {
    let world = World::new();
    assert_eq!(world.start("graph", "g").end(), RESULT);
    let before = world.effects();
    assert_eq!(before.len(), EFFECTS);
    assert!(before.values().all(|count| *count == 1));
    // On whichever runtime.
    for what in ["graph", "spread"] {
        assert_eq!(world.start(what, "g").end(), RESULT);
    }
    assert_eq!(world.effects(), before);
}

#[test]
fn a_graph_of_which_each_node_is_a_process_goes_on_when_their_parent_is_killed() {
    // Its instances run on without it; whoever follows joins them.
    kill_again_and_again("spread", number("LOOM_DURABLE_ROUNDS", 25) / 5);
}

#[test]
fn the_same_graph_runs_with_each_node_in_a_process_of_its_own() {
    let world = World::new();
    let mut node = world.start("spread", "g");
    assert_eq!(node.end(), RESULT);
    let mut processes = Vec::new();
    for child in world.children("g") {
        let of_child = world.processes(&child);
        assert_eq!(of_child.len(), 1, "`{child}`: {of_child:?}");
        processes.extend(of_child);
    }
    processes.sort();
    processes.dedup();
    assert_eq!(processes.len(), 8, "a process for each node");
}

#[test]
fn three_branches_run_at_once_in_three_processes_as_three_executions() {
    let world = World::new();
    let end = world.start("meet", "incident-42").end();
    let mut processes: Vec<&str> = end.strip_prefix("ended ").unwrap().split(' ').collect();
    processes.sort_unstable();
    processes.dedup();
    assert_eq!(processes.len(), 3, "{end}");
    let children = world.children("incident-42");
    assert_eq!(children.len(), 3);
    for child in children {
        let recorded = world.recorded(&child);
        assert!(recorded.closed);
        assert_eq!(recorded.effects, ["meet"]);
    }
    assert!(world.effects().values().all(|count| *count == 1));
}
