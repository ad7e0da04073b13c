#![doc = include_str!("../README.md")]

mod child_id;
mod error;
mod execute;
mod node;
mod options;
mod outcome;
mod run;
mod slots;
mod topology;

pub use child_id::{InvalidNodeKey, child_id};
pub use error::GraphError;
pub use execute::execute_graph;
pub use node::GraphNode;
pub use options::GraphOptions;
pub use outcome::{GraphEvent, GraphOutcome, NodeOutcome, NodeResult};
