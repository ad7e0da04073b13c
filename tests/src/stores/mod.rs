//! The stores of the conformance matrix.

mod growing;
mod sharded;
mod single;

use std::sync::Arc;

use loom_conformance::StoreFactory;

/// Every store that the project ships, and every way to put one together, by the name it has in the matrix.
#[must_use]
pub fn all() -> Vec<(&'static str, Arc<dyn StoreFactory>)> {
    vec![
        ("memory", Arc::new(single::Memory)),
        ("sqlite", Arc::new(single::Sqlite)),
        ("sharded memory, no plan", Arc::new(sharded::Unplanned)),
        ("sharded memory, plan", Arc::new(sharded::Planned)),
        ("sharded memory, migrating", Arc::new(sharded::Migrating)),
        (
            "sharded memory, growing meanwhile",
            Arc::new(growing::Growing),
        ),
        ("sharded sqlite, plan", Arc::new(sharded::PlannedSqlite)),
    ]
}
