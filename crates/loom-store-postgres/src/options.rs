//! How a store is opened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use loom_spi::{Limits, ShardIdentity};

/// How [`PostgresStore::open`](crate::PostgresStore::open) and [`PostgresStore::create`](crate::PostgresStore::create)
/// treat the server. The defaults are safe.
///
/// ```
/// use std::time::Duration;
/// use loom_spi::{DeploymentId, ShardIdentity};
/// use loom_store_postgres::Options;
///
/// let third = ShardIdentity::new(DeploymentId::new("orders")?, 2);
/// let options = Options::new().with_identity(third).with_statement_timeout(Duration::from_secs(5));
/// # let _ = options;
/// # Ok::<(), loom_spi::InvalidExecutionId>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Options {
    pub(crate) identity: Option<ShardIdentity>,
    pub(crate) connections: usize,
    pub(crate) wait_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) statement_timeout: Duration,
    pub(crate) publish_timeout: Duration,
    pub(crate) queue: usize,
    pub(crate) limits: Limits,
    pub(crate) clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            identity: None,
            connections: 8,
            wait_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(30),
            publish_timeout: Duration::from_secs(5),
            queue: 1024,
            limits: Limits::default(),
            clock: Clock(Arc::new(|| Duration::ZERO)),
        }
    }
}

/// A day: what PostgreSQL counts in milliseconds has to fit 32 bits, and nobody wants to wait longer.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

fn bounded(timeout: Duration) -> Duration {
    timeout.clamp(Duration::from_millis(1), LONGEST)
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Which shard of which deployment the schema is: written by `create`, verified by `open` and whenever a connection
    /// is made anew. Without it `create` makes a store that belongs to no deployment yet, and `open` verifies only that
    /// it stays the same one.
    pub fn with_identity(mut self, identity: impl Into<Option<ShardIdentity>>) -> Self {
        self.identity = identity.into();
        self
    }

    /// The most connections at a time: 1 to 1,000; what is out of range is taken as the nearest bound. They are made when
    /// they are needed. Default 8.
    pub fn with_connections(mut self, connections: usize) -> Self {
        self.connections = connections.clamp(1, 1000);
        self
    }

    /// How long a request waits for a connection that others use, before the answer is `Unavailable`. Default 10 seconds;
    /// 1 millisecond to a day, as with the other timeouts.
    pub fn with_wait_timeout(mut self, timeout: Duration) -> Self {
        self.wait_timeout = bounded(timeout);
        self
    }

    /// How long making a connection may take. Default 10 seconds.
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = bounded(timeout);
        self
    }

    /// How long the server may work on one statement, and wait for locks in it, before it gives up and the answer is
    /// `Unavailable`. A server that does not answer at all is given up 5 seconds after that. Default 30 seconds.
    pub fn with_statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement_timeout = bounded(timeout);
        self
    }

    /// How long publishing a plan waits for the changes that are under way. Those that come meanwhile wait behind it.
    /// Default 5 seconds.
    pub fn with_publish_timeout(mut self, timeout: Duration) -> Self {
        self.publish_timeout = bounded(timeout);
        self
    }

    /// How many appends may wait to be grouped before callers are held back: 1 to 65,536; what is out of range is taken
    /// as the nearest bound. Default 1,024.
    pub fn with_queue(mut self, appends: usize) -> Self {
        self.queue = appends.clamp(1, 1 << 16);
        self
    }

    /// What an append may carry.
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How far leases are judged to be ahead of the server's clock, for tests and simulations. Default: not at all.
    pub fn with_clock_ahead(
        mut self,
        ahead: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Self {
        self.clock = Clock(Arc::new(ahead));
        self
    }
}

/// What is added to the server's clock.
#[derive(Clone)]
pub(crate) struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Clock {
    pub(crate) fn ahead(&self) -> i64 {
        i64::try_from((self.0)().as_millis()).unwrap_or(i64::MAX)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
