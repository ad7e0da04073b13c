//! The behaviours, a file for each group.

pub(crate) mod acquisitions;
pub(crate) mod append;
pub(crate) mod branch_races;
pub(crate) mod branches;
pub(crate) mod cancellation;
pub(crate) mod capabilities;
pub(crate) mod concurrency;
pub(crate) mod delete;
pub(crate) mod durability;
pub(crate) mod epochs;
pub(crate) mod errors;
pub(crate) mod fence_races;
pub(crate) mod fencing;
pub(crate) mod forgetting;
pub(crate) mod fuzz;
pub(crate) mod head;
pub(crate) mod identifiers;
pub(crate) mod leases;
pub(crate) mod ledger;
pub(crate) mod limits;
pub(crate) mod list;
mod operations;
pub(crate) mod pages;
mod random;
pub(crate) mod read;
pub(crate) mod routes;
pub(crate) mod terminal;
