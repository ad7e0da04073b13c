#![doc = include_str!("../README.md")]

mod dormant;
mod effect;
mod encode;
mod error;
mod fork;
mod hold;
mod journal;
mod lease;
mod log;
mod open;
mod options;
mod outcome;
mod replay;
mod run;
mod scope;
mod slot;
mod start;
mod wire;

pub use dormant::{DormantEnd, cancel_dormant};
pub use error::{Difference, EffectFailure, EffectFailureKind, JournalError};
pub use fork::fork;
pub use hold::this_process;
pub use journal::ExecutionJournal;
pub use options::JournalOptions;
pub use outcome::{read_anchor, read_outcome};
pub use scope::JournalScope;
pub use slot::IdempotencyKey;
pub use start::Anchor;
pub use wire::FORMAT_VERSION;
