//! What a platform has to do for a runtime of instances, and no more.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use loom_spi::{BoxError, ExecutionId, FenceToken};
use xxhash_rust::xxh3::Xxh3;

/// Boots, observes and stops instances: processes, containers, machines. What their work came to it need not know,
/// and is not asked: that stands in the execution's log.
///
/// # Contract
/// - [`boot`](Self::boot) is idempotent by the instance's [name](Instance::name): there is never more than one
///   of a name, and a second boot of it is refused as [`PlatformErrorKind::Exists`].
/// - An instance is told its [environment](Instance::env), and runs a program that ends with
///   [`run_assigned`](crate::LocalWorkerRuntime::run_assigned).
/// - An error says whether it may have been accepted: what is not known is
///   [`PlatformErrorKind::Unknown`], never `Refused`.
#[async_trait]
pub trait ComputePlatform: fmt::Debug + Send + Sync + 'static {
    /// Asks for an instance. Returns when that was accepted, which may be long before it runs.
    ///
    /// # Errors
    /// [`PlatformError`], of any kind.
    ///
    /// # Cancel safety
    /// A dropped call may still take effect.
    async fn boot(&self, instance: &Instance) -> Result<(), PlatformError>;

    /// Looks at an instance.
    ///
    /// # Errors
    /// [`PlatformError`] when that could not be learnt. An instance that is not there is no error.
    ///
    /// # Cancel safety
    /// Changes nothing.
    async fn observe(&self, instance: &Instance) -> Result<Observation, PlatformError>;

    /// Stops an instance, or keeps it from starting. Stopping one that has ended, or is not there, succeeds.
    ///
    /// # Errors
    /// [`PlatformError`] when it may still be running.
    ///
    /// # Cancel safety
    /// A dropped call may still take effect.
    async fn stop(&self, instance: &Instance) -> Result<(), PlatformError>;

    /// Removes what is left of an instance that has ended or is about to: its outcome is known. Does nothing where
    /// nothing is left.
    ///
    /// # Errors
    /// [`PlatformError`] when something may still be there. Nobody tries again.
    ///
    /// # Cancel safety
    /// A dropped call may still take effect.
    async fn forget(&self, instance: &Instance) -> Result<(), PlatformError>;
}

/// One instance that runs one execution, once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Instance {
    /// Its name: 37 lower-case letters, digits and hyphens, the first of them a letter. It follows from scope,
    /// execution and token, so that whoever asks twice asks for the same one.
    pub name: String,
    /// Tells it from others that have the same name by accident: 32 hexadecimal digits, to be attached to
    /// it as a label, or however the platform does that.
    pub mark: String,
    /// The execution.
    pub execution: ExecutionId,
    /// The fence that was taken for it.
    pub token: FenceToken,
    /// The code that it runs.
    pub flow: String,
}

/// The environment variable that tells an instance its execution.
pub(crate) const EXECUTION: &str = "LOOM_EXECUTION";
/// The environment variable that tells an instance its token.
pub(crate) const TOKEN: &str = "LOOM_FENCE";

impl Instance {
    pub(crate) fn new(
        scope: &str,
        execution: ExecutionId,
        token: FenceToken,
        flow: impl Into<String>,
    ) -> Self {
        let hash = |purpose: &str| {
            let mut hash = Xxh3::new();
            for part in [purpose, scope, execution.as_str()] {
                hash.update(&(part.len() as u64).to_le_bytes());
                hash.update(part.as_bytes());
            }
            hash.update(&token.0.to_le_bytes());
            format!("{:032x}", hash.digest128())
        };
        Self {
            name: format!("loom-{}", hash("name")),
            mark: hash("mark"),
            execution,
            token,
            flow: flow.into(),
        }
    }

    /// The environment variables by which an instance knows what to run: see [`Assignment`](crate::Assignment).
    #[must_use]
    pub fn env(&self) -> [(&'static str, String); 2] {
        [
            (EXECUTION, self.execution.to_string()),
            (TOKEN, self.token.to_string()),
        ]
    }
}

/// What a platform says about an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Observation {
    /// How it is.
    pub state: InstanceState,
    /// The [mark](Instance::mark) that it carries, where it is there and carries one.
    pub mark: Option<String>,
}

impl Observation {
    /// There is no instance of the name.
    #[must_use]
    pub fn absent() -> Self {
        Self {
            state: InstanceState::Absent,
            mark: None,
        }
    }

    /// There is one, with this mark.
    #[must_use]
    pub fn new(state: InstanceState, mark: impl Into<Option<String>>) -> Self {
        Self {
            state,
            mark: mark.into(),
        }
    }
}

/// How an instance is, in the platform's opinion.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InstanceState {
    /// There is none of that name.
    Absent,
    /// It is starting, or runs.
    Live,
    /// It has ended.
    Ended {
        /// In the platform's words: a status, an exit code.
        how: String,
    },
}

/// Why a platform did not do what was asked.
#[derive(Debug)]
pub struct PlatformError {
    kind: PlatformErrorKind,
    message: String,
    source: Option<BoxError>,
}

/// Kinds of errors of platforms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlatformErrorKind {
    /// An instance of that name is there already.
    Exists,
    /// Not now, and nothing was done: too many calls, too little room. Try again, not before this time if
    /// one is given.
    Busy {
        /// How long the platform asks to wait.
        retry_after: Option<Duration>,
    },
    /// It is not known whether it was done.
    Unknown,
    /// It was not done, and trying again does not help.
    Refused,
}

impl PlatformError {
    /// An error of a kind, in words.
    #[must_use]
    pub fn new(kind: PlatformErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// Keeps the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Of which kind it is.
    #[must_use]
    pub fn kind(&self) -> PlatformErrorKind {
        self.kind
    }
}

impl fmt::Display for PlatformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for PlatformError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_named_after_what_it_runs_and_by_whose_leave() {
        let instance = |scope: &str, id: &str, token| {
            Instance::new(scope, ExecutionId::new(id).unwrap(), FenceToken(token), "f")
        };
        let first = instance("", "order-7", 3);
        assert_eq!(first, instance("", "order-7", 3));
        assert_ne!(first.name[5..], first.mark);
        for other in [
            instance("", "order-7", 4),
            instance("", "order-8", 3),
            instance("x", "order-7", 3),
            instance("order", "-7", 3),
        ] {
            assert_ne!(first.name, other.name);
            assert_ne!(first.mark, other.mark);
        }
        assert_eq!(first.name.len(), 37);
        // Written down: whoever looks for the instances of an earlier version has to find them.
        assert!(first.name.starts_with("loom-"));
    }
}
