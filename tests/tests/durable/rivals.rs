//! Two processes that want the same execution.

use std::collections::BTreeSet;

use rustix::process::Signal;

use crate::world::World;

const GRAPH: &str = "ended 4 4 4 4 12 12 12 40";
/// 0 + 1 + … + 5.
const FLOW: &str = "ended 15";

#[test]
fn e12_a_worker_that_was_paused_while_another_took_over_wakes_up_and_starts_no_more_effects() {
    let world = World::new();
    let mut zombie = world.start_mortal("flow", "order-7");
    zombie.wait_for("halfway");
    let before = world.recorded("order-7");
    assert_eq!(before.effects.len(), 3);
    zombie.pause(&world);

    // It waits until the lease has lapsed, and gets past the place where the first one waits.
    let mut successor = world.start_mortal("flow", "order-7");
    successor.wait_for("halfway");
    successor.say("go");
    assert_eq!(successor.end(), FLOW);
    let after = world.recorded("order-7");
    assert_eq!(after.effects.len(), 6);

    zombie.signal(Signal::CONT);
    zombie.say("go");
    // It says what the log says, which is not its own work.
    assert_eq!(zombie.end(), FLOW);
    assert_eq!(
        world.recorded("order-7"),
        after,
        "the log is the second one's"
    );
    let effects = world.effects();
    assert_eq!(effects.len(), 6);
    assert!(effects.values().all(|count| *count == 1), "{effects:?}");
}

#[test]
fn e12_a_worker_that_wakes_up_while_the_other_one_runs_is_told() {
    let world = World::new();
    let mut zombie = world.start_mortal("flow", "order-7");
    zombie.wait_for("halfway");
    zombie.pause(&world);
    let mut successor = world.start_mortal("flow", "order-7");
    successor.wait_for("halfway");
    zombie.signal(Signal::CONT);
    zombie.say("go");
    let told = zombie.end();
    assert!(
        told.starts_with("error") && told.contains("taken over"),
        "{told}"
    );
    assert_eq!(world.recorded("order-7").effects.len(), 3);
    successor.say("go");
    assert_eq!(successor.end(), FLOW);
    assert!(world.effects().values().all(|count| *count == 1));
}

#[test]
fn e24_of_two_processes_that_run_the_same_graph_each_effect_happens_once_and_both_get_the_result() {
    for what in ["graph", "spread"] {
        for round in 0..3 {
            let world = World::new();
            let id = format!("g{round}");
            let mut both = [world.start(what, &id), world.start(what, &id)];
            for node in &mut both {
                assert_eq!(node.end(), GRAPH);
            }
            let effects = world.effects();
            assert_eq!(effects.len(), 24);
            assert!(effects.values().all(|count| *count == 1), "{effects:?}");
        }
    }
}

#[test]
fn e24_when_the_first_of_two_processes_is_killed_the_second_one_ends_what_it_ran() {
    let world = World::new();
    let mut first = world.start_mortal("flow", "order-7");
    first.wait_for("halfway");
    let mut second = world.start_mortal("flow", "order-7");
    // It cannot have begun: the first one holds the lease.
    second.say("go");
    first.kill();
    assert_eq!(second.end(), FLOW);
    let effects = world.effects();
    assert!(effects.values().all(|count| *count == 1), "{effects:?}");
    let processes: BTreeSet<_> = world.processes("order-7").into_iter().collect();
    assert_eq!(processes.len(), 2);
}
