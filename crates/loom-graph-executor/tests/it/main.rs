//! How graphs run over a dispatcher that does what the test says.

#[cfg(test)]
mod branches;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod scheduling;
#[cfg(test)]
mod support;
