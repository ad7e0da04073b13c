//! Tests of the store through its public interface, on real files.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod backup;
mod conformance;
mod durability;
mod group_commit;
mod kill;
mod kill_mover;
mod killed;
mod opening;
mod pages;
mod parts;
#[cfg(unix)]
mod read_only;
mod relocation;
mod several_handles;
mod space;
mod stored;
mod upgrade;
