//! Files that are written beside their place and moved there in one step.
//!
//! Whoever is killed on the way leaves such a file behind. It is locked while it is being written, so that the next
//! command that writes in the same folder can tell, and removes it.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use tempfile::NamedTempFile;

use crate::config::folder_of;

/// What the names of the files begin with.
const PREFIX: &str = ".loom-staged-";

/// A new file in the folder of `target`, with the permissions given, or for whom the umask lets.
pub(crate) fn stage(target: &Path, permissions: Option<Permissions>) -> io::Result<NamedTempFile> {
    let folder = folder_of(target);
    remove_leftovers(folder);
    let permissions = permissions.unwrap_or_else(|| Permissions::from_mode(0o666));
    loop {
        let staged = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(permissions.clone())
            .tempfile_in(folder)?;
        // Where nothing can be locked, nobody can tell, and leftovers stay.
        if staged.as_file().lock().is_err() || is_at(staged.as_file(), staged.path()) {
            return Ok(staged);
        }
        // Taken for a leftover in the moment before it was locked.
    }
}

/// Removes what writers that are gone have left in a folder. Nothing depends on it.
fn remove_leftovers(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = entry.path();
        if let Ok(file) = File::open(&path)
            && file.try_lock().is_ok()
            && is_at(&file, &path)
        {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Whether a file still has this name.
fn is_at(file: &File, path: &Path) -> bool {
    let same = || -> io::Result<bool> {
        let (open, named) = (file.metadata()?, fs::symlink_metadata(path)?);
        Ok((open.dev(), open.ino()) == (named.dev(), named.ino()))
    };
    same().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn what_a_killed_writer_left_is_removed_and_what_is_being_written_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out.jsonl");
        let alive = stage(&target, None).unwrap();
        // A writer that is gone holds no lock.
        let (_, left) = stage(&target, None).unwrap().keep().unwrap();
        fs::write(folder.path().join(".loom.toml.draft"), "kept").unwrap();
        let mut before = names(folder.path());
        before.sort();
        assert_eq!(before.len(), 3);
        let third = stage(&target, None).unwrap();
        assert!(!left.exists());
        assert!(alive.path().exists());
        third.persist(&target).unwrap();
        alive.persist(&target).unwrap();
        let mut after = names(folder.path());
        after.sort();
        assert_eq!(after, [".loom.toml.draft", "out.jsonl"]);
    }

    #[test]
    fn many_writers_at_once_take_nothing_from_each_other() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let folder = folder.path();
                scope.spawn(move || {
                    for round in 0..100 {
                        let target = folder.join(format!("{writer}-{round}"));
                        stage(&target, None).unwrap().persist(&target).unwrap();
                    }
                });
            }
        });
        assert_eq!(names(folder.path()).len(), 400);
    }
}
