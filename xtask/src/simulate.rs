//! `cargo xtask simulate`.

use crate::args::Schedules;
use crate::workspace::{Workspace, run as run_command};

/// Runs schedules of the simulation of the sharded store, which is among that crate's unit tests.
pub(crate) fn run(workspace: &Workspace, schedules: &Schedules) -> Result<(), String> {
    let tests = "simulation::rules::schedules";
    let mut command = workspace.cargo(&["test", "--package", "loom-sharded-store", "--lib", tests]);
    let variables = [
        ("LOOM_SIMULATION_SEED", schedules.seed),
        ("LOOM_SIMULATION_SCHEDULES", schedules.count),
    ];
    for (variable, value) in variables {
        if let Some(value) = value {
            command.env(variable, value.to_string());
        }
    }
    run_command(&mut command)
}
