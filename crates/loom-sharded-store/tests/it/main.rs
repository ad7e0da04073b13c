//! The sharded store over memory stores: behaviour, faults, and what other systems got wrong.

#[cfg(test)]
mod abandon;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod creation_races;
#[cfg(test)]
mod deletes;
#[cfg(test)]
mod draining;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod incidents;
#[cfg(test)]
mod ledgers;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod moves;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod repair;
#[cfg(test)]
mod resolution;
#[cfg(test)]
mod routing;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod support;
