#![doc = include_str!("../README.md")]

mod app;
mod args;
mod backend;
mod commands;
mod config;
mod deployment;
mod export;
mod failure;
mod graph;
mod import;
mod jsonl;
mod output;
mod plan;
mod progress;
mod sides;
mod source;
mod staged;

use std::process::ExitCode;

fn main() -> ExitCode {
    app::main()
}
