//! How a journal works.

use std::time::Duration;

/// How a journal works. The defaults suit most executions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalOptions {
    /// How many events are read at a time, at least 1. A replay keeps about a page in memory when the
    /// flow does one thing after another. Default 128.
    pub page_events: usize,
    /// How long the store's word that this is the writer is good for. A worker that was paused for longer,
    /// or whose flow computed for longer without recording anything, asks the store before it
    /// starts another effect. Zero asks before every effect. Default 1 s.
    pub confirm_after: Duration,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self {
            page_events: 128,
            confirm_after: Duration::from_secs(1),
        }
    }
}

impl JournalOptions {
    /// Sets [`page_events`](Self::page_events); 0 counts as 1.
    #[must_use]
    pub fn with_page_events(mut self, page_events: usize) -> Self {
        self.page_events = page_events;
        self
    }

    /// Sets [`confirm_after`](Self::confirm_after).
    #[must_use]
    pub fn with_confirm_after(mut self, confirm_after: Duration) -> Self {
        self.confirm_after = confirm_after;
        self
    }
}
