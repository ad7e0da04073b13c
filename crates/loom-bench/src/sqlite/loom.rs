//! The `loom` command, which is built beside this program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Failure;

fn program() -> Result<PathBuf, Failure> {
    Ok(std::env::current_exe()?.with_file_name("loom"))
}

/// Whether it was built. If not, says what is left out.
pub(super) fn is_there(what: &str) -> Result<bool, Failure> {
    let program = program()?;
    let there = program.is_file();
    if !there {
        eprintln!(
            "SKIPPED: {what}: there is no {}: `cargo build --release -p loom-cli` makes it",
            program.display()
        );
    }
    Ok(there)
}

/// Makes a deployment in a new folder.
pub(super) fn init(folder: &Path, shards: &str) -> Result<(), Failure> {
    std::fs::create_dir(folder)?;
    run(folder, &["init", "--shards", shards].map(OsStr::new))
}

/// Runs a command in the folder of a deployment.
pub(super) fn run(folder: &Path, arguments: &[&OsStr]) -> Result<(), Failure> {
    let output = command(folder, arguments)?.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("loom {arguments:?}: {said}").into())
}

/// A command in the folder of a deployment, which prints nothing.
pub(super) fn command(folder: &Path, arguments: &[&OsStr]) -> Result<Command, Failure> {
    let mut command = Command::new(program()?);
    command
        .args(arguments)
        .current_dir(std::path::absolute(folder)?)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    Ok(command)
}
