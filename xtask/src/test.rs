//! `cargo xtask test`.

use std::time::Instant;

use crate::args::Selection;
use crate::report::{self, Line};
use crate::step::{Outcome, Step};
use crate::workspace::{Build, Workspace};

/// Runs the steps, shows the summary, and says whether all is well.
pub(crate) fn run(workspace: &Workspace, selection: &Selection) -> bool {
    let build = if selection.steps.contains(&Step::Test) {
        Build::WithTests
    } else {
        Build::Alone
    };
    let mut lines: Vec<Line> = Vec::new();
    for &step in &selection.steps {
        report::heading(step);
        let tests_passed = lines
            .iter()
            .any(|line| line.step == Step::Test && line.outcome == Outcome::Passed);
        let started = Instant::now();
        let outcome = step.run(workspace, build, tests_passed);
        lines.push(Line {
            step,
            outcome,
            took: started.elapsed(),
        });
        if selection.fail_fast && !report::is_well(&lines, workspace.is_ci()) {
            break;
        }
    }
    let not_run = selection.steps.get(lines.len()..).unwrap_or_default();
    report::summary(&lines, not_run, workspace.is_ci());
    report::is_well(&lines, workspace.is_ci())
}
