//! `cargo xtask conformance`.

use crate::workspace::{Build, Workspace, run as run_command};

/// Runs the conformance suite over every store. The matrix goes to the screen and to `target/`.
pub(crate) fn run(workspace: &Workspace, build: Build) -> Result<(), String> {
    let program = workspace.build("loom-tests", "conformance-matrix", build)?;
    let target = workspace.root().join("target");
    std::fs::create_dir_all(&target)
        .map_err(|error| format!("cannot create {}: {error}", target.display()))?;
    run_command(workspace.program(&program).args([
        "--json",
        "target/conformance.json",
        "--markdown",
        "target/conformance.md",
    ]))
}
