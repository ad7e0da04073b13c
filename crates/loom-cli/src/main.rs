#![doc = include_str!("../README.md")]

mod config;
mod failure;
mod jsonl;
mod source;

fn main() {}
