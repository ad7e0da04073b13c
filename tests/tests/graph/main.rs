//! Graphs whose nodes run through the local worker runtime, on real stores.

#[cfg(test)]
mod cancelling;
#[cfg(test)]
mod incident;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod nested;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod resume;
#[cfg(test)]
mod retrying;
#[cfg(test)]
mod support;
