#![doc = include_str!("../README.md")]

mod args;
mod conformance;
mod demo;
mod deny;
mod lines;
mod plans;
mod postgres;
mod report;
mod simulate;
mod snapshots;
mod step;
mod test;
mod workspace;

use std::process::ExitCode;

use args::Task;
use workspace::{Build, Workspace};

fn main() -> ExitCode {
    let task = match args::parse(std::env::args_os().skip(1)) {
        Ok(task) => task,
        Err(message) => {
            report::say(format_args!("error: {message}\n\n{}", args::help()));
            return ExitCode::from(2);
        }
    };
    let workspace = Workspace::from_environment();
    let done = match task {
        Task::Help => {
            report::say(format_args!("{}", args::help()));
            true
        }
        Task::Test(selection) => test::run(&workspace, &selection),
        Task::Conformance => report::single(conformance::run(&workspace, Build::Alone)),
        Task::Plans { bless } => report::single(plans::run(&workspace, Build::Alone, bless)),
        Task::Simulate(schedules) => report::single(simulate::run(&workspace, &schedules)),
        Task::Demo => report::single(demo::run(&workspace)),
    };
    if done {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
