#![doc = include_str!("../README.md")]

mod context;
mod error;
mod execute;
mod flow;
mod instance;
mod join;
mod keeper;
mod local;
mod open;
mod platforms;
mod running;

/// The guide's code.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/first-flow.md")]
mod first_flow {}

pub use context::{FlowContext, InputError};
pub use flow::FlowError;
pub use instance::{
    Assignment, AssignmentError, ComputePlatform, Instance, InstanceError, InstanceOptions,
    InstanceState, InstanceWorkerRuntime, Observation, PlatformError, PlatformErrorKind,
};
pub use local::{LocalWorkerRuntime, LocalWorkerRuntimeBuilder};
pub use open::{WhenLeased, open_when_free};
#[cfg(feature = "cloud-run")]
pub use platforms::CloudRun;
#[cfg(all(unix, feature = "os-process"))]
pub use platforms::OsProcess;
