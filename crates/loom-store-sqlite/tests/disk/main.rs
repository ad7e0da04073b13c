//! The store on a disk that loses power, fills up and fails: a layer below SQLite keeps apart what was written and what was
//! synced.

#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod disk;
mod faults;
mod layer;
mod power_cut;
mod work;
