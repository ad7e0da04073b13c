//! Graphs whose nodes run through the local worker runtime, on real stores.

#[cfg(test)]
mod incident;
#[cfg(test)]
mod nested;
#[cfg(test)]
mod resume;
#[cfg(test)]
mod support;
