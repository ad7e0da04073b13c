//! `cargo xtask demo`: the main job, in commands that one can type oneself.

use std::io::ErrorKind;
use std::process::Command;

use crate::report::say;
use crate::workspace::{Workspace, run as run_command};

const DEPLOYMENT: &str = "target/demo";
const CONFIG: &str = "target/demo/loom.toml";

/// Creates a deployment of four SQLite shards, runs the incident graph over it, and shows where things went.
pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    run_command(&mut workspace.cargo(&["build", "--package", "loom-cli", "--bin", "loom"]))?;
    let program = workspace.built("loom")?;
    remove_earlier(workspace)?;

    let loom = |args: &str| {
        let mut command = Command::new(&program);
        command.args(args.split(' ')).current_dir(workspace.root());
        say(format_args!(""));
        run_command(&mut command)
    };
    loom(&format!("init --shards 4 --dir {DEPLOYMENT}"))?;
    loom(&format!(
        "graph run docs/examples/incident/incident.toml --config {CONFIG} --id incident-42"
    ))?;
    loom(&format!("status --config {CONFIG}"))?;

    say(format_args!(
        "\nNext, let the deployment grow while it is in use:\n\
         $ {} rebalance --shards 5 --yes --config {CONFIG}",
        program.display()
    ));
    Ok(())
}

/// The demo starts from nothing. Everything in its folder was made by an earlier run.
fn remove_earlier(workspace: &Workspace) -> Result<(), String> {
    let folder = workspace.root().join(DEPLOYMENT);
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}
