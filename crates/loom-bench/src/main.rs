#![doc = include_str!("../README.md")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what it is for"
)]

mod plan;
mod report;
mod timing;

use std::process::ExitCode;

use report::Row;

/// Measures one suite.
type Suite = fn() -> Vec<Row>;

/// What can be measured, by name.
const SUITES: &[(&str, Suite)] = &[("plan", plan::run)];

fn main() -> ExitCode {
    let mut json = false;
    let mut wanted = None;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--json" => json = true,
            name if wanted.is_none() && !name.starts_with('-') => wanted = Some(name.to_owned()),
            other => return usage(&format!("unexpected argument `{other}`")),
        }
    }
    let Some(wanted) = wanted else {
        return usage("which suite?");
    };
    let suites: Vec<_> = SUITES
        .iter()
        .filter(|(name, _)| wanted == "all" || wanted == *name)
        .collect();
    if suites.is_empty() {
        return usage(&format!("there is no suite `{wanted}`"));
    }
    let rows: Vec<Row> = suites.iter().flat_map(|(_, run)| run()).collect();
    if json {
        match serde_json::to_string_pretty(&rows) {
            Ok(text) => println!("{text}"),
            Err(error) => {
                eprintln!("loom-bench: cannot write the rows: {error}");
                return ExitCode::FAILURE;
            }
        }
    } else {
        print!("{}", report::table(&rows));
    }
    ExitCode::SUCCESS
}

fn usage(problem: &str) -> ExitCode {
    let names: Vec<_> = SUITES.iter().map(|(name, _)| *name).collect();
    eprintln!(
        "loom-bench: {problem}\nusage: loom-bench {}|all [--json]",
        names.join("|")
    );
    ExitCode::from(2)
}
