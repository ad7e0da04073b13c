//! `loom drain` and `loom move`, killed in the middle.

use fastrand::Rng;
use loom_tests::chaos::shared_id;
use serde_json::Value;

use crate::process::{Kill, Ran, expect_ok, loom};
use crate::world::World;

/// Moves until everything is over.
pub(crate) fn slot(world: &World, enough: u64) {
    let mut rng = Rng::with_seed(world.seed ^ 0x33);
    let (mut killed, mut satisfied) = (0, false);
    while !world.is_over() {
        let kill = match rng.u32(0..4) {
            0 => Kill::Never,
            1 => Kill::Everybody(Kill::point(&mut rng, 8)),
            _ => Kill::Told(Kill::point(&mut rng, 7)),
        };
        // Where nothing is to move, it ends before it tells anything.
        killed += u64::from(drain(world, rng.u32(0..3) > 0, kill));
        if rng.u32(0..4) == 0 {
            let id = shared_id(rng.u64(0..loom_tests::chaos::SHARED));
            let kill = Kill::Everybody(Kill::point(&mut rng, 6));
            let ran = loom(world, "moves", &["move", &id], None, kill, &mut |_| {});
            // Before somebody creates it, in a settled bucket or in one that migrates.
            let absent = ["there is no execution", "it does not exist"];
            if !absent.iter().any(|text| ran.stderr.contains(text)) {
                expect_ok(world, "loom move", &ran);
            }
            killed += u64::from(ran.killed);
        }
        if !satisfied && killed >= enough {
            satisfied = true;
            world.change(|state| state.satisfied += 1);
        }
    }
}

/// Says whether it was killed.
fn drain(world: &World, live: bool, kill: Kill) -> bool {
    let mut args = vec!["drain", "--progress", "plain", "--json"];
    args.extend(live.then_some("--live"));
    let ran = loom(world, "drains", &args, None, kill, &mut |_| {});
    if expect_ok(world, "loom drain", &ran) {
        expect_nothing_stuck(world, &ran);
    }
    ran.killed
}

pub(crate) fn expect_nothing_stuck(world: &World, ran: &Ran) {
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    if report["stuck"]
        .as_array()
        .is_none_or(|stuck| !stuck.is_empty())
    {
        world.fail(format!("loom drain: {}", ran.stdout));
    }
    if let Some(epoch) = report["epoch"].as_u64() {
        world.change(|state| state.epoch = state.epoch.max(epoch));
    }
}
