//! How graphs run over a dispatcher that does what the test says.

#[cfg(test)]
mod branches;
#[cfg(test)]
mod expanding;
#[cfg(test)]
mod failing;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod retrying;
#[cfg(test)]
mod scheduling;
#[cfg(test)]
mod sharing;
#[cfg(test)]
mod support;
#[cfg(test)]
mod timing_out;
