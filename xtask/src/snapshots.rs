//! The check of snapshots (the files of the `insta` crate).

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::report::say;

/// Refuses snapshots that wait for a review, and snapshots that no test uses any more. The latter can be
/// told only from `references`: the file into which the tests wrote the snapshots that they used.
pub(crate) fn check(root: &Path, references: Option<&Path>) -> Result<(), String> {
    let files = files_below(root)?;
    let pending: Vec<_> = files.iter().filter(|file| is_pending(file)).collect();
    if !pending.is_empty() {
        return Err(format!("waiting for a review:{}", list(root, &pending)));
    }
    let Some(references) = references else {
        say(format_args!(
            "none is pending; whether all are used is known only when the tests have passed before"
        ));
        return Ok(());
    };
    let used = used(references)?;
    let unused: Vec<_> = files
        .iter()
        .filter(|file| {
            file.extension()
                .is_some_and(|extension| extension == "snap")
        })
        .filter(|file| !used.contains(&canonical(file)))
        .collect();
    if unused.is_empty() {
        Ok(())
    } else {
        Err(format!("used by no test:{}", list(root, &unused)))
    }
}

/// Forgets what an earlier run of the tests used, and makes sure that the next one can write it down.
pub(crate) fn clear_references(references: &Path) -> Result<(), String> {
    let describe = |error| format!("cannot reset {}: {error}", references.display());
    if let Some(folder) = references.parent() {
        fs::create_dir_all(folder).map_err(describe)?;
    }
    match fs::remove_file(references) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(describe(error)),
        _ => Ok(()),
    }
}

/// `….snap.new` beside a snapshot in a file, `.….pending-snap` beside a source file with one inline.
fn is_pending(file: &Path) -> bool {
    let name = file.to_string_lossy();
    name.ends_with(".snap.new") || name.ends_with(".pending-snap")
}

fn used(references: &Path) -> Result<BTreeSet<PathBuf>, String> {
    match fs::read_to_string(references) {
        Ok(lines) => Ok(lines
            .lines()
            .map(|line| canonical(Path::new(line)))
            .collect()),
        // No test used one.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(format!("cannot read {}: {error}", references.display())),
    }
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

fn list(root: &Path, files: &[&PathBuf]) -> String {
    files
        .iter()
        .map(|file| format!("\n  {}", file.strip_prefix(root).unwrap_or(file).display()))
        .collect()
}

/// All files, but for what was built and what git keeps.
fn files_below(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let describe = |error| format!("cannot read {}: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(describe)? {
            let entry = entry.map_err(describe)?;
            if !entry.file_type().map_err(describe)?.is_dir() {
                files.push(entry.path());
            } else if !matches!(entry.file_name().to_str(), Some("target" | ".git")) {
                folders.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with `files`, all empty.
    fn tree(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        root
    }

    #[test]
    fn a_pending_snapshot_is_refused_by_name() {
        for pending in ["a/snapshots/x.snap.new", "a/src/.lib.rs.pending-snap"] {
            let root = tree(&["a/src/lib.rs", pending]);
            let error = check(root.path(), None).unwrap_err();
            assert!(error.contains(pending), "{error}");
        }
    }

    #[test]
    fn what_is_built_is_not_looked_at() {
        let root = tree(&["target/x.snap.new", "fuzz/target/x.snap.new"]);
        assert_eq!(check(root.path(), None), Ok(()));
    }

    #[test]
    fn a_snapshot_that_no_test_used_is_refused_by_name() {
        let root = tree(&[
            "a/snapshots/used.snap",
            "a/snapshots/left-over.snap",
            "a/src/lib.rs",
        ]);
        let references = root.path().join("target/references.txt");
        clear_references(&references).unwrap();
        // As the tests write it: by whatever path they reached it, and once per use.
        let used = root.path().join("a/src/../snapshots/used.snap");
        fs::write(&references, format!("{0}\n{0}\n", used.display())).unwrap();

        let error = check(root.path(), Some(&references)).unwrap_err();
        assert_eq!(error, "used by no test:\n  a/snapshots/left-over.snap");
        fs::remove_file(root.path().join("a/snapshots/left-over.snap")).unwrap();
        assert_eq!(check(root.path(), Some(&references)), Ok(()));
    }

    #[test]
    fn references_of_an_earlier_run_do_not_count() {
        let root = tree(&["a/x.snap", "target/references.txt"]);
        let references = root.path().join("target/references.txt");
        fs::write(
            &references,
            root.path().join("a/x.snap").display().to_string(),
        )
        .unwrap();
        assert_eq!(check(root.path(), Some(&references)), Ok(()));
        clear_references(&references).unwrap();
        assert!(check(root.path(), Some(&references)).is_err());
    }
}
