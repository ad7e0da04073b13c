//! Why a journal refuses or stops.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use loom_spi::{ExecutionId, StoreError, StoreErrorKind};

/// Why a journal could not be opened, or did not do what was asked.
///
/// Cheap to clone. Some errors stop the journal for good ([`halts`](Self::halts)): every later call then
/// returns the same error, and nothing more is appended, so that a flow that swallows an error cannot
/// record a result that rests on it. Opening the execution again goes on from its log.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// What the execution is to be started with can never be recorded.
    #[error("cannot start execution `{id}`: {reason}")]
    InvalidStart {
        /// The execution.
        id: ExecutionId,
        /// What is wrong with it and what was expected.
        reason: String,
    },
    /// The log was begun for something else.
    #[error("execution `{id}` was begun for something else: {difference}; use another id")]
    IdTaken {
        /// The execution.
        id: ExecutionId,
        /// What differs.
        difference: Difference,
    },
    /// The log has an event that no journal writes.
    #[error(
        "the log of execution `{id}` was not written by a journal: the event at sequence {sequence} is a `{kind}`; use another id"
    )]
    NotAJournal {
        /// The execution.
        id: ExecutionId,
        /// Where the event stands.
        sequence: u64,
        /// Its kind.
        kind: String,
    },
    /// The log is in a newer format.
    #[error(
        "the event at sequence {sequence} of execution `{id}` is in version {version} of the journal format, and this build knows version {known}: use a newer build",
        known = crate::FORMAT_VERSION
    )]
    UnsupportedVersion {
        /// The execution.
        id: ExecutionId,
        /// Where the event stands.
        sequence: u64,
        /// The version it is in.
        version: u64,
    },
    /// An event of the log breaks the format.
    #[error(
        "the event at sequence {sequence} of execution `{id}` breaks the journal format: {reason}"
    )]
    Corrupt {
        /// The execution.
        id: ExecutionId,
        /// Where the event stands.
        sequence: u64,
        /// What was found and what was expected.
        reason: String,
    },
    /// The flow asks for something else than what it did when it ran before: its code changed, or it
    /// depends on something that is not recorded.
    #[error(
        "execution `{id}` does not repeat what it did before: sequence {sequence} records effect `{recorded}`, but now the flow {}; run the code that wrote the log, or use another id", Requested(requested.as_deref())
    )]
    NonDeterminism {
        /// The execution.
        id: ExecutionId,
        /// The key of the effect in the log.
        recorded: String,
        /// The key of the effect that the flow asks for in its place; `None` when the flow ends without
        /// asking for it.
        requested: Option<String>,
        /// Where the record stands.
        sequence: u64,
    },
    /// An effect that must not run twice was begun before, and no result of it was recorded. It may
    /// have happened.
    #[error(
        "effect `{key}` of execution `{id}` was begun (sequence {sequence}) and may have happened: it is not run again; find out, then decide"
    )]
    OutcomeUnknown {
        /// The execution.
        id: ExecutionId,
        /// The effect's key.
        key: String,
        /// Where its intent is recorded.
        sequence: u64,
    },
    /// The effect failed, and that is recorded: it is not run again.
    #[error("effect `{key}` of execution `{id}` failed (sequence {sequence}): {failure}")]
    EffectFailed {
        /// The execution.
        id: ExecutionId,
        /// The effect's key.
        key: String,
        /// Where that is recorded.
        sequence: u64,
        /// How.
        failure: EffectFailure,
    },
    /// The recorded result of an effect cannot be read as the type that the flow expects.
    #[error(
        "the result of effect `{key}` of execution `{id}` (sequence {sequence}) is not what the flow expects"
    )]
    ResultType {
        /// The execution.
        id: ExecutionId,
        /// The effect's key.
        key: String,
        /// Where the result is recorded.
        sequence: u64,
        /// What does not fit.
        #[source]
        source: Arc<serde_json::Error>,
    },
    /// The key of an effect or the name of its scope cannot be recorded.
    #[error("cannot run an effect of execution `{id}`: {reason}")]
    InvalidName {
        /// The execution.
        id: ExecutionId,
        /// What is wrong with it and what was expected.
        reason: String,
    },
    /// The output of the execution is no JSON.
    #[error("the output of execution `{id}` cannot be written as JSON")]
    NotJson {
        /// The execution.
        id: ExecutionId,
        /// What is in the way.
        #[source]
        source: Arc<serde_json::Error>,
    },
    /// The output of the execution is larger than its store accepts; it will not shrink by trying again.
    #[error(
        "the output of execution `{id}` makes an event of {bytes} bytes: its store takes at most {limit}; store it elsewhere and return where"
    )]
    TooLarge {
        /// The execution.
        id: ExecutionId,
        /// The size of the event's payload, in bytes.
        bytes: usize,
        /// The most that the store accepts, in bytes.
        limit: usize,
    },
    /// The execution has ended: nothing can follow its terminal event.
    #[error("execution `{id}` has ended: nothing can follow its terminal event")]
    Finished {
        /// The execution.
        id: ExecutionId,
    },
    /// Another worker has the execution open, and its lease has not lapsed.
    #[error(
        "execution `{id}` is run by `{holder}`, whose lease lasts another {} ms unless it is renewed: wait, or take it over on purpose",
        remaining.as_millis()
    )]
    Leased {
        /// The execution.
        id: ExecutionId,
        /// Who runs it, in that worker's words.
        holder: String,
        /// When its lease lapses if that worker has died, from now, by the store's clock.
        remaining: Duration,
    },
    /// Another writer took the execution over.
    #[error("execution `{id}` was taken over by another writer{}", At(*sequence))]
    TakenOver {
        /// The execution.
        id: ExecutionId,
        /// The first event that the other one is known to have written, if any is.
        sequence: Option<u64>,
        /// What the store said, when it was the store that said so.
        #[source]
        source: Option<Arc<StoreError>>,
    },
    /// The store refused or could not be reached.
    #[error("the store did not do what the journal of execution `{id}` asked")]
    Store {
        /// The execution.
        id: ExecutionId,
        /// What the store said.
        #[source]
        source: Arc<StoreError>,
    },
}

impl JournalError {
    /// The execution that it is about.
    #[must_use]
    pub fn execution(&self) -> &ExecutionId {
        match self {
            Self::InvalidStart { id, .. }
            | Self::IdTaken { id, .. }
            | Self::NotAJournal { id, .. }
            | Self::UnsupportedVersion { id, .. }
            | Self::Corrupt { id, .. }
            | Self::NonDeterminism { id, .. }
            | Self::OutcomeUnknown { id, .. }
            | Self::EffectFailed { id, .. }
            | Self::ResultType { id, .. }
            | Self::InvalidName { id, .. }
            | Self::NotJson { id, .. }
            | Self::TooLarge { id, .. }
            | Self::Finished { id }
            | Self::Leased { id, .. }
            | Self::TakenOver { id, .. }
            | Self::Store { id, .. } => id,
        }
    }

    /// Whether it stops the journal that reports it. The others follow from the log or from what was
    /// asked, so a flow may catch them and go on: a replay meets them again.
    #[must_use]
    pub fn halts(&self) -> bool {
        match self {
            Self::NotAJournal { .. }
            | Self::UnsupportedVersion { .. }
            | Self::Corrupt { .. }
            | Self::NonDeterminism { .. }
            | Self::ResultType { .. }
            | Self::TakenOver { .. }
            | Self::Store { .. } => true,
            Self::InvalidStart { .. }
            | Self::IdTaken { .. }
            | Self::OutcomeUnknown { .. }
            | Self::EffectFailed { .. }
            | Self::InvalidName { .. }
            | Self::NotJson { .. }
            | Self::TooLarge { .. }
            | Self::Leased { .. }
            | Self::Finished { .. } => false,
        }
    }

    pub(crate) fn store(id: &ExecutionId, source: StoreError) -> Self {
        Self::Store {
            id: id.clone(),
            source: Arc::new(source),
        }
    }

    /// What a refused write means: being fenced out is to be taken over.
    pub(crate) fn refused(id: &ExecutionId, source: StoreError) -> Self {
        match source.kind() {
            StoreErrorKind::Fenced { .. } => Self::TakenOver {
                id: id.clone(),
                sequence: None,
                source: Some(Arc::new(source)),
            },
            StoreErrorKind::Leased { holder, remaining } => Self::Leased {
                id: id.clone(),
                holder: holder.clone(),
                remaining: *remaining,
            },
            _ => Self::store(id, source),
        }
    }

    pub(crate) fn corrupt(id: &ExecutionId, sequence: u64, reason: impl Into<String>) -> Self {
        Self::Corrupt {
            id: id.clone(),
            sequence,
            reason: reason.into(),
        }
    }
}

/// In what a recorded start differs from the one asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Difference {
    /// It runs other code.
    #[error("it runs flow `{recorded}`, not `{requested}`")]
    Flow {
        /// The flow in the log.
        recorded: String,
        /// The flow asked for.
        requested: String,
    },
    /// It was given something else.
    #[error("its input is {recorded}, not {requested}")]
    Input {
        /// The beginning of the input in the log.
        recorded: String,
        /// The beginning of the input asked for.
        requested: String,
    },
    /// It is a branch of another execution, or of none.
    #[error("its parent is {}, not {}", Quoted(recorded.as_deref()), Quoted(requested.as_deref()))]
    Parent {
        /// The parent in the log.
        recorded: Option<String>,
        /// The parent asked for.
        requested: Option<String>,
    },
    /// It builds on other executions.
    #[error("it builds on {recorded}, not {requested}")]
    Upstream {
        /// What the log says.
        recorded: String,
        /// What was asked.
        requested: String,
    },
}

/// How an effect failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct EffectFailure {
    /// Of which kind.
    pub kind: EffectFailureKind,
    /// In the words of the code that failed, or of the journal.
    pub message: String,
}

impl EffectFailure {
    pub(crate) fn new(kind: EffectFailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

/// Kinds of failures of effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EffectFailureKind {
    /// Its code returned an error.
    Returned,
    /// It ran, but its result cannot be written as JSON.
    NotJson,
    /// It ran, but its result is larger than the store accepts.
    TooLarge,
}

struct At(Option<u64>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(sequence) => write!(f, ", which wrote sequence {sequence}"),
            None => Ok(()),
        }
    }
}

struct Requested<'a>(Option<&'a str>);

impl fmt::Display for Requested<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => write!(f, "asks for effect `{key}` in its place"),
            None => f.write_str("ends without it"),
        }
    }
}

struct Quoted<'a>(Option<&'a str>);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(text) => write!(f, "`{text}`"),
            None => f.write_str("none"),
        }
    }
}
