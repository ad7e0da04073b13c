//! `cargo xtask plans`: the committed plans, and the committed summaries of their steps.
//!
//! It does with the command what any user of plans can do in CI; see `docs/guides/review-a-rebalance.md`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::lines;
use crate::report::say;
use crate::workspace::{Build, Workspace};

const FOLDER: &str = "docs/examples/plans";

/// Checks the plans; with `bless` writes what is derived from them.
pub(crate) fn run(workspace: &Workspace, build: Build, bless: bool) -> Result<(), String> {
    let program = workspace.build("loom-cli", "loom", build)?;
    let loom = |args: &[&str]| {
        let output = workspace
            .program(&program)
            .args(args)
            .output()
            .map_err(|error| format!("cannot run {}: {error}", program.display()))?;
        Ok(Ran {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    };
    let plans = Plans {
        root: workspace.root(),
        folder: FOLDER,
        loom: &loom,
        bless,
    };
    let checked = plans.check()?;
    for finding in &checked.findings {
        say(format_args!("{finding}\n"));
    }
    for written in &checked.written {
        say(format_args!("wrote {written}"));
    }
    say(format_args!(
        "{} plans and {} steps in {FOLDER}",
        checked.plans, checked.steps
    ));
    match checked.findings.len() {
        0 => Ok(()),
        1 => Err(format!("1 problem in {FOLDER}, shown above")),
        many => Err(format!("{many} problems in {FOLDER}, shown above")),
    }
}

/// What the command said.
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// A folder of plans, `HISTORY-EPOCH.plan`, in which every plan follows the one before it in its history,
/// and the step is summarised in `HISTORY-EPOCH.diff`.
struct Plans<'a> {
    root: &'a Path,
    /// Below the root.
    folder: &'a str,
    /// Runs `loom` at the root.
    loom: &'a dyn Fn(&[&str]) -> Result<Ran, String>,
    bless: bool,
}

/// What came out.
#[derive(Debug, Default, PartialEq, Eq)]
struct Checked {
    plans: usize,
    steps: usize,
    findings: Vec<String>,
    /// Files that were written or removed to make it right.
    written: Vec<String>,
}

impl Plans<'_> {
    fn check(&self) -> Result<Checked, String> {
        let files = self.files()?;
        let mut checked = Checked::default();
        let mut before: Option<Plan<'_>> = None;
        let mut summaries = BTreeSet::new();
        for file in files.iter().filter_map(|file| file.strip_suffix(".plan")) {
            checked.plans += 1;
            let Some(plan) = self.plan(file, &mut checked)? else {
                // What is wrong with it is told; its neighbours cannot be compared with it.
                summaries.insert(file);
                before = None;
                continue;
            };
            if let Some(before) = before.filter(|before| before.history == plan.history) {
                checked.steps += 1;
                summaries.insert(file);
                self.step(&before, &plan, &mut checked)?;
            }
            before = Some(plan);
        }
        if checked.plans == 0 {
            return Err(format!("there are no plans in {}", self.folder));
        }
        for file in files.iter().filter_map(|file| file.strip_suffix(".diff")) {
            if !summaries.contains(file) {
                self.left_over(file, &mut checked)?;
            }
        }
        Ok(checked)
    }

    /// One plan by itself: its name, whether it is one, and whether it is written as plans are.
    fn plan<'f>(&self, file: &'f str, checked: &mut Checked) -> Result<Option<Plan<'f>>, String> {
        let path = format!("{}/{file}.plan", self.folder);
        let Some(plan) = Plan::named(file) else {
            checked.findings.push(format!(
                "{path}: expected a name like orders-0002.plan: HISTORY-EPOCH"
            ));
            return Ok(None);
        };
        let shown = (self.loom)(&["plan", "show", &path, "--format", "text"])?;
        if shown.code != Some(0) {
            checked.findings.push(shown.stderr.trim_end().to_owned());
            return Ok(None);
        }
        if !shown.stdout.contains(&format!("\nepoch {}\n", plan.epoch)) {
            checked.findings.push(format!(
                "{path}: expected a plan of epoch {}, as its name says",
                plan.epoch
            ));
        }
        self.compare(
            &path,
            &shown.stdout,
            "is not written as `loom plan` writes it",
            checked,
        )?;
        Ok(Some(plan))
    }

    /// From one plan to the next: whether that is legal, and whether it is what was reviewed.
    fn step(&self, now: &Plan<'_>, next: &Plan<'_>, checked: &mut Checked) -> Result<(), String> {
        let path = |plan: &Plan<'_>| format!("{}/{}.plan", self.folder, plan.file);
        let diff = (self.loom)(&["plan", "diff", &path(now), &path(next)])?;
        if diff.code != Some(0) {
            checked
                .findings
                .push(format!("{}{}", diff.stdout, diff.stderr.trim_end()));
            return Ok(());
        }
        let summary = format!("{}/{}.diff", self.folder, next.file);
        self.compare(
            &summary,
            &diff.stdout,
            "is not what the step does now",
            checked,
        )
    }

    /// Compares a file with what it should be; with `bless` makes it so.
    fn compare(
        &self,
        path: &str,
        expected: &str,
        problem: &str,
        checked: &mut Checked,
    ) -> Result<(), String> {
        let file = self.root.join(path);
        let found = match fs::read_to_string(&file) {
            Ok(found) if found == expected => return Ok(()),
            found => found.ok(),
        };
        if self.bless {
            fs::write(&file, expected).map_err(|error| format!("cannot write {path}: {error}"))?;
            checked.written.push(path.to_owned());
            return Ok(());
        }
        checked.findings.push(match found {
            Some(found) => format!("{path} {problem}:\n{}", lines::diff(&found, expected)),
            None => format!("{path} is missing:\n{}", lines::diff("", expected)),
        });
        Ok(())
    }

    fn left_over(&self, file: &str, checked: &mut Checked) -> Result<(), String> {
        let path = format!("{}/{file}.diff", self.folder);
        if self.bless {
            fs::remove_file(self.root.join(&path))
                .map_err(|error| format!("cannot remove {path}: {error}"))?;
            checked.written.push(format!("{path} (removed)"));
        } else {
            checked.findings.push(format!(
                "{path} is left over: no plan of that name follows another"
            ));
        }
        Ok(())
    }

    /// The names in the folder, in order.
    fn files(&self) -> Result<Vec<String>, String> {
        let describe = |error| format!("cannot read {}: {error}", self.folder);
        let mut files = Vec::new();
        for entry in fs::read_dir(self.root.join(self.folder)).map_err(describe)? {
            files.push(
                entry
                    .map_err(describe)?
                    .file_name()
                    .to_string_lossy()
                    .into_owned(),
            );
        }
        files.sort();
        Ok(files)
    }
}

/// What the name of a plan says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan<'a> {
    file: &'a str,
    history: &'a str,
    epoch: u64,
}

impl<'a> Plan<'a> {
    fn named(file: &'a str) -> Option<Self> {
        let (history, epoch) = file.rsplit_once('-')?;
        // Of equal length, so that the order of names is that of epochs.
        let epoch = (epoch.len() == 4).then(|| epoch.parse().ok())??;
        Some(Self {
            file,
            history,
            epoch,
        })
    }
}

#[cfg(test)]
mod tests;
