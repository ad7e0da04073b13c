//! Retries, timeouts and failing fast, where every attempt is a process.

use crate::world::World;

#[test]
fn nodes_in_processes_are_tried_again_and_those_that_take_too_long_are_ended() {
    let world = World::new();
    let expected =
        "ended flaky 3 completed; endless 1 timed out after 300ms; hopeless 2 failed: as told";
    assert_eq!(world.start("policies", "g").end(), expected);
    assert_eq!(world.children("g"), ["g/flaky", "g/endless", "g/hopeless"]);
    assert_eq!(world.children("g/flaky"), ["g/flaky~2", "g/flaky~3"]);
    assert_eq!(world.children("g/hopeless"), ["g/hopeless~2"]);
    let all = [
        "g/flaky",
        "g/flaky~2",
        "g/flaky~3",
        "g/endless",
        "g/hopeless",
        "g/hopeless~2",
    ];
    for id in all {
        let recorded = world.recorded(id);
        assert!(
            recorded.closed && recorded.events == 2,
            "`{id}`: {recorded:?}"
        );
    }
    // Another process that runs the graph again finds all of that, and repeats nothing.
    assert_eq!(world.start("policies", "g").end(), expected);
    for id in all {
        assert_eq!(world.recorded(id).events, 2, "`{id}`");
    }
    assert_eq!(world.children("g/flaky").len(), 2);
}

#[test]
fn a_graph_of_processes_that_fails_fast_ends_those_that_run() {
    let world = World::new();
    let expected = "ended endless 1 cancelled: the graph fails fast: node `hopeless` failed: as told; \
         hopeless 1 failed: as told; last 0 skipped: `endless` did not complete";
    assert_eq!(world.start("fail-fast", "g").end(), expected);
    assert_eq!(world.children("g"), ["g/endless", "g/hopeless"]);
    for id in ["g/endless", "g/hopeless"] {
        assert!(world.recorded(id).closed, "`{id}`");
    }
    assert_eq!(world.recorded("g/last").events, 0);
    // Resumed, it ends in the same way: what failed is known before anything is begun.
    assert!(
        world
            .start("fail-fast", "g")
            .end()
            .contains("hopeless 1 failed: as told")
    );
    assert_eq!(world.recorded("g/last").events, 0);
}
