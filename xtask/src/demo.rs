//! `cargo xtask demo`: the main job, in commands that one can type oneself.

use std::io::ErrorKind;

use crate::report::say;
use crate::workspace::{Build, Workspace, relative, run as run_command};

const DEPLOYMENT: &str = "target/demo";
const CONFIG: &str = "target/demo/loom.toml";

/// Creates a deployment of four SQLite shards, runs the incident graph over it, and shows where things went.
pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    let program = workspace.build("loom-cli", "loom", Build::Alone)?;
    remove_earlier(workspace)?;

    let loom = |args: &str| {
        say(format_args!(""));
        run_command(workspace.program(&program).args(args.split(' ')))
    };
    loom(&format!("init --shards 4 --dir {DEPLOYMENT}"))?;
    loom(&format!(
        "graph run docs/examples/incident/incident.toml --config {CONFIG} --id incident-42"
    ))?;
    loom(&format!("status --config {CONFIG}"))?;

    say(format_args!(
        "\nNext, let the deployment grow while it is in use:\n\
         $ {} rebalance --shards 5 --yes --config {CONFIG}",
        relative(&program, workspace.root()).display()
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
