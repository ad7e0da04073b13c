//! That sound stores pass, that broken ones do not, and what a run makes of everything else.

#[cfg(test)]
mod broken;
#[cfg(test)]
mod dispatchers;
#[cfg(test)]
mod durable;
#[cfg(test)]
mod losses;
#[cfg(test)]
mod runner;
#[cfg(test)]
mod sound;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tape;
