//! How the runtime that runs flows in its own process behaves.

#[cfg(test)]
mod cancelling;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod instances;
#[cfg(test)]
mod joining;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod outcomes;
#[cfg(test)]
mod platform;
#[cfg(test)]
mod resuming;
#[cfg(test)]
mod support;
