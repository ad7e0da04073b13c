//! How a store is opened.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use loom_spi::{Limits, ShardIdentity, Timestamp};

/// How [`SqliteStore::open`](crate::SqliteStore::open) and [`SqliteStore::create`](crate::SqliteStore::create) treat
/// the file. The defaults are safe.
///
/// ```
/// use std::time::Duration;
/// use loom_spi::{DeploymentId, ShardIdentity};
/// use loom_store_sqlite::Options;
///
/// let third = ShardIdentity::new(DeploymentId::new("orders")?, 2);
/// let options = Options::new().with_identity(third).with_busy_timeout(Duration::from_secs(1));
/// # let _ = options;
/// # Ok::<(), loom_spi::InvalidExecutionId>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Options {
    pub(crate) identity: Option<ShardIdentity>,
    pub(crate) durability: Durability,
    pub(crate) busy_timeout: Duration,
    pub(crate) readers: usize,
    pub(crate) inline_reads: bool,
    pub(crate) queue: usize,
    pub(crate) idle_vacuum: Option<Duration>,
    pub(crate) limits: Limits,
    pub(crate) clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            identity: None,
            durability: Durability::Full,
            busy_timeout: Duration::from_secs(5),
            readers: thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 4)),
            inline_reads: true,
            queue: 1024,
            idle_vacuum: Some(Duration::from_secs(5)),
            limits: Limits::default(),
            clock: Clock::system(),
        }
    }
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Which shard of which deployment the file is: written by `create`, verified by `open`. Without it
    /// `create` makes a store that belongs to no deployment yet, and `open` verifies nothing.
    pub fn with_identity(mut self, identity: impl Into<Option<ShardIdentity>>) -> Self {
        self.identity = identity.into();
        self
    }

    /// What an acknowledged write survives. Default [`Durability::Full`].
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How long to wait for another process that holds the file locked, before the answer is `Unavailable`.
    /// Default 5 seconds, at most 24 days; more is taken as that. A write waits that long once for every group of
    /// writes ahead of it.
    pub fn with_busy_timeout(mut self, timeout: Duration) -> Self {
        // SQLite counts milliseconds in 32 bits.
        self.busy_timeout = timeout.min(Duration::from_secs(24 * 24 * 60 * 60));
        self
    }

    /// How many reads run at the same time, each on a thread and a connection of its own that start when they are
    /// needed: 1 to 64; what is out of range is taken as the nearest bound. Default: one for each core, 2 to 4.
    pub fn with_readers(mut self, readers: usize) -> Self {
        self.readers = readers.clamp(1, 64);
        self
    }

    /// Whether a look at a few rows (a head, a page of at most 256 events) is taken on the thread that asks for it while
    /// the file seems to be in memory. That takes a fraction of the time that a thread of the store would, but at most one
    /// in 256 such looks may hold up an async thread for as long as the disk needs for a few pages. Default `true`.
    pub fn with_inline_reads(mut self, inline: bool) -> Self {
        self.inline_reads = inline;
        self
    }

    /// How many writes may wait for the writer before callers are held back: 1 to 65,536; what is out of range is
    /// taken as the nearest bound. Default 1,024.
    pub fn with_queue(mut self, writes: usize) -> Self {
        self.queue = writes.clamp(1, 1 << 16);
        self
    }

    /// After how long without a write by this handle the store begins to give space of deleted logs back to the file
    /// system, by itself and in small steps: a write that comes meanwhile waits for no more than 16 pages, and a sixteenth
    /// of the file may stay free for what is stored next. `None`: never, only
    /// [`release_space`](crate::SqliteStore::release_space) does. Default 5 seconds.
    pub fn with_idle_vacuum(mut self, after: impl Into<Option<Duration>>) -> Self {
        self.idle_vacuum = after.into();
        self
    }

    /// What an append may carry.
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The clock by which leases lapse, for tests and simulations. Default: the system's clock, which all
    /// processes that share a file share as well.
    pub fn with_clock(mut self, now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Clock(Arc::new(now));
        self
    }
}

/// What an acknowledged write survives. In every mode each write is all or nothing, and the file stays consistent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A crash of the process, of the system, and a loss of power (`synchronous=FULL`): the log is synced before an
    /// append is acknowledged.
    #[default]
    Full,
    /// A crash of the process only (`synchronous=NORMAL`). When the system crashes or power is lost, the last
    /// appends **are lost although they were acknowledged**. For scratch data.
    MayLoseAcknowledgedWrites,
}

impl Durability {
    pub(crate) fn synchronous(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::MayLoseAcknowledgedWrites => "NORMAL",
        }
    }
}

/// What time it is.
#[derive(Clone)]
pub(crate) struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    fn system() -> Self {
        Self(Arc::new(Timestamp::now))
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
