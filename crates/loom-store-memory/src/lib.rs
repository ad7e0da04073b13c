#![doc = include_str!("../README.md")]

mod arrivals;
mod builder;
mod clock;
mod event_store;
mod fencing;
mod ledger;
mod lineage;
mod pages;
mod record;
mod relocation;
mod store;
mod stripes;

pub use builder::MemoryStoreBuilder;
pub use clock::{Clock, ManualClock, MonotonicClock};
pub use store::MemoryStore;
