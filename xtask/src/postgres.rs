//! Whether PostgreSQL is there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::step::Outcome;

/// How to get it.
const INSTALL: &str = "install it (Debian: `apt-get install postgresql`; the server need not run), put its `initdb` and `postgres` on \
     PATH, or give a server in LOOM_TEST_POSTGRES_URL; the tests that need one were skipped";

/// Looks where `loom-test-postgres` looks.
pub(crate) fn check() -> Outcome {
    let path = env::var_os("PATH").unwrap_or_default();
    let given = env::var_os("LOOM_TEST_POSTGRES_URL").is_some_and(|url| !url.is_empty());
    let mut folders = env::split_paths(&path)
        .chain(told_by_pg_config())
        .chain(debian(Path::new("/usr/lib/postgresql")));
    if given || folders.any(|folder| has_programs(&folder)) {
        Outcome::Passed
    } else {
        Outcome::Missing {
            install: INSTALL.to_owned(),
        }
    }
}

fn has_programs(folder: &Path) -> bool {
    folder.join("initdb").is_file() && folder.join("postgres").is_file()
}

fn told_by_pg_config() -> Option<PathBuf> {
    let output = Command::new("pg_config")
        .arg("--bindir")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().into())
}

fn debian(root: &Path) -> Vec<PathBuf> {
    let versions = fs::read_dir(root).into_iter().flatten().flatten();
    versions.map(|version| version.path().join("bin")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_folder_with_both_programs_is_one() {
        let folder = env::temp_dir().join(format!("xtask-postgres-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("initdb"), "").unwrap();
        assert!(!has_programs(&folder));
        fs::write(folder.join("postgres"), "").unwrap();
        assert!(has_programs(&folder));
        fs::remove_dir_all(&folder).unwrap();
        assert!(!has_programs(&folder));
    }
}
