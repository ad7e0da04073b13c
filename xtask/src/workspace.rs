//! Where the project is, and running commands in it.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::report;

/// The project's folder and what kind of machine works on it.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    ci: bool,
}

impl Workspace {
    /// The workspace that this program was built from. CI is what sets `CI=true`, as the common services do.
    pub(crate) fn from_environment() -> Self {
        let package = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let root = package.parent().map_or(package.clone(), Path::to_path_buf);
        let ci = env::var("CI").is_ok_and(|ci| !matches!(ci.as_str(), "" | "0" | "false"));
        Self { root, ci }
    }

    /// The folder with the workspace's `Cargo.toml`.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether a missing tool is a failure.
    pub(crate) fn is_ci(&self) -> bool {
        self.ci
    }

    /// Cargo, run at the root: the one that runs this program, so that the toolchain is the same.
    pub(crate) fn cargo(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(args).current_dir(&self.root);
        command
    }

    /// Whether `cargo NAME` is installed.
    pub(crate) fn has_cargo_command(&self, name: &str) -> bool {
        self.cargo(&[name, "--version"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    /// Builds a program of this workspace and says where it is.
    pub(crate) fn build(
        &self,
        package: &str,
        binary: &str,
        build: Build,
    ) -> Result<PathBuf, String> {
        run(&mut match build {
            Build::Alone => self.cargo(&["build", "--package", package, "--bin", binary]),
            Build::WithTests => {
                self.cargo(&["build", "--workspace", "--bins", "--tests", "--examples"])
            }
        })?;
        // Cargo puts all of them into one folder.
        let this =
            env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        Ok(this.with_file_name(format!("{binary}{}", env::consts::EXE_SUFFIX)))
    }

    /// A program, run at the root.
    pub(crate) fn program(&self, path: &Path) -> Command {
        let mut command = Command::new(path);
        command.current_dir(&self.root);
        // What it says of itself is then what one would type.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::arg0(&mut command, relative(path, &self.root));
        command
    }
}

/// How a program is built.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Build {
    /// Quickly, with the features that it needs.
    Alone,
    /// As the tests are, with the features that the whole workspace needs: dependencies are then built once for
    /// both.
    WithTests,
}

/// Shows a command, runs it to its end, and says what went wrong with it.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    report::say(format_args!("$ {}", shown(command)));
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{}` ended with {status}", shown(command))),
        Err(error) => Err(format!("cannot run `{}`: {error}", shown(command))),
    }
}

/// A command as one would type it.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let folder = command.get_current_dir().unwrap_or(Path::new(""));
    let name = match program.file_stem() {
        Some(stem) if stem == "cargo" => stem.display().to_string(),
        _ => relative(program, folder).display().to_string(),
    };
    let mut words: Vec<String> = command
        .get_envs()
        .filter_map(|(key, value)| Some(format!("{}={}", key.display(), quoted(value?))))
        .collect();
    words.push(name);
    words.extend(command.get_args().map(quoted));
    words.join(" ")
}

/// `path` as seen from `folder`.
pub(crate) fn relative<'a>(path: &'a Path, folder: &Path) -> &'a Path {
    path.strip_prefix(folder).unwrap_or(path)
}

fn quoted(word: &OsStr) -> String {
    let word = word.display().to_string();
    if word.is_empty() || word.contains(|c: char| c.is_whitespace() || "'\"$*\\".contains(c)) {
        format!("'{}'", word.replace('\'', r"'\''"))
    } else {
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("/opt/rust/bin/cargo");
        command
            .args(["doc", "--no-deps"])
            .env("RUSTDOCFLAGS", "-D warnings")
            .env_remove("INSTA_FORCE_PASS");
        assert_eq!(
            shown(&command),
            "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps"
        );
    }

    #[test]
    fn a_program_of_the_project_is_shown_as_seen_from_its_folder() {
        let workspace = Workspace::from_environment();
        let program = workspace.root().join("target/debug/loom");
        let mut command = workspace.program(&program);
        command.args(["init", "--dir", "target/my demo"]);
        assert_eq!(
            shown(&command),
            "target/debug/loom init --dir 'target/my demo'"
        );
    }

    #[test]
    fn a_command_that_fails_is_named_with_how_it_ended() {
        let workspace = Workspace::from_environment();
        let error = run(&mut workspace.cargo(&["no-such-command"])).unwrap_err();
        assert!(
            error.starts_with("`cargo no-such-command` ended with "),
            "{error}"
        );
        assert!(!workspace.has_cargo_command("no-such-command"));
        assert!(workspace.has_cargo_command("clippy"));
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = run(&mut Command::new("no-such-program")).unwrap_err();
        assert!(
            error.starts_with("cannot run `no-such-program`: "),
            "{error}"
        );
    }
}
