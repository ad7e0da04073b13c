#![doc = include_str!("../README.md")]

mod append;
mod delete;
#[cfg(test)]
mod explain;
mod failure;
mod fencing;
mod file;
mod head;
mod ledger;
mod lineage;
mod list;
mod open_failure;
mod options;
mod read;
mod reader;
mod readers;
mod record;
mod schema;
mod store;
mod writer;

pub use open_failure::OpenFailure;
pub use options::{Durability, Options};
pub use schema::{APPLICATION_ID, SCHEMA_VERSION};
pub use store::SqliteStore;
