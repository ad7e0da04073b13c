//! Graphs of commands.

mod command;
mod file;
mod logs;
mod run;
mod view;

pub(crate) use self::file::{Definition, GraphFile};
pub(crate) use self::logs::{NodeLog, NodeState, recorded_graph};
pub(crate) use self::run::{Run, run};
pub(crate) use self::view::View;
