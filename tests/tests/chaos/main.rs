//! Real processes on the same shards, killed at random moments while the plan changes.
//!
//! At any time three processes append, read, delete, fence, branch, list and move; one imports, one runs graphs, one
//! drains, and one changes the plan. Each is killed with SIGKILL after a number of lines that the seed says, and followed
//! by another one that goes on. What they say goes to a judge: what was acknowledged has to be so, what was under way
//! when a process was killed may be so, nothing else is, and no process that was not killed meets an error. The shards are
//! in files, or on two servers and in files.
//!
//! `LOOM_CHAOS_KILLS` says how many are killed at least, `LOOM_CHAOS_SEED` what the seed is. The seed decides what each
//! process does and when it is killed; who comes first is up to the operating system. With `LOOM_CHAOS_KEEP` the
//! deployment of a run that fails is kept.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod binary;
mod graphs;
mod importers;
mod judge;
mod movers;
mod nodes;
mod process;
mod publisher;
mod world;

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::thread;

use loom_test_postgres::{Cluster, Settings, available};
use loom_tests::chaos::SLOTS;
use serde_json::Value;

use crate::process::loom_ok;
use crate::world::{Enough, State, World};

/// What is enough unless somebody says otherwise.
const ENOUGH: Enough = Enough {
    kills: 400,
    changes: 20,
};
/// The same where shards are on servers: to connect takes longer than to open a file.
const ENOUGH_ON_SERVERS: Enough = Enough {
    kills: 100,
    changes: 6,
};

#[test]
fn processes_that_are_killed_while_the_plan_changes_lose_nothing() {
    run(&[], ENOUGH);
}

#[test]
fn processes_that_are_killed_over_servers_and_files_while_the_plan_changes_lose_nothing() {
    if !available() {
        return;
    }
    let settings = Settings::fast().with("max_connections", "400");
    let servers = [(); 2].map(|()| Cluster::start(&settings).unwrap());
    run(&servers, ENOUGH_ON_SERVERS);
}

fn run(servers: &[Cluster], mut enough: Enough) {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seed = number("LOOM_CHAOS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    enough.kills = number("LOOM_CHAOS_KILLS").unwrap_or(enough.kills);
    let folder = tempfile::tempdir().unwrap();
    // Importers, graphs, movers and a publisher have done enough when they say so.
    let mut world = World::new(folder.path(), binary::loom(), seed, enough, 4);
    world.databases = servers
        .iter()
        .map(|server| server.url("postgres"))
        .collect();
    let world = world;
    let told = catch_unwind(AssertUnwindSafe(|| {
        create(&world);
        let imported = everything_at_once(&world);
        end(&world, &imported);
    }));
    let summary = summary(&world.state());
    tell(&format!("LOOM_CHAOS_SEED={seed}: {summary}"));
    let failures = world.state().failures.join("\n\n");
    if told.is_err() || !failures.is_empty() {
        tell(&post_mortem(&world));
        if env::var_os("LOOM_CHAOS_KEEP").is_some() {
            tell(&format!("kept in {}", folder.keep().display()));
        }
    }
    assert!(failures.is_empty(), "LOOM_CHAOS_SEED={seed}\n{failures}");
    if let Err(panic) = told {
        std::panic::resume_unwind(panic);
    }
}

fn create(world: &World) {
    match (world.database(0), world.database(1)) {
        (Some(first), Some(second)) => {
            let file = "sqlite:shards/2.db";
            loom_ok(
                world,
                &["init", "--url", &first, "--url", &second, "--url", file],
            )
        }
        _ => loom_ok(world, &["init", "--shards", "3"]),
    };
    let file = world.folder.join("loom.toml");
    let text = std::fs::read_to_string(file).unwrap();
    // Small windows are many moments to be killed in. Many wait for few cores and one disk.
    let limits = "\n[limits]\nimport_window = 8\nbusy_timeout_ms = 120000\n";
    world.write("loom.toml", &format!("{text}{limits}"));
}

/// Returns what was imported.
fn everything_at_once(world: &World) -> String {
    let enough = world.kills / 9;
    thread::scope(|scope| {
        for slot in 0..SLOTS {
            scope.spawn(move || guarded(world, || nodes::slot(world, slot)));
        }
        scope.spawn(|| guarded(world, || graphs::slot(world, enough)));
        scope.spawn(|| guarded(world, || movers::slot(world, enough)));
        scope.spawn(|| guarded(world, || publisher::slot(world)));
        let imports = scope.spawn(|| guarded(world, || importers::slot(world, enough)));
        imports.join().unwrap().unwrap_or_default()
    })
}

/// A thread that panics ends the others too.
fn guarded<T>(world: &World, work: impl FnOnce() -> T) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(work));
    if let Err(panic) = &done {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        world.fail(format!("a thread panicked: {}", text.unwrap_or("?")));
    }
    done.ok()
}

/// Nothing runs any more. First everything is looked at as it was left, then after all moves are finished.
fn end(world: &World, imported: &str) {
    if world.has_failed() {
        return;
    }
    nodes::check(world, false);
    importers::check(world, imported);
    loom_ok(world, &["drain", "--live", "--until-settled"]);
    let audit: Value = serde_json::from_str(&loom_ok(world, &["audit", "--json"])).unwrap();
    assert_eq!(audit["violations"], 0, "{audit}");
    importers::check(world, imported);
    nodes::check(world, true);
    let plan: Value = serde_json::from_str(&loom_ok(world, &["plan", "show", "--json"])).unwrap();
    world.change(|state| {
        state.epoch = plan["epoch"].as_u64().unwrap();
        let wrong = state.judge.violations();
        state.failures.extend(wrong);
    });
    let state = world.state();
    assert!(state.kills() >= world.kills, "{}", summary(&state));
    assert!(state.epoch > world.changes, "{}", summary(&state));
    assert!(
        state.mixed > 0,
        "all processes were under the same plan at any time"
    );
    assert!(
        state.crowded * 10 > state.kills() * 9,
        "fewer than four processes at a time: {}",
        summary(&state)
    );
}

fn summary(state: &State) -> String {
    format!(
        "{} kills ({:?}; {} of them with 4 or more processes), {} ended by themselves ({:?}), {} plan changes, {} operations acknowledged, {} left open by a kill, {} answers under another plan than that of another process",
        state.kills(),
        state.killed,
        state.crowded,
        state.ended.values().sum::<u64>(),
        state.ended,
        state.epoch - 1,
        state.judge.acknowledged,
        state.judge.unknown,
        state.mixed,
    )
}

/// What was done last to the plan, and what is on the shards.
fn post_mortem(world: &World) -> String {
    let history: Vec<String> = world.state().history.iter().cloned().collect();
    let audit = Command::new(&world.loom)
        .arg("audit")
        .current_dir(&world.folder)
        .output();
    let audit = audit.map(|audit| String::from_utf8_lossy(&audit.stdout).into_owned());
    format!("{}\nloom audit: {audit:?}", history.join("\n"))
}

#[expect(
    clippy::print_stdout,
    reason = "shown with a test that fails, so that it can be repeated"
)]
fn tell(text: &str) {
    println!("{text}");
}
