//! The store over real servers.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod conformance;
mod faults;
mod opening;
mod proxy;
mod support;
mod tls;
