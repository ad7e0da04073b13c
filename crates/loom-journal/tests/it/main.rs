//! How a journal behaves on a store that fails in every way in which stores fail.

#[cfg(test)]
mod crash;
#[cfg(test)]
mod dormant;
#[cfg(test)]
mod doubt;
#[cfg(test)]
mod effects;
#[cfg(test)]
mod ending;
#[cfg(test)]
mod forking;
#[cfg(test)]
mod format;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod opening;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod support;
#[cfg(test)]
mod takeover;
