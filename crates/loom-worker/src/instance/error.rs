//! Why no outcome came from an instance.

use std::time::Duration;

use crate::PlatformError;

/// Why a runtime of instances could not learn the outcome of an execution. It is the source of a
/// [`DispatchError::Runtime`](loom_spi::DispatchError::Runtime).
///
/// In each case the execution was fenced, so that an instance that runs on or boots late can write nothing more,
/// and dispatching it again goes on from its log, with a new instance.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstanceError {
    /// The store has no fences, without which a late instance could not be kept out.
    #[error("its store has no fences: an instance that boots late could not be kept out")]
    NoFencing,
    /// The platform did not boot it.
    #[error("instance `{name}` was not booted: {source}")]
    NotBooted {
        /// The instance.
        name: String,
        /// What the platform said.
        source: PlatformError,
    },
    /// Whether it was booted is not known, and could not be looked up either. No second one was booted.
    #[error(
        "instance `{name}` may have been booted: the platform said `{said}`, and could not be asked: {source}"
    )]
    BootUnknown {
        /// The instance.
        name: String,
        /// What the platform said to the boot.
        said: String,
        /// What it said to the look-up.
        source: PlatformError,
    },
    /// An instance of the name is there that this runtime did not boot.
    #[error("instance `{name}` is somebody else's: it carries {}, expected the mark `{mark}`", Carried(carried.as_deref()))]
    SomebodyElses {
        /// The instance.
        name: String,
        /// The mark that ours would carry.
        mark: String,
        /// The mark that it carries.
        carried: Option<String>,
    },
    /// It ended, or vanished, and the execution's log does not say how the execution ended.
    #[error("instance `{name}` is gone and recorded no outcome (the platform says: {how})")]
    Lost {
        /// The instance.
        name: String,
        /// In the platform's words.
        how: String,
    },
    /// There was no outcome in time.
    #[error("instance `{name}` recorded no outcome within {} s", after.as_secs_f64())]
    Deadline {
        /// The instance.
        name: String,
        /// The time that it had.
        after: Duration,
    },
}

struct Carried<'a>(Option<&'a str>);

impl std::fmt::Display for Carried<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(mark) => write!(f, "the mark `{mark}`"),
            None => f.write_str("no mark"),
        }
    }
}
