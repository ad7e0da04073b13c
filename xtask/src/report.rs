//! What the reader sees.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write as _};
use std::time::Duration;

use crate::step::{Outcome, Step};

/// A line of the summary.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) step: Step,
    pub(crate) outcome: Outcome,
    pub(crate) took: Duration,
}

/// Whether nothing failed. In CI a missing tool is a failure.
pub(crate) fn is_well(lines: &[Line], ci: bool) -> bool {
    lines.iter().all(|line| !failed(&line.outcome, ci))
}

fn failed(outcome: &Outcome, ci: bool) -> bool {
    match outcome {
        Outcome::Passed => false,
        Outcome::Failed { .. } => true,
        Outcome::Missing { .. } => ci,
    }
}

/// Announces a step.
pub(crate) fn heading(step: Step) {
    say(format_args!("\n== {}: {}", step.name(), step.about()));
}

/// Shows the outcome of every step, and what to do about those that failed.
pub(crate) fn summary(lines: &[Line], not_run: &[Step], ci: bool) {
    say(format_args!(
        "\n{}",
        rendered(lines, not_run, ci, colours())
    ));
}

/// Shows what went wrong with a task that is a single step, and says whether all is well.
pub(crate) fn single(result: Result<(), String>) -> bool {
    if let Err(reason) = &result {
        say(format_args!("error: {reason}"));
    }
    result.is_ok()
}

/// Prints a line. A reader that has gone away is no reason to stop checking.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

fn rendered(lines: &[Line], not_run: &[Step], ci: bool, colours: bool) -> String {
    let mut text = format!("{:<12} {:<8} {:>8}\n", "step", "result", "seconds");
    let mut advice = String::new();
    for Line {
        step,
        outcome,
        took,
    } in lines
    {
        let (word, colour) = match outcome {
            Outcome::Passed => ("ok", "32"),
            Outcome::Failed { reason } => {
                let (name, remedy, again) = (step.name(), step.remedy(), step.again());
                let _ = writeln!(
                    advice,
                    "{name}: {reason}\n  {remedy}; `cargo xtask test --only {again}` checks again"
                );
                ("FAILED", "31")
            }
            Outcome::Missing { install } => {
                let _ = writeln!(advice, "{}: not checked: {install}", step.name());
                ("missing", if ci { "31" } else { "33" })
            }
        };
        // Padded before it is coloured: escapes have no width.
        let mut word = format!("{word:<8}");
        if colours {
            word = format!("\x1b[{colour}m{word}\x1b[0m");
        }
        let seconds = took.as_secs_f64();
        let _ = writeln!(text, "{:<12} {word} {seconds:>8.1}", step.name());
    }
    for step in not_run {
        let _ = writeln!(text, "{:<12} {:<8} {:>8}", step.name(), "not run", "-");
    }
    let _ = write!(text, "\n{advice}{}", verdict(lines, ci));
    text
}

fn verdict(lines: &[Line], ci: bool) -> String {
    let seconds = lines
        .iter()
        .map(|line| line.took)
        .sum::<Duration>()
        .as_secs();
    let names = |wanted: &dyn Fn(&Outcome) -> bool| {
        let names: Vec<_> = lines
            .iter()
            .filter(|line| wanted(&line.outcome))
            .map(|line| line.step.name())
            .collect();
        names.join(", ")
    };
    let bad = names(&|outcome| failed(outcome, ci));
    if !bad.is_empty() {
        return format!("xtask test: FAILED after {seconds} s: {bad}");
    }
    let missing = names(&|outcome| matches!(outcome, Outcome::Missing { .. }));
    if missing.is_empty() {
        match lines {
            [only] => format!("xtask test: {} passed in {seconds} s", only.step.name()),
            all => format!("xtask test: all {} steps passed in {seconds} s", all.len()),
        }
    } else {
        format!("xtask test: passed in {seconds} s, but not checked: {missing}")
    }
}

/// Colours on a terminal, unless `NO_COLOR` is set; `CARGO_TERM_COLOR` decides where it is set.
fn colours() -> bool {
    match std::env::var("CARGO_TERM_COLOR").as_deref() {
        Ok("always") => true,
        Ok("never") => false,
        _ => {
            io::stdout().is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(step: Step, outcome: Outcome) -> Line {
        let took = Duration::from_millis(1250);
        Line {
            step,
            outcome,
            took,
        }
    }

    fn failed() -> Outcome {
        let reason = "`cargo clippy` ended with exit status: 101".to_owned();
        Outcome::Failed { reason }
    }

    fn missing() -> Outcome {
        let install = "install cargo-deny".to_owned();
        Outcome::Missing { install }
    }

    #[test]
    fn a_good_run_ends_with_one_line_that_says_so() {
        let lines = [line(Step::Fmt, Outcome::Passed)];
        let text = rendered(&lines, &[], false, false);
        assert_eq!(
            text,
            "step         result    seconds\n\
             fmt          ok            1.2\n\
             \n\
             xtask test: fmt passed in 1 s"
        );
        assert!(is_well(&lines, true));
    }

    #[test]
    fn a_failure_says_what_happened_what_to_do_and_how_to_check_again() {
        let lines = [
            line(Step::Fmt, Outcome::Passed),
            line(Step::Clippy, failed()),
        ];
        let text = rendered(&lines, &[Step::Doc], false, false);
        for expected in [
            "clippy       FAILED",
            "doc          not run",
            "ended with exit status: 101",
            "fix the warnings above; `cargo xtask test --only clippy` checks again",
            "xtask test: FAILED after 2 s: clippy",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in:\n{text}");
        }
        assert!(!is_well(&lines, false));
    }

    #[test]
    fn a_missing_tool_is_told_locally_and_fails_ci() {
        let lines = [line(Step::Deny, missing())];
        let text = rendered(&lines, &[], false, false);
        assert!(
            text.ends_with("passed in 1 s, but not checked: deny"),
            "{text}"
        );
        assert!(text.contains("install cargo-deny"), "{text}");
        assert!(is_well(&lines, false));

        let text = rendered(&lines, &[], true, false);
        assert!(text.ends_with("FAILED after 1 s: deny"), "{text}");
        assert!(!is_well(&lines, true));
    }

    #[test]
    fn colours_change_nothing_but_colours() {
        let lines = [
            line(Step::Fmt, Outcome::Passed),
            line(Step::Clippy, failed()),
            line(Step::Deny, missing()),
        ];
        let coloured = rendered(&lines, &[], false, true);
        let stripped = ["31", "32", "33", "0"]
            .iter()
            .fold(coloured.clone(), |text, code| {
                text.replace(&format!("\x1b[{code}m"), "")
            });
        assert_ne!(coloured, stripped);
        assert_eq!(stripped, rendered(&lines, &[], false, false));
    }
}
