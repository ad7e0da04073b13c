//! Writing `loom.toml`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use loom_spi::DeploymentId;
use tempfile::NamedTempFile;

use super::{Config, FILE_NAME, StoreUrl, folder_of, holds_password};
use crate::failure::Failure;
use crate::source::Source;
use crate::staged;

/// A deployment file under another name while `init` works. It says how a rerun goes on: under the
/// same deployment id, with the same shards.
#[derive(Debug)]
pub(crate) struct Draft {
    path: PathBuf,
    text: String,
    pub(crate) config: Config,
}

impl Draft {
    /// Takes up the draft that an interrupted `init` left, or writes a new one.
    pub(crate) fn open_or_create(target: &Path, urls: &[StoreUrl]) -> Result<Self, Failure> {
        let name = target
            .file_name()
            .map_or_else(|| FILE_NAME.into(), |name| name.to_string_lossy());
        let path = folder_of(target).join(format!(".{name}.draft"));
        if !path.exists() {
            let text = render(&DeploymentId::generate(), urls);
            let staged = stage(&path, &text)?;
            // Whoever comes second takes up the draft of whoever came first.
            match staged.persist_noclobber(&path) {
                // Somebody else may have finished since it was looked whether there is a deployment.
                Ok(_) if target.exists() => {
                    remove(&path)?;
                    return Err(already_there(target));
                }
                Ok(_) => sync_folder(&path)?,
                Err(error) if error.error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Failure::io("write", &path, error.error)),
            }
        }
        let source = match Source::read(&path, "draft of a deployment file") {
            // Another process has made it the deployment file and taken it away.
            Err(_) if target.exists() => return Err(already_there(target)),
            read => read?,
        };
        let mut config = Config::parse(&source)?;
        if config.shards.values().ne(urls) {
            return Err(Failure::refused(format!(
                "an interrupted `loom init` of {} shards left `{}`, and this one asks for other shards",
                config.shards.len(),
                path.display()
            ))
            .with_help(
                "run it again with the same arguments; or remove the draft and the shard files that it names",
            ));
        }
        config.path = target.to_owned();
        Ok(Self {
            path,
            text: source.text().to_owned(),
            config,
        })
    }

    /// Makes the draft the deployment file. Never replaces one.
    pub(crate) fn finish(self) -> Result<Config, Failure> {
        let target = &self.config.path;
        match stage(target, &self.text)?.persist_noclobber(target) {
            Ok(_) => {}
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => {
                return Err(already_there(target));
            }
            Err(error) => return Err(Failure::io("write", target, error.error)),
        }
        sync_folder(target)?;
        remove(&self.path)?;
        Ok(self.config)
    }
}

/// Removes a file that another process may have removed already.
fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Failure::io("remove", path, error))
        }
        _ => Ok(()),
    }
}

/// The refusal to overwrite a deployment.
pub(crate) fn already_there(target: &Path) -> Failure {
    Failure::refused(format!(
        "there is a deployment at `{}` already, and it will not be overwritten",
        target.display()
    ))
    .with_help("`loom status` shows it; `loom rebalance --shards N` grows it; --dir makes another")
}

fn render(deployment: &DeploymentId, urls: &[StoreUrl]) -> String {
    let mut text = format!(
        "# A Loom deployment. The plan, which says what lives on which shard, is in the shards.\n\
         deployment = {}\n",
        quoted(deployment.as_str())
    );
    for (shard, url) in urls.iter().enumerate() {
        push_shard(&mut text, shard, url);
    }
    text
}

fn push_shard(text: &mut String, shard: impl std::fmt::Display, url: &StoreUrl) {
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "\n[[shard]]\nid = {shard}\nurl = {}\n",
        quoted(&url.as_written())
    );
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Keeps others from changing the deployment file until it is dropped. The folder is locked: the file is replaced.
fn lock(config: &Config) -> Result<File, Failure> {
    let folder = folder_of(&config.path);
    let failed = |error| Failure::io("lock", folder, error);
    let locked = File::open(folder).map_err(failed)?;
    locked.lock().map_err(failed)?;
    Ok(locked)
}

/// Adds shards to a deployment file in one step, leaving the rest of its text as it is.
pub(crate) fn add_shards(config: &Config, new: &[(u16, StoreUrl)]) -> Result<Config, Failure> {
    let _alone = lock(config)?;
    let source = Source::read(&config.path, "deployment file")?;
    let mut text = source.text().to_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let mut expected = config.clone();
    for (shard, url) in new {
        push_shard(&mut text, shard, url);
        expected.shards.insert(*shard, url.clone());
    }
    let changed = Source::new(&config.path, text);
    // A file that is written in another style (`shard = [{…}]`) cannot be added to like this.
    match Config::parse(&changed) {
        Ok(parsed) if parsed == expected => {}
        _ => {
            let mut blocks = String::new();
            for (shard, url) in new {
                push_shard(&mut blocks, shard, url);
            }
            return Err(Failure::refused(format!(
                "cannot add the new shards to `{}`: expected its shards as `[[shard]]` tables, unchanged since this command began",
                config.path.display()
            ))
            .with_help(format!("add them by hand and run it again:\n{blocks}")));
        }
    }
    replace(config, &changed)?;
    Ok(expected)
}

/// Takes a shard out of a deployment file in one step, leaving the rest of its text as it is.
pub(crate) fn remove_shard(config: &Config, shard: u16) -> Result<Config, Failure> {
    let mut expected = config.clone();
    if expected.shards.remove(&shard).is_none() {
        return Ok(expected);
    }
    let _alone = lock(config)?;
    let source = Source::read(&config.path, "deployment file")?;
    let changed = Source::new(&config.path, without(source.text(), shard));
    match Config::parse(&changed) {
        Ok(parsed) if parsed == expected => {}
        _ => {
            return Err(Failure::failed(format!(
                "shard {shard} is not used any more, and cannot be taken out of `{}`: expected its shards as `[[shard]]` tables",
                config.path.display()
            ))
            .with_help(format!("remove the entry with `id = {shard}` by hand")));
        }
    }
    replace(config, &changed)?;
    Ok(expected)
}

/// The text without the `[[shard]]` table of a shard: from its heading to the next one.
fn without(text: &str, shard: u16) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut block = String::new();
    let names = |block: &str| {
        let table: Result<toml::Table, _> = toml::from_str(block);
        let table = table
            .ok()
            .and_then(|table| table.get("shard")?.get(0)?.get("id")?.as_integer());
        table == Some(i64::from(shard))
    };
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            if !names(&block) {
                kept.push_str(&block);
            }
            block.clear();
        }
        block.push_str(line);
    }
    if !names(&block) {
        kept.push_str(&block);
    }
    kept
}

/// Puts a text in the place of the deployment file, in one step.
fn replace(config: &Config, changed: &Source) -> Result<(), Failure> {
    let staged = stage(&config.path, changed.text())?;
    if !holds_password(changed.text()) {
        let permissions = fs::metadata(&config.path)
            .map_err(|error| Failure::io("read", &config.path, error))?
            .permissions();
        fs::set_permissions(staged.path(), permissions)
            .map_err(|error| Failure::io("write", staged.path(), error))?;
    }
    staged
        .persist(&config.path)
        .map_err(|error| Failure::io("write", &config.path, error.error))?;
    sync_folder(&config.path)
}

/// Writes `text` durably beside `target`, to be moved there in one step.
fn stage(target: &Path, text: &str) -> Result<NamedTempFile, Failure> {
    let write = || {
        let mut file = staged::stage(target, permissions_for(text))?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        Ok(file)
    };
    write().map_err(|error| Failure::io("write", target, error))
}

/// For its owner alone when it holds a password. Otherwise as the target was, or readable for everyone whom the umask
/// lets, since other users run `loom status`.
fn permissions_for(text: &str) -> Option<fs::Permissions> {
    use std::os::unix::fs::PermissionsExt as _;
    holds_password(text).then(|| fs::Permissions::from_mode(0o600))
}

fn sync_folder(path: &Path) -> Result<(), Failure> {
    let folder = folder_of(path);
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| Failure::io("write", folder, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(n: u16) -> Vec<StoreUrl> {
        (0..n)
            .map(|i| StoreUrl::Sqlite(format!("shard-{i}.db").into()))
            .collect()
    }

    #[test]
    fn a_draft_is_taken_up_under_the_same_deployment() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join(FILE_NAME);
        let first = Draft::open_or_create(&target, &urls(2)).unwrap();
        let again = Draft::open_or_create(&target, &urls(2)).unwrap();
        assert_eq!(first.config, again.config);
        let written = again.finish().unwrap();
        assert_eq!(Config::load(&target).unwrap(), written);
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            1,
            "no draft is left"
        );
    }

    #[test]
    fn a_draft_of_another_shape_and_a_finished_file_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join(FILE_NAME);
        let draft = Draft::open_or_create(&target, &urls(2)).unwrap();
        let other = Draft::open_or_create(&target, &urls(3)).unwrap_err();
        assert!(other.to_string().contains("2 shards"), "{other}");
        fs::write(&target, "mine").unwrap();
        assert!(draft.finish().is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
    }

    #[test]
    fn shards_are_added_without_touching_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join(FILE_NAME);
        let text = "deployment = \"d\" # ours\n[[shard]]\nid = 0\nurl = \"sqlite:0.db\"\n\n[limits]\ngraph_nodes = 3";
        fs::write(&target, text).unwrap();
        let config = Config::load(&target).unwrap();
        let url = StoreUrl::Sqlite("we \"quote\".db".into());
        let grown = add_shards(&config, &[(1, url.clone())]).unwrap();
        assert_eq!(grown.shards[&1], url);
        assert_eq!(Config::load(&target).unwrap(), grown);
        assert!(fs::read_to_string(&target).unwrap().starts_with(text));
    }

    #[test]
    fn a_shard_is_taken_out_without_touching_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join(FILE_NAME);
        let text = "deployment = \"d\" # ours\n\n[[shard]]\nid = 0\nurl = \"sqlite:0.db\"\n\n[[shard]]\nid = 1 # gone\nurl = \"sqlite:1.db\"\n\n[limits]\ngraph_nodes = 3\n";
        fs::write(&target, text).unwrap();
        let config = Config::load(&target).unwrap();
        let left = remove_shard(&config, 1).unwrap();
        assert_eq!(Config::load(&target).unwrap(), left);
        let written = fs::read_to_string(&target).unwrap();
        assert_eq!(
            written,
            "deployment = \"d\" # ours\n\n[[shard]]\nid = 0\nurl = \"sqlite:0.db\"\n\n[limits]\ngraph_nodes = 3\n"
        );
        // It is not there any more.
        assert_eq!(remove_shard(&left, 1).unwrap(), left);
        // The last one stays, since a deployment without shards is none.
        let refusal = remove_shard(&left, 0).unwrap_err().to_string();
        assert!(refusal.contains("by hand"), "{refusal}");
        assert_eq!(fs::read_to_string(&target).unwrap(), written);
    }

    #[test]
    fn a_file_in_another_style_is_refused_with_what_to_add() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join(FILE_NAME);
        let text = "deployment = \"d\"\nshard = [{ id = 0, url = \"sqlite:0.db\" }]\n";
        fs::write(&target, text).unwrap();
        let config = Config::load(&target).unwrap();
        let new = [(1, StoreUrl::Sqlite("1.db".into()))];
        let refusal = add_shards(&config, &new).unwrap_err().to_string();
        assert!(refusal.contains("url = \"sqlite:1.db\""), "{refusal}");
        assert_eq!(fs::read_to_string(&target).unwrap(), text);
    }
}
