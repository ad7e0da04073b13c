//! What became of a case.

use std::error::Error as _;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

use loom_spi::{InvalidExecutionId, InvalidRouteFilter, StoreError};

use crate::Need;

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The store showed the behaviour.
    Passed,
    /// It did not.
    Failed {
        /// Where in the suite, what was expected and what was found.
        message: String,
    },
    /// The case could not be tried.
    Skipped {
        /// What the store or its factory lacks.
        missing: Need,
    },
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Failed { message } => write!(f, "failed: {message}"),
            Self::Skipped { missing } => write!(f, "skipped: {missing} is missing"),
        }
    }
}

/// One case and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaseReport {
    /// The group of the case.
    pub group: &'static str,
    /// The name of the case.
    pub name: &'static str,
    /// What became of it.
    pub outcome: Outcome,
    /// How long it took.
    pub took: Duration,
}

/// Why a case ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    Failed(String),
    Skipped(Need),
}

/// What a case returns.
pub(crate) type Verdict = Result<(), Stop>;

impl Stop {
    /// A failure at the place of the caller.
    #[track_caller]
    pub(crate) fn failed(what: impl fmt::Display) -> Self {
        let place = Location::caller();
        let file = place.file().rsplit(['/', '\\']).next().unwrap_or_default();
        Self::Failed(format!("{file}:{}: {what}", place.line()))
    }
}

impl From<StoreError> for Stop {
    #[track_caller]
    fn from(error: StoreError) -> Self {
        let mut text = format!("unexpected error: {error}");
        let mut cause = error.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        Self::failed(text)
    }
}

impl From<InvalidExecutionId> for Stop {
    #[track_caller]
    fn from(error: InvalidExecutionId) -> Self {
        Self::failed(error)
    }
}

impl From<InvalidRouteFilter> for Stop {
    #[track_caller]
    fn from(error: InvalidRouteFilter) -> Self {
        Self::failed(error)
    }
}

/// Fails the case unless a condition holds.
macro_rules! check {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err($crate::outcome::Stop::failed(format_args!($($what)+)));
        }
    };
}
pub(crate) use check;

/// Fails the case unless the second value is the first.
macro_rules! check_eq {
    ($found:expr, $expected:expr, $($what:tt)+) => {
        match (&$found, &$expected) {
            (found, expected) => if *found != *expected {
                return Err($crate::outcome::Stop::failed(format_args!(
                    "{}: expected {expected:?}, found {found:?}", format_args!($($what)+),
                )));
            },
        }
    };
}
pub(crate) use check_eq;

/// Fails the case unless the result is a refusal of this kind.
macro_rules! check_refused {
    ($result:expr, $pattern:pat $(if $guard:expr)?, $($what:tt)+) => {
        match $result {
            Err(error) => $crate::outcome::check!(
                matches!(error.kind(), $pattern $(if $guard)?),
                "{}: expected a refusal as {}, got: {error}",
                format_args!($($what)+),
                stringify!($pattern),
            ),
            Ok(done) => return Err($crate::outcome::Stop::failed(format_args!(
                "{}: expected a refusal as {}, but it was done: {done:?}",
                format_args!($($what)+),
                stringify!($pattern),
            ))),
        }
    };
}
pub(crate) use check_refused;
