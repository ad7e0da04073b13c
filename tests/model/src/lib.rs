#![doc = include_str!("../README.md")]

mod check;
mod node;
mod op;
mod plan;
mod rule;
mod scenario;
mod scenarios;
mod seq;
mod shard;
mod state;
mod table;
mod trace;
mod truth;

pub use check::{Report, explore};
pub use rule::{Rule, Rules};
pub use scenario::Scenario;
pub use scenarios::{Sweep, all as scenarios, everybody, large};
pub use table::{Finding, TABLE, Verdict};
pub use trace::Trace;
