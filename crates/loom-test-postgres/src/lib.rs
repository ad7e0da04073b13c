#![doc = include_str!("../README.md")]
#![allow(clippy::print_stderr, reason = "tests that are skipped have to say so")]

mod cluster;
mod guard;
mod programs;
mod shared;

pub use cluster::{Cluster, Settings, StartError};
pub use shared::{INSTALL, Server, available, server, server_available, unique_name};
