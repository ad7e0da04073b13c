#![doc = include_str!("../README.md")]

mod attempt;
mod cancel;
mod child_id;
mod driver;
mod earlier;
mod error;
mod execute;
mod limit;
mod manifest;
mod node;
mod options;
mod outcome;
mod retry;
mod run;
mod slots;
mod stop;
mod timer;
mod topology;

pub use attempt::timed_out;
pub use cancel::{CancelReport, cancel_descendants, cancel_tree};
pub use child_id::{InvalidNodeKey, attempt_id, child_id};
pub use error::GraphError;
pub use execute::execute_graph;
pub use limit::Limit;
pub use manifest::{GraphDifference, GraphManifest, InvalidManifest};
pub use node::GraphNode;
pub use options::{GraphOptions, OnFailure};
pub use outcome::{GraphEvent, GraphOutcome, NodeOutcome, NodeResult};
pub use retry::Retry;
pub use timer::Timer;
#[cfg(feature = "tokio")]
pub use timer::TokioTimer;
