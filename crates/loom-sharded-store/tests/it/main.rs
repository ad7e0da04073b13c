//! The sharded store over memory stores: behaviour, faults, and what other systems got wrong.

mod conformance;
mod deletes;
mod draining;
mod ledgers;
mod lists;
mod moves;
mod plans;
mod resolution;
mod routing;
mod simulation;
mod support;
