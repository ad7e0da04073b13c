//! How a runtime of instances works.

use std::time::Duration;

use crate::WhenLeased;

/// How an [`InstanceWorkerRuntime`](crate::InstanceWorkerRuntime) works. The defaults suit processes of this
/// machine; a platform that is called over a network and counts calls wants
/// [`remote`](Self::remote) ones.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstanceOptions {
    /// Tells instances of several deployments on one platform apart: a part of what their names are made of.
    /// Default empty.
    pub scope: String,
    /// How long an execution may take, from the boot of its instance, before the instance is given up.
    /// Default one hour.
    pub deadline: Duration,
    /// How often the log is looked at for the outcome, at most: looks begin often and get rarer. Default 100 ms.
    pub poll_log: Duration,
    /// How often the platform is asked whether an instance lives: an instance that died is noticed so much later.
    /// Default 100 ms.
    pub observe: Duration,
    /// The first pause before a boot is tried again that the platform had no room for, or lost; it doubles
    /// with each, up to a hundred times as much. Default 100 ms.
    pub backoff: Duration,
    /// At most so many calls to the platform within any such time. Boots and stops go before looks, in the order in
    /// which they were asked for. Default: any number.
    pub quota: Option<(usize, Duration)>,
    /// How long the lease lasts that keeps others from running the same execution, between renewals. Default 10 s.
    pub lease: Duration,
    /// What is done with an execution that another runtime, or an instance of one, runs.
    pub when_leased: WhenLeased,
}

impl Default for InstanceOptions {
    fn default() -> Self {
        Self {
            scope: String::new(),
            deadline: Duration::from_secs(3600),
            poll_log: Duration::from_millis(100),
            observe: Duration::from_millis(100),
            backoff: Duration::from_millis(100),
            quota: None,
            lease: Duration::from_secs(10),
            when_leased: WhenLeased::default(),
        }
    }
}

impl InstanceOptions {
    /// For platforms that are called over a network: the log is looked at every second, an instance every half
    /// minute, and there are at most 60 calls a minute.
    #[must_use]
    pub fn remote() -> Self {
        Self {
            poll_log: Duration::from_secs(1),
            observe: Duration::from_secs(30),
            backoff: Duration::from_secs(1),
            quota: Some((60, Duration::from_secs(60))),
            ..Self::default()
        }
    }

    /// Sets [`scope`](Self::scope).
    #[must_use]
    pub fn with_scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = scope.into();
        self
    }

    /// Sets [`deadline`](Self::deadline).
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets [`poll_log`](Self::poll_log).
    #[must_use]
    pub fn with_poll_log(mut self, poll_log: Duration) -> Self {
        self.poll_log = poll_log;
        self
    }

    /// Sets [`observe`](Self::observe).
    #[must_use]
    pub fn with_observe(mut self, observe: Duration) -> Self {
        self.observe = observe;
        self
    }

    /// Sets [`backoff`](Self::backoff).
    #[must_use]
    pub fn with_backoff(mut self, backoff: Duration) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets [`quota`](Self::quota); 0 calls count as 1.
    #[must_use]
    pub fn with_quota(mut self, calls: usize, per: Duration) -> Self {
        self.quota = Some((calls, per));
        self
    }

    /// Sets [`lease`](Self::lease).
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets [`when_leased`](Self::when_leased).
    #[must_use]
    pub fn with_when_leased(mut self, when_leased: WhenLeased) -> Self {
        self.when_leased = when_leased;
        self
    }
}
