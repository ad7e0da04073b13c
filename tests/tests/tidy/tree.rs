//! The files of the project.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Paths from the root, with `/`, and texts. A file that is no text has none.
#[derive(Debug, Default)]
pub(crate) struct Tree(BTreeMap<String, Option<String>>);

/// Folders that are built or belong to tools. Of those whose name starts with a dot, only these are ours.
const SKIPPED: &[&str] = &["target", "node_modules"];
const DOTTED: &[&str] = &[".cargo", ".ci", ".config", ".github"];

impl Tree {
    /// Reads the workspace that this test belongs to.
    pub(crate) fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut tree = Self::default();
        tree.add_folder(root, "");
        tree
    }

    /// A tree of these files.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned())));
        Self(files.collect())
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The text of a file, if it is there and a text.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.0.get(path)?.as_deref()
    }

    /// The texts whose names end with one of `endings`.
    pub(crate) fn texts<'a>(
        &'a self,
        endings: &'a [&str],
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0
            .iter()
            .filter(|(path, _)| endings.iter().any(|ending| path.ends_with(ending)))
            .filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// Whether it is a file, or a folder with files.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self
                .0
                .keys()
                .any(|file| file == path || file.starts_with(&folder))
    }

    fn add_folder(&mut self, folder: &Path, prefix: &str) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let path = format!("{prefix}{name}");
            if !entry.file_type().unwrap().is_dir() {
                // Others may remove a file while the tests run.
                if let Ok(bytes) = fs::read(entry.path()) {
                    self.0.insert(path, String::from_utf8(bytes).ok());
                }
            } else if !SKIPPED.contains(&name.as_str())
                && (!name.starts_with('.') || DOTTED.contains(&name.as_str()))
            {
                self.add_folder(&entry.path(), &format!("{path}/"));
            }
        }
    }
}
