//! The `loom` command that is tested: the one of this build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// It lies beside the other programs of the build. Where only this package is built, it may be missing or old: then it
/// is built.
pub(crate) fn loom() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_loom-chaos-node"));
    let loom = beside.with_file_name("loom");
    if !is_fresh(&loom) {
        let profile = beside.parent().and_then(Path::file_name).unwrap();
        let target = beside.ancestors().nth(2).unwrap();
        let profile = match profile.to_str().unwrap() {
            "debug" => "dev",
            other => other,
        };
        let built = Command::new(env!("CARGO"))
            .args(["build", "--package", "loom-cli", "--bin", "loom"])
            .args(["--profile", profile, "--target-dir"])
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(built.success(), "loom-cli does not build");
    }
    loom
}

/// Whether it is there, and younger than every file it was made from.
fn is_fresh(loom: &Path) -> bool {
    let (Some(built), Ok(made_of)) = (time(loom), fs::read_to_string(loom.with_extension("d")))
    else {
        return false;
    };
    let files = made_of.split_once(": ").map_or("", |(_, files)| files);
    // Spaces within names are escaped.
    files
        .replace("\\ ", "\0")
        .split_whitespace()
        .all(|file| time(Path::new(&file.replace('\0', " "))).is_some_and(|time| time <= built))
}

fn time(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).ok()?.modified().ok()
}
