//! The sharded store over memory stores: behaviour, faults, and what other systems got wrong.

mod conformance;
mod support;
