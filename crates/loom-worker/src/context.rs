//! What a flow works with.

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;

use loom_journal::{ExecutionJournal, IdempotencyKey, JournalError, JournalScope};
use loom_spi::{ExecutionId, Upstream};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::running::Running;

/// What a flow works with: what it was given, and the journal through which it acts. Cheap to clone.
///
/// Everything that could come out differently the next time goes through [`effect`](Self::effect); see
/// [`ExecutionJournal`] for what that asks of a flow.
///
/// ```
/// use loom_worker::{FlowContext, FlowError};
///
/// async fn greet(flow: FlowContext) -> Result<String, FlowError> {
///     let name: String = flow.input()?;
///     let hour: u32 = flow.effect("hour", |_| async { Ok::<_, std::io::Error>(9) }).await?;
///     Ok(if hour < 12 { format!("good morning, {name}") } else { format!("hello, {name}") })
/// }
/// ```
#[derive(Clone, Debug)]
pub struct FlowContext {
    journal: ExecutionJournal,
    run: Arc<Running>,
}

impl FlowContext {
    pub(crate) fn new(journal: ExecutionJournal, run: Arc<Running>) -> Self {
        Self { journal, run }
    }

    /// The execution.
    #[must_use]
    pub fn id(&self) -> &ExecutionId {
        &self.run.request.id
    }

    /// The execution of which it is a branch.
    #[must_use]
    pub fn parent(&self) -> Option<&ExecutionId> {
        self.run.request.parent.as_ref()
    }

    /// The input. No input reads as `null`.
    ///
    /// # Errors
    /// [`InputError`] when it does not fit `T`.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, InputError> {
        read("the input", &self.run.request.input)
    }

    /// The input as it was given: JSON text, or nothing.
    #[must_use]
    pub fn input_text(&self) -> &[u8] {
        &self.run.request.input
    }

    /// What it builds on, in the order declared.
    #[must_use]
    pub fn upstream(&self) -> &[Upstream] {
        &self.run.request.upstream
    }

    /// The output of the execution that it builds on under this key.
    ///
    /// # Errors
    /// [`InputError`] when there is none of that key, or the output does not fit `T`.
    pub fn upstream_output<T: DeserializeOwned>(&self, key: &str) -> Result<T, InputError> {
        match self.run.request.upstream.iter().find(|up| up.key == key) {
            Some(upstream) => read(&format!("the output of `{key}`"), &upstream.output),
            None => Err(InputError::UnknownUpstream {
                key: key.to_owned(),
                known: self
                    .run
                    .request
                    .upstream
                    .iter()
                    .map(|up| up.key.clone())
                    .collect(),
            }),
        }
    }

    /// Runs an effect once and records its result, or returns the recorded one: see
    /// [`ExecutionJournal::effect`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// When `f` does.
    ///
    /// # Cancel safety
    /// As there.
    pub fn effect<T, E, K, F, Fut>(
        &self,
        key: K,
        f: F,
    ) -> impl Future<Output = Result<T, JournalError>> + Send + use<T, E, K, F, Fut>
    where
        T: Serialize + DeserializeOwned + Send,
        E: Display + Send,
        K: AsRef<str>,
        F: FnOnce(IdempotencyKey) -> Fut + Send,
        Fut: Future<Output = Result<T, E>> + Send,
    {
        self.journal.effect(key, f)
    }

    /// Runs an effect that must not happen twice: see [`ExecutionJournal::effect_at_most_once`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// When `f` does.
    ///
    /// # Cancel safety
    /// As there.
    pub fn effect_at_most_once<T, E, K, F, Fut>(
        &self,
        key: K,
        f: F,
    ) -> impl Future<Output = Result<T, JournalError>> + Send + use<T, E, K, F, Fut>
    where
        T: Serialize + DeserializeOwned + Send,
        E: Display + Send,
        K: AsRef<str>,
        F: FnOnce(IdempotencyKey) -> Fut + Send,
        Fut: Future<Output = Result<T, E>> + Send,
    {
        self.journal.effect_at_most_once(key, f)
    }

    /// A branch of the flow that counts its effects for itself: see [`ExecutionJournal::scope`].
    #[must_use]
    pub fn scope(&self, name: impl AsRef<str>) -> JournalScope {
        self.journal.scope(name)
    }

    /// Whether the execution is being cancelled.
    ///
    /// The flow itself need not ask: it is dropped at the `await` where it stands. Threads and tasks that it
    /// has started are not dropped with it, and hear of it here.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.run.is_cancelled()
    }

    /// Waits until the execution is being cancelled, and returns the reason: see
    /// [`is_cancelled`](Self::is_cancelled). Waits for ever if it never is.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub fn cancelled(&self) -> impl Future<Output = String> + Send + 'static + use<> {
        let run = Arc::clone(&self.run);
        async move { run.cancelled().await }
    }
}

fn read<T: DeserializeOwned>(what: &str, text: &[u8]) -> Result<T, InputError> {
    let text = if text.is_empty() { b"null" } else { text };
    serde_json::from_slice(text).map_err(|source| InputError::Unexpected {
        what: what.to_owned(),
        source,
    })
}

/// Why what a flow was given is not what it expects.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// It does not fit the type.
    #[error("{what} is not what the flow expects: {source}")]
    Unexpected {
        /// What was read.
        what: String,
        /// What does not fit.
        source: serde_json::Error,
    },
    /// It builds on no execution of this key.
    #[error("there is no upstream `{key}` (there are: {})", known.join(", "))]
    UnknownUpstream {
        /// The key asked for.
        key: String,
        /// The keys there are.
        known: Vec<String>,
    },
}
