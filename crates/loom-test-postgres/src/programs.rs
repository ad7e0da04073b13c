//! Where PostgreSQL's programs are, and as whom they may run.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

/// The folder that holds `initdb` and `postgres`: from `PATH`, from `pg_config`, or Debian's with the highest version.
pub(crate) fn folder() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).collect::<Vec<_>>();
    on_path
        .into_iter()
        .chain(told_by_pg_config())
        .chain(debian(Path::new("/usr/lib/postgresql")))
        .find(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())
        // `PATH` may hold links: the programs look for their files beside where they really are.
        .map(|folder| real_folder(&folder))
}

fn real_folder(folder: &Path) -> PathBuf {
    let program = fs::canonicalize(folder.join("postgres")).ok();
    let real = program.as_deref().and_then(Path::parent);
    match real {
        Some(real) if real.join("initdb").is_file() => real.to_owned(),
        _ => folder.to_owned(),
    }
}

fn told_by_pg_config() -> Option<PathBuf> {
    let output = Command::new("pg_config")
        .arg("--bindir")
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().into()).filter(|folder: &PathBuf| folder.is_absolute())
}

fn debian(root: &Path) -> Vec<PathBuf> {
    let versions = fs::read_dir(root).into_iter().flatten().flatten();
    let mut versions: Vec<u32> = versions
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions
        .into_iter()
        .map(|version| root.join(version.to_string()).join("bin"))
        .collect()
}

/// Who runs the server: somebody else than root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User {
    id: u32,
    group: u32,
}

impl User {
    /// Nobody else, unless this process is root's.
    pub(crate) fn other_than_root() -> Result<Option<Self>, String> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        ["postgres", "nobody"]
            .iter()
            .find_map(|name| Self::named(&users, name))
            .map(Some)
            .ok_or_else(|| {
                "PostgreSQL does not run as root: expected a user `postgres` or `nobody`".to_owned()
            })
    }

    fn named(users: &str, name: &str) -> Option<Self> {
        let line = users
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        let mut numbers = line.split(':').skip(2);
        Some(Self {
            id: numbers.next()?.parse().ok()?,
            group: numbers.next()?.parse().ok()?,
        })
    }

    pub(crate) fn own(self, folder: &Path) -> io::Result<()> {
        chown(folder, Some(self.id), Some(self.group))
    }

    /// Gives up root's rights, its groups as well, when the command starts.
    pub(crate) fn run(self, command: &mut Command) {
        command.uid(self.id).gid(self.group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_debians_versions_comes_first() {
        let root = tempfile::tempdir().unwrap();
        for name in ["9", "15", "10", "common"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let found = debian(root.path());
        let expected = ["15", "10", "9"].map(|version| root.path().join(version).join("bin"));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_user_is_found_by_name() {
        let users = "root:x:0:0:root:/:/bin/sh\npostgres:x:101:104:,,,:/var:/bin/sh\n";
        let user = User::named(users, "postgres").unwrap();
        assert_eq!((user.id, user.group), (101, 104));
        assert!(User::named(users, "post").is_none());
    }
}
