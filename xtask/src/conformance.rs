//! `cargo xtask conformance`.

use crate::workspace::{Workspace, run as run_command};

/// Runs the conformance suite over every store. The matrix goes to the screen and to `target/`.
pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    let target = workspace.root().join("target");
    std::fs::create_dir_all(&target)
        .map_err(|error| format!("cannot create {}: {error}", target.display()))?;
    run_command(&mut workspace.cargo(&[
        "run",
        "--package",
        "loom-tests",
        "--bin",
        "conformance-matrix",
        "--",
        "--json",
        "target/conformance.json",
        "--markdown",
        "target/conformance.md",
    ]))
}
