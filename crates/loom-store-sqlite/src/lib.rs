#![doc = include_str!("../README.md")]

mod append;
mod at_once;
mod backup;
mod delete;
#[cfg(test)]
mod explain;
mod failure;
mod fencing;
mod file;
mod head;
mod import;
mod ledger;
mod lineage;
mod list;
mod marks;
mod merge;
mod open_failure;
mod options;
mod read;
mod reader;
mod readers;
mod record;
mod records;
mod relocation;
mod schema;
mod space;
mod staged;
mod store;
mod upgrade;
mod vacuum;
mod verify;
mod writer;

pub use backup::{ShardCopy, back_up};
pub use open_failure::OpenFailure;
pub use options::{Durability, Options};
pub use schema::{APPLICATION_ID, SCHEMA_VERSION};
pub use space::Space;
pub use store::SqliteStore;
pub use verify::{Verified, verify};
