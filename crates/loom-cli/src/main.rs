#![doc = include_str!("../README.md")]

mod config;
mod export;
mod failure;
mod graph;
mod import;
mod jsonl;
mod output;
mod progress;
mod source;

fn main() {}
