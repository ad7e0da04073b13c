//! The sharded store over memory stores: behaviour, faults, and what other systems got wrong.

mod conformance;
mod deletes;
mod moves;
mod resolution;
mod routing;
mod support;
