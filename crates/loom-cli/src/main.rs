#![doc = include_str!("../README.md")]

mod config;
mod export;
mod failure;
mod import;
mod jsonl;
mod output;
mod progress;
mod source;

fn main() {}
