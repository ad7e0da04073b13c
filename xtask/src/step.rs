//! The steps of `cargo xtask test`.

use std::path::PathBuf;
use std::process::Command;

use crate::workspace::{Build, Workspace, run};
use crate::{conformance, deny, plans, postgres, snapshots};

/// One check. The tests come last but for what builds on them, so that their own closing lines stand
/// right above the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Fmt,
    Deny,
    Clippy,
    Doc,
    Doctest,
    Postgres,
    Conformance,
    Plans,
    Test,
    CloudRun,
    Snapshots,
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// It found something, or could not be run.
    Failed {
        /// What went wrong.
        reason: String,
    },
    /// The tool for it is not installed.
    Missing {
        /// How to install it.
        install: String,
    },
}

impl From<Result<(), String>> for Outcome {
    fn from(result: Result<(), String>) -> Self {
        match result {
            Ok(()) => Self::Passed,
            Err(reason) => Self::Failed { reason },
        }
    }
}

impl Step {
    /// In the order in which they run.
    pub(crate) const ALL: [Self; 11] = [
        Self::Fmt,
        Self::Deny,
        Self::Clippy,
        Self::Doc,
        Self::Doctest,
        Self::Postgres,
        Self::Conformance,
        Self::Plans,
        Self::Test,
        Self::CloudRun,
        Self::Snapshots,
    ];

    /// What it is called on the command line and in the summary.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Deny => "deny",
            Self::Clippy => "clippy",
            Self::Doc => "doc",
            Self::Doctest => "doctest",
            Self::Postgres => "postgres",
            Self::Conformance => "conformance",
            Self::Plans => "plans",
            Self::Test => "test",
            Self::CloudRun => "cloud-run",
            Self::Snapshots => "snapshots",
        }
    }

    /// What it checks.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::Fmt => "the code is formatted",
            Self::Deny => "dependencies: bans, licences, sources (cargo-deny, offline)",
            Self::Clippy => "no lint warns, in any target",
            Self::Doc => "the documentation builds without warnings",
            Self::Doctest => "the examples in the documentation run",
            Self::Postgres => "PostgreSQL is there, so that no test of it is skipped",
            Self::Conformance => "every store passes the conformance suite",
            Self::Plans => {
                "the committed plans are legal steps, and their summaries are up to date"
            }
            Self::Test => "the tests pass, those of layering and tidiness included",
            Self::CloudRun => "instances that are jobs of Cloud Run, on a server of this machine",
            Self::Snapshots => "no snapshot is pending, none is left over",
        }
    }

    /// What to do when it fails.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Self::Fmt => "run `cargo fmt --all`",
            Self::Deny => "fix the dependency, or give the exception and its reason in deny.toml",
            Self::Clippy | Self::Doc => "fix the warnings above",
            Self::Doctest | Self::Test | Self::CloudRun => "fix the failures above",
            Self::Postgres => "install PostgreSQL",
            Self::Conformance => "see the matrix above, and target/conformance.md",
            Self::Plans => {
                "mend the plan, or accept what is shown above with `cargo xtask plans --bless`"
            }
            Self::Snapshots => "review with `cargo insta review`, or remove the files",
        }
    }

    /// The steps that have to run to check it again.
    pub(crate) fn again(self) -> &'static str {
        match self {
            // Only the tests know which snapshots are used.
            Self::Snapshots => "test,snapshots",
            _ => self.name(),
        }
    }

    /// The step called `name`.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|step| step.name() == name)
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::name).join(", ");
                format!("no step `{name}`: expected one of {names}")
            })
    }

    /// Runs it. Programs are built in the way of `build`. `tests_passed` says whether the tests have passed in
    /// this run: only then is it known which snapshots are used.
    pub(crate) fn run(self, workspace: &Workspace, build: Build, tests_passed: bool) -> Outcome {
        let cargo = |args: &[&str]| workspace.cargo(args);
        match self {
            Self::Fmt => run(&mut cargo(&["fmt", "--all", "--check"])).into(),
            Self::Deny => deny::run(workspace),
            Self::Clippy => run(&mut cargo(&[
                "clippy",
                "--workspace",
                "--all-targets",
                "--keep-going",
                "--",
                "-D",
                "warnings",
            ]))
            .into(),
            Self::Doc => run(cargo(&["doc", "--workspace", "--no-deps", "--keep-going"])
                .env("RUSTDOCFLAGS", "-D warnings"))
            .into(),
            Self::Doctest => run(&mut cargo(&[
                "test",
                "--workspace",
                "--doc",
                "--no-fail-fast",
            ]))
            .into(),
            Self::Postgres => postgres::check(),
            Self::Conformance => conformance::run(workspace, build).into(),
            Self::Plans => plans::run(workspace, build, false).into(),
            Self::Test => tests(workspace).into(),
            // Its dependencies are many: nothing else builds them.
            Self::CloudRun => run(&mut cargo(&[
                "test",
                "--package",
                "loom-tests",
                "--features",
                "cloud-run",
                "--test",
                "durable",
                "cloud_run",
            ]))
            .into(),
            Self::Snapshots => {
                let used = tests_passed.then(|| references(workspace));
                snapshots::check(workspace.root(), used.as_deref()).into()
            }
        }
    }
}

/// Runs the tests, with nextest where it is installed.
fn tests(workspace: &Workspace) -> Result<(), String> {
    let references = references(workspace);
    snapshots::clear_references(&references)?;
    let mut command: Command = if workspace.has_cargo_command("nextest") {
        workspace.cargo(&["nextest", "run", "--workspace"])
    } else {
        workspace.cargo(&[
            "test",
            "--workspace",
            "--tests",
            "--examples",
            "--no-fail-fast",
        ])
    };
    // A snapshot that differs fails its test and is not written.
    run(command
        .env("INSTA_UPDATE", "no")
        .env("INSTA_SNAPSHOT_REFERENCES_FILE", &references)
        .env_remove("INSTA_FORCE_PASS"))
}

/// Where the tests write down which snapshots they used.
fn references(workspace: &Workspace) -> PathBuf {
    workspace.root().join("target/snapshot-references.txt")
}
