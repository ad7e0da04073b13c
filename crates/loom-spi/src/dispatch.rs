//! Running executions.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{BoxError, ExecutionId, StoreError};

/// Runs executions somewhere, and reports what their logs say became of them.
///
/// # Contract
/// - Dispatching an id that is running joins it: both calls return its outcome and its body runs once.
/// - Dispatching an id that has finished returns its recorded outcome and runs nothing.
/// - An id whose log was written for another flow or another input is refused, and nothing is
///   written to it.
/// - The outcome is what the log says, never what a process or a platform says.
/// - **Cancel safety.** Dropping the future of [`dispatch`](Self::dispatch) stops waiting, not the
///   execution; [`cancel`](Self::cancel) stops it.
#[async_trait]
pub trait ExecutionDispatcher: fmt::Debug + Send + Sync {
    /// Runs an execution to its end, or joins it.
    ///
    /// A failed or cancelled execution is an `Ok` outcome. An error means that it could not be run or its
    /// outcome could not be learnt.
    ///
    /// # Errors
    /// [`DispatchError`].
    ///
    /// # Cancel safety
    /// Dropping it stops waiting, not the execution. Dispatch again to join it.
    async fn dispatch(&self, request: DispatchRequest) -> Result<ExecutionOutcome, DispatchError>;

    /// Asks for an execution to be cancelled, and says what came of it. One that was never begun is not kept from
    /// running later. One that was begun and that nobody runs any more, here or elsewhere, may be ended at once
    /// ([`Cancellation::Cancelled`]).
    ///
    /// # Errors
    /// [`DispatchError`] when it could not be asked: [`Leased`](DispatchError::Leased) when a worker elsewhere runs it.
    ///
    /// # Cancel safety
    /// A dropped call may still take effect.
    async fn cancel(&self, request: CancelRequest) -> Result<Cancellation, DispatchError>;
}

/// What is to be run.
///
/// ```
/// use loom_spi::{DispatchRequest, ExecutionId};
///
/// let request = DispatchRequest::new(ExecutionId::new("order-7")?, "ship-order")
///     .with_input(r#"{"parcel":7}"#);
/// assert_eq!(request.flow, "ship-order");
/// # Ok::<(), loom_spi::InvalidExecutionId>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DispatchRequest {
    /// The execution.
    pub id: ExecutionId,
    /// Which code it runs: a name that the runtime knows.
    pub flow: String,
    /// What it is given. Opaque to dispatchers; runtimes that keep a journal expect JSON text. Empty
    /// means no input.
    pub input: Bytes,
    /// Outputs of the executions that it builds on, in the order declared. They follow from those logs, so
    /// they are handed to the code and not stored again.
    pub upstream: Vec<Upstream>,
    /// The execution of which it is a branch.
    pub parent: Option<ExecutionId>,
}

impl DispatchRequest {
    /// An execution without input, upstream or parent.
    #[must_use]
    pub fn new(id: ExecutionId, flow: impl Into<String>) -> Self {
        Self {
            id,
            flow: flow.into(),
            input: Bytes::new(),
            upstream: Vec::new(),
            parent: None,
        }
    }

    /// Sets the input.
    #[must_use]
    pub fn with_input(mut self, input: impl Into<Bytes>) -> Self {
        self.input = input.into();
        self
    }

    /// Sets the upstream outputs.
    #[must_use]
    pub fn with_upstream(mut self, upstream: Vec<Upstream>) -> Self {
        self.upstream = upstream;
        self
    }

    /// Sets the parent.
    #[must_use]
    pub fn with_parent(mut self, parent: impl Into<Option<ExecutionId>>) -> Self {
        self.parent = parent.into();
        self
    }
}

/// The output of an execution that another one builds on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upstream {
    /// What the receiver calls it: the key of a graph's node, for instance.
    pub key: String,
    /// Its output.
    pub output: Bytes,
    /// The execution whose log has that output, where the caller knows it: who runs the code in another
    /// process has it read the output there.
    pub execution: Option<ExecutionId>,
}

impl Upstream {
    /// Names an output.
    #[must_use]
    pub fn new(key: impl Into<String>, output: impl Into<Bytes>) -> Self {
        Self {
            key: key.into(),
            output: output.into(),
            execution: None,
        }
    }

    /// Says whose output it is.
    #[must_use]
    pub fn with_execution(mut self, execution: impl Into<Option<ExecutionId>>) -> Self {
        self.execution = execution.into();
        self
    }
}

/// How an execution ended, according to its log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExecutionOutcome {
    /// It ran to its end.
    Completed {
        /// What it returned. Opaque to dispatchers; JSON text where a journal keeps it.
        output: Bytes,
    },
    /// It did not.
    Failed(Failure),
    /// It was cancelled before its end.
    Cancelled {
        /// Why.
        reason: String,
    },
}

impl ExecutionOutcome {
    /// Whether it ran to its end.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        matches!(self, Self::Completed { .. })
    }
}

/// Why an execution failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// Of which kind.
    pub kind: FailureKind,
    /// In the words of the code that failed.
    pub message: String,
}

impl Failure {
    /// The code returned an error.
    #[must_use]
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Error,
            message: message.into(),
        }
    }

    /// The code panicked.
    #[must_use]
    pub fn panicked(message: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Panicked,
            message: message.into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            FailureKind::Error => f.write_str(&self.message),
            FailureKind::Panicked => write!(f, "panicked: {}", self.message),
        }
    }
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// The code returned an error.
    Error,
    /// The code panicked.
    Panicked,
}

/// Asks for an execution to be cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CancelRequest {
    /// The execution.
    pub id: ExecutionId,
    /// Why, for its log.
    pub reason: String,
}

impl CancelRequest {
    /// Cancels `id` because of `reason`.
    #[must_use]
    pub fn new(id: ExecutionId, reason: impl Into<String>) -> Self {
        Self {
            id,
            reason: reason.into(),
        }
    }
}

/// What came of a request to cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cancellation {
    /// It is being stopped; its outcome follows from a dispatch that joins it.
    Requested,
    /// It had ended before.
    AlreadyFinished(ExecutionOutcome),
    /// Nobody ran it, and its log now says that it was cancelled.
    Cancelled,
    /// It is not running here, and was not ended: it was never begun, or nobody can tell whether it runs elsewhere.
    NotRunning,
}

/// Why an execution could not be run, or its outcome not be learnt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DispatchError {
    /// The runtime has no code of this name.
    #[error("cannot run execution `{id}`: no flow `{flow}` is registered (known: {known})")]
    UnknownFlow {
        /// The execution.
        id: ExecutionId,
        /// The name asked for.
        flow: String,
        /// The names there are, separated by commas.
        known: String,
    },
    /// Something else is recorded under the id.
    #[error("cannot run execution `{id}`: its log was written for something else: {reason}")]
    IdTaken {
        /// The execution.
        id: ExecutionId,
        /// What is recorded and what was asked.
        reason: String,
    },
    /// The request can never succeed as it stands.
    #[error("cannot run execution `{id}`: {reason}")]
    InvalidRequest {
        /// The execution.
        id: ExecutionId,
        /// What is wrong and what was expected.
        reason: String,
    },
    /// Another worker runs it, and this one was not told to wait for that.
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
    /// Another worker took the execution over; its outcome is for that one to record.
    #[error(
        "execution `{id}` was taken over by another worker: dispatch it again to learn its outcome"
    )]
    TakenOver {
        /// The execution.
        id: ExecutionId,
        /// What the store said.
        #[source]
        source: BoxError,
    },
    /// The store refused or could not be reached.
    #[error("cannot run execution `{id}`: its store did not do what was asked")]
    Store {
        /// The execution.
        id: ExecutionId,
        /// What the store said.
        #[source]
        source: StoreError,
    },
    /// Anything else that kept the runtime from running it.
    #[error("cannot run execution `{id}`")]
    Runtime {
        /// The execution.
        id: ExecutionId,
        /// The cause.
        #[source]
        source: BoxError,
    },
}

impl DispatchError {
    /// The execution that it is about.
    #[must_use]
    pub fn execution(&self) -> &ExecutionId {
        match self {
            Self::UnknownFlow { id, .. }
            | Self::IdTaken { id, .. }
            | Self::InvalidRequest { id, .. }
            | Self::Leased { id, .. }
            | Self::TakenOver { id, .. }
            | Self::Store { id, .. }
            | Self::Runtime { id, .. } => id,
        }
    }
}
