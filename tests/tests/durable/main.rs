//! Durable execution by real processes: killed at any moment, paused, and run twice at once.
//!
//! `LOOM_DURABLE_ROUNDS` says how many processes are killed (default 25), `LOOM_DURABLE_SEED` where.

#[cfg(test)]
#[cfg(feature = "cloud-run")]
mod admin_api;
#[cfg(test)]
mod claims;
#[cfg(test)]
#[cfg(feature = "cloud-run")]
mod cloud_run;
#[cfg(test)]
mod crashes;
#[cfg(test)]
mod dispatchers;
#[cfg(test)]
mod policies;
#[cfg(test)]
mod rivals;
#[cfg(test)]
mod world;
