//! The stores of the conformance matrix.

mod growing;
mod postgres;
mod sharded;
mod single;

use std::sync::Arc;

use loom_conformance::StoreFactory;

/// Every store that the project ships, and every way to put one together, by the name it has in the matrix. Those on
/// PostgreSQL are left out where that is not installed, which is said on standard error.
///
/// # Panics
/// Where it is not installed and `CI` is set.
#[must_use]
pub fn all() -> Vec<(&'static str, Arc<dyn StoreFactory>)> {
    let mut all: Vec<(&'static str, Arc<dyn StoreFactory>)> = vec![
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
    ];
    if loom_test_postgres::server_available() {
        all.extend([
            (
                "postgres",
                Arc::new(postgres::Postgres::new()) as Arc<dyn StoreFactory>,
            ),
            (
                "sharded postgres, three servers",
                Arc::new(postgres::Sharded::on_servers()),
            ),
            (
                "sharded sqlite and postgres",
                Arc::new(postgres::Sharded::mixed()),
            ),
        ]);
    }
    all
}
