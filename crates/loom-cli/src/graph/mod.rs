//! Graphs of commands.

mod command;
mod file;
mod logs;
mod picture;
mod policy;
mod run;
mod view;
mod workers;

pub(crate) use self::file::{Definition, GraphFile};
pub(crate) use self::logs::{NodeLog, NodeState, recorded_graph};
pub(crate) use self::picture::{Drawn, Picture};
pub(crate) use self::run::{Run, Setting, cancel, local_workers, run};
pub(crate) use self::view::View;
pub(crate) use self::workers::{Placement, journal_options};
