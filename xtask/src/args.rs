//! What was asked for.

use std::ffi::OsString;
use std::fmt::Write as _;

use crate::step::Step;

/// A task and its options.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Help,
    Test(Selection),
    Conformance,
    Plans {
        /// Accept what differs.
        bless: bool,
    },
    Demo,
    Simulate(Schedules),
}

/// Which schedules of the simulation to run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Schedules {
    /// This one alone, with its trace if it fails.
    pub(crate) seed: Option<u64>,
    /// As many of each kind as this.
    pub(crate) count: Option<u64>,
}

/// Which steps of `test` to run, and how.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    /// In the order in which they run.
    pub(crate) steps: Vec<Step>,
    /// Stop at the first step that fails.
    pub(crate) fail_fast: bool,
}

/// Reads the command line, without the program's name.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Task, String> {
    let mut args = args
        .into_iter()
        .map(|arg| {
            arg.into_string()
                .map_err(|arg| format!("`{}` is not UTF-8", arg.display()))
        })
        .collect::<Result<Vec<_>, _>>()?
        .into_iter();
    let task = match args.next().as_deref() {
        None => return Err("no task given".to_owned()),
        Some("help" | "--help" | "-h") => Task::Help,
        Some("test") => return selection(args),
        Some("conformance") => Task::Conformance,
        Some("plans") => return plans(args),
        Some("demo") => Task::Demo,
        Some("simulate") => return simulate(args),
        Some(other) => {
            return Err(format!(
                "no task `{other}`: expected test, conformance, plans, demo, simulate or help"
            ));
        }
    };
    match args.next() {
        None => Ok(task),
        Some(help) if help == "--help" || help == "-h" => Ok(Task::Help),
        Some(extra) => Err(format!("unexpected argument `{extra}`")),
    }
}

fn plans(args: impl Iterator<Item = String>) -> Result<Task, String> {
    let mut bless = false;
    for arg in args {
        match arg.as_str() {
            "--help" | "-h" => return Ok(Task::Help),
            "--bless" => bless = true,
            extra => return Err(format!("unexpected argument `{extra}`")),
        }
    }
    Ok(Task::Plans { bless })
}

fn simulate(mut args: impl Iterator<Item = String>) -> Result<Task, String> {
    let mut schedules = Schedules::default();
    while let Some(arg) = args.next() {
        let value = match arg.as_str() {
            "--help" | "-h" => return Ok(Task::Help),
            "--seed" => &mut schedules.seed,
            "--schedules" => &mut schedules.count,
            extra => return Err(format!("unexpected argument `{extra}`")),
        };
        let number = args
            .next()
            .ok_or_else(|| format!("`{arg}` needs a number"))?;
        let number = number
            .parse()
            .map_err(|_| format!("`{arg}` needs a number, and `{number}` is none"))?;
        *value = Some(number);
    }
    Ok(Task::Simulate(schedules))
}

fn selection(mut args: impl Iterator<Item = String>) -> Result<Task, String> {
    let (mut only, mut skip, mut fail_fast) = (Vec::new(), Vec::new(), false);
    while let Some(arg) = args.next() {
        let list = match arg.as_str() {
            "--help" | "-h" => return Ok(Task::Help),
            "--fail-fast" => {
                fail_fast = true;
                continue;
            }
            "--only" => &mut only,
            "--skip" => &mut skip,
            other => return Err(format!("unexpected argument `{other}`")),
        };
        let names = args
            .next()
            .ok_or_else(|| format!("`{arg}` needs the names of steps"))?;
        for name in names.split(',') {
            list.push(Step::named(name)?);
        }
    }
    let mut steps = Step::ALL.to_vec();
    steps.retain(|step| (only.is_empty() || only.contains(step)) && !skip.contains(step));
    if steps.is_empty() {
        return Err("no step is left to run".to_owned());
    }
    Ok(Task::Test(Selection { steps, fail_fast }))
}

/// The text of `cargo xtask help`.
pub(crate) fn help() -> String {
    let mut text = String::from(
        "\
usage: cargo xtask <task>

  test [--only STEP,…] [--skip STEP,…] [--fail-fast]
                every check that CI makes, then a summary of all of them
  conformance   the conformance suite over every store
  plans [--bless]
                the plans in docs/examples/plans, and the summaries of their steps; --bless
                rewrites those
  demo          a sharded deployment under target/demo, and the incident graph over it
  simulate [--seed SEED] [--schedules N]
                the sharded store in a simulated world: N schedules of each of four kinds
                (default 600), or the one of a seed, with its trace if it fails
  help          this text

steps of test:
",
    );
    for step in Step::ALL {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {:<13} {}", step.name(), step.about());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task, String> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn steps(line: &str) -> Vec<Step> {
        match parsed(line) {
            Ok(Task::Test(selection)) => selection.steps,
            other => panic!("expected a test task, got {other:?}"),
        }
    }

    #[test]
    fn test_runs_every_step_unless_told_otherwise() {
        assert_eq!(steps("test"), Step::ALL);
        assert_eq!(steps("test --only doc,fmt"), [Step::Fmt, Step::Doc]);
        assert_eq!(steps("test --only doc --only fmt --skip fmt"), [Step::Doc]);
        assert!(!steps("test --skip deny").contains(&Step::Deny));
    }

    #[test]
    fn what_checks_a_step_again_runs_it() {
        for step in Step::ALL {
            let again = steps(&format!("test --only {}", step.again()));
            assert!(again.contains(&step), "{step:?}");
        }
    }

    #[test]
    fn plans_are_rewritten_only_where_that_is_asked_for() {
        assert_eq!(parsed("plans"), Ok(Task::Plans { bless: false }));
        assert_eq!(parsed("plans --bless"), Ok(Task::Plans { bless: true }));
    }

    #[test]
    fn a_schedule_is_replayed_by_its_seed() {
        let schedules = |seed, count| Ok(Task::Simulate(Schedules { seed, count }));
        assert_eq!(parsed("simulate"), schedules(None, None));
        assert_eq!(parsed("simulate --seed 7"), schedules(Some(7), None));
        assert_eq!(parsed("simulate --schedules 9"), schedules(None, Some(9)));
    }

    #[test]
    fn a_mistake_is_named() {
        for (line, expected) in [
            ("", "no task"),
            ("tset", "`tset`"),
            ("demo now", "`now`"),
            ("simulate --seed", "needs a number"),
            ("simulate --seed x", "`x` is none"),
            ("simulate 7", "`7`"),
            ("plans --blss", "`--blss`"),
            ("test --only", "needs the names"),
            ("test --only clipy", "`clipy`"),
            ("test --fast", "`--fast`"),
            ("test --only fmt --skip fmt", "no step is left"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(expected), "{line:?}: {error}");
        }
    }

    #[test]
    fn help_is_reachable_from_every_task_and_names_every_step() {
        for line in ["help", "--help", "test --help", "plans --help", "demo -h"] {
            assert_eq!(parsed(line), Ok(Task::Help), "{line}");
        }
        assert!(Step::ALL.iter().all(|step| help().contains(step.name())));
    }
}
