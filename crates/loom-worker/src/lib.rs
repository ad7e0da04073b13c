#![doc = include_str!("../README.md")]

mod context;
mod error;
mod execute;
mod flow;
mod local;
mod running;

pub use context::{FlowContext, InputError};
pub use flow::FlowError;
pub use local::{LocalWorkerRuntime, LocalWorkerRuntimeBuilder};
