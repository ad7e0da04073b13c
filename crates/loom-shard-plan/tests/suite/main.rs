//! The crate as its users see it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod chain;
mod decision_figures;
mod examples;
mod fairness;
mod formats;
mod minimality;
mod mutation;
mod rebalance;
mod refusals;
mod routing;
mod transition;
