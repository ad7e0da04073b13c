//! How a journal works.

use std::time::Duration;

use loom_spi::FenceToken;

/// How a journal works. The defaults suit most executions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalOptions {
    /// How many events are read at a time, at least 1. A replay keeps about a page in memory when the
    /// flow does one thing after another. Default 128.
    pub page_events: usize,
    /// How long the store's word that this is the writer is good for. A worker that was paused for longer,
    /// or whose flow computed for longer without recording anything, asks the store before it
    /// starts another effect. Zero asks before every effect; never longer than half a lease. Default 1 s.
    pub confirm_after: Duration,
    /// How long the lease lasts that is taken with the fence: for so long after its last renewal nobody else
    /// opens the execution, unless on purpose. Effects renew it, and whoever waits within an
    /// effect has [`keep_lease`](crate::ExecutionJournal::keep_lease) run beside it. `None` takes no
    /// lease: whoever opens the execution takes it over. At least 1 ms. Default 10 s.
    pub lease: Option<Duration>,
    /// Who asks for the lease, for the messages that others get: 1 to 255 bytes. A lease keeps out others
    /// than its holder, so it names one worker. Default: this process.
    pub holder: Option<String>,
    /// Take the execution over although another worker's lease runs. Default `false`.
    pub take_over: bool,
    /// The fence that was taken for this journal: it is not taken again. The journal is refused as
    /// taken over when somebody else took it since. Default `None`.
    pub token: Option<FenceToken>,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self {
            page_events: 128,
            confirm_after: Duration::from_secs(1),
            lease: Some(Duration::from_secs(10)),
            holder: None,
            take_over: false,
            token: None,
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

    /// Sets [`lease`](Self::lease).
    #[must_use]
    pub fn with_lease(mut self, lease: impl Into<Option<Duration>>) -> Self {
        self.lease = lease.into();
        self
    }

    /// Sets [`holder`](Self::holder).
    #[must_use]
    pub fn with_holder(mut self, holder: impl Into<String>) -> Self {
        self.holder = Some(holder.into());
        self
    }

    /// Sets [`take_over`](Self::take_over).
    #[must_use]
    pub fn with_take_over(mut self, take_over: bool) -> Self {
        self.take_over = take_over;
        self
    }

    /// Sets [`token`](Self::token).
    #[must_use]
    pub fn with_token(mut self, token: impl Into<Option<FenceToken>>) -> Self {
        self.token = token.into();
        self
    }
}
