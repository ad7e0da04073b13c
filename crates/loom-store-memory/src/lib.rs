#![doc = include_str!("../README.md")]

mod builder;
mod clock;
mod event_store;
mod fencing;
mod ledger;
mod lineage;
mod record;
mod store;
mod stripes;

pub use builder::MemoryStoreBuilder;
pub use clock::{Clock, ManualClock, MonotonicClock};
pub use store::MemoryStore;
