#![doc = include_str!("../README.md")]

mod append;
mod change;
mod connector;
mod delete;
mod failure;
mod fencing;
mod garbage;
mod group;
mod head;
mod import;
mod ledger;
mod lineage;
mod list;
mod location;
mod marks;
mod merge;
mod migrations;
mod open_failure;
mod options;
mod pool;
mod read;
mod record;
mod relocation;
mod remove;
mod session;
mod siblings;
mod staged;
mod store;
mod tls;

pub use location::{InvalidLocation, Location};
pub use migrations::SCHEMA_VERSION;
pub use open_failure::OpenFailure;
pub use options::Options;
pub use store::PostgresStore;
