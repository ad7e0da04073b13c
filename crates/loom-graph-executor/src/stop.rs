//! Telling a running graph to stop.

use std::sync::OnceLock;

/// Whether a graph is to stop, and why. Whoever sets it wakes those who look at it.
#[derive(Debug, Default)]
pub(crate) struct Stop<'a> {
    reason: OnceLock<String>,
    /// That of the graph in whose node this one runs.
    outer: Option<&'a Stop<'a>>,
}

impl<'a> Stop<'a> {
    pub(crate) fn within(outer: &'a Stop<'a>) -> Self {
        Self {
            reason: OnceLock::new(),
            outer: Some(outer),
        }
    }

    /// The first reason counts.
    pub(crate) fn set(&self, reason: String) {
        // An error means that there is one.
        let _ = self.reason.set(reason);
    }

    pub(crate) fn reason(&self) -> Option<&str> {
        match self.reason.get() {
            Some(reason) => Some(reason),
            None => self.outer?.reason(),
        }
    }
}
