//! How a command ends when it does not do what was asked.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use loom_spi::{BoxError, DispatchError, StoreError, StoreErrorKind};

/// The exit codes that scripts rely on; 0 is success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It was tried and did not succeed.
    Failed = 1,
    /// Wrong usage or bad input: it can never succeed as it was asked.
    Usage = 2,
    /// It would not be safe.
    Refused = 3,
    /// A store could not be reached.
    Unreachable = 4,
}

/// What is printed on stderr, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    help: Option<String>,
    cause: Option<BoxError>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            help: None,
            cause: None,
        }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(Exit::Refused, message)
    }

    /// A file or a stream that could not be read or written.
    pub(crate) fn io(what: &str, path: &Path, error: io::Error) -> Self {
        Self::failed(format!("cannot {what} `{}`", path.display())).with_cause(error)
    }

    /// Says what to do about it.
    #[must_use]
    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    #[must_use]
    pub(crate) fn with_cause(mut self, cause: impl Into<BoxError>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Says what was being done.
    #[must_use]
    pub(crate) fn context(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// Without the help, for one that says what else to do.
    pub(crate) fn without_help(mut self) -> Self {
        self.help = None;
        self
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    pub(crate) fn cause(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &dyn Error)
    }

    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(self.exit as u8)
    }
}

/// What to do about a shard that is more than one epoch behind.
pub(crate) fn repair_help(shard: u16) -> String {
    format!(
        "shard {shard} was restored from an old backup, or is the wrong file: `loom repair {shard}` shows what it holds and brings it back"
    )
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        let mut cause = self.cause();
        // A layer that repeats the text of the one above it says nothing.
        let mut said = self.message.clone();
        while let Some(error) = cause {
            let text = error.to_string();
            if !said.contains(&text) {
                write!(f, "\n  because: {text}")?;
                said = text;
            }
            cause = error.source();
        }
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let behind = match (error.kind(), error.shard()) {
            (StoreErrorKind::ShardBehind { .. }, Some(shard)) => Some(repair_help(shard)),
            _ => None,
        };
        let (exit, help) = match error.kind() {
            StoreErrorKind::ShardBehind { .. } => (Exit::Refused, None),
            StoreErrorKind::Unavailable { .. } => (Exit::Unreachable, None),
            StoreErrorKind::InvalidArgument { .. } => (Exit::Usage, None),
            StoreErrorKind::Fenced { .. } => (
                Exit::Refused,
                Some("another writer took this execution over, and only it may write"),
            ),
            StoreErrorKind::Leased { .. } => (
                Exit::Refused,
                Some("another process runs it: wait for it to end, or for its lease to lapse"),
            ),
            StoreErrorKind::WrongShard { .. } => (
                Exit::Refused,
                Some(
                    "check the urls in loom.toml: two may be swapped, or a file was replaced; a shard that was wiped is \
                     restored from a backup and then repaired with `loom repair ID`, or given up with `loom shard abandon ID` once nothing is \
                     at its url any more",
                ),
            ),
            StoreErrorKind::StalePlan { .. } | StoreErrorKind::PublishConflict { .. } => (
                Exit::Refused,
                Some("another process changed the plan meanwhile: run the command again"),
            ),
            _ => (Exit::Failed, None),
        };
        let mut failure = Self::new(exit, error.to_string());
        failure.help = behind.or_else(|| help.map(str::to_owned));
        failure.cause = Some(error.into());
        failure
    }
}

impl From<DispatchError> for Failure {
    fn from(error: DispatchError) -> Self {
        let message = error.to_string();
        match error {
            DispatchError::Store { source, .. } => {
                let inner = Self::from(source);
                Self {
                    message: format!("{message}: {}", inner.message),
                    ..inner
                }
            }
            DispatchError::IdTaken { .. } | DispatchError::TakenOver { .. } => {
                Self::refused(message).with_cause(error)
            }
            DispatchError::InvalidRequest { .. } => Self::usage(message).with_cause(error),
            _ => Self::failed(message).with_cause(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom_spi::Operation;

    #[test]
    fn a_store_that_cannot_be_reached_is_told_apart_from_one_that_refuses() {
        let exit = |kind| Failure::from(StoreError::new(Operation::Read, kind)).exit();
        let unavailable = StoreErrorKind::Unavailable {
            reason: "no such file".into(),
            outcome_known: true,
        };
        assert_eq!(exit(unavailable), Exit::Unreachable);
        assert_eq!(exit(StoreErrorKind::NotFound), Exit::Failed);
        let leased = StoreErrorKind::Leased {
            holder: "h".into(),
            remaining: std::time::Duration::from_secs(3),
        };
        assert_eq!(exit(leased), Exit::Refused);
    }

    #[test]
    fn causes_are_told_once_and_help_comes_last() {
        let inner = io::Error::other("disk on fire");
        let failure = Failure::io("read", Path::new("a.db"), inner).with_help("put it out");
        assert_eq!(
            failure.to_string(),
            "error: cannot read `a.db`\n  because: disk on fire\n  help: put it out"
        );
        let repeated = Failure::failed("disk on fire").with_cause(io::Error::other("disk on fire"));
        assert_eq!(repeated.to_string(), "error: disk on fire");
    }
}
