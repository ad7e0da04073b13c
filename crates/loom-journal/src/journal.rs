//! The journal of one execution.

use std::borrow::Borrow;
use std::fmt::Display;
use std::future::Future;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use loom_spi::{DispatchRequest, EventStore, ExecutionId, ExecutionOutcome, Failure, NewEvent};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, MutexGuard};

use crate::effect;
use crate::encode::Encoder;
use crate::hold::Hold;
use crate::log::{LastWord, Log, Written};
use crate::slot::{IdempotencyKey, ScopePath, Slots};
use crate::{JournalError, JournalOptions, JournalScope, open};

/// The single allocator of one execution's sequence numbers: it records what a flow does, so that
/// running the flow again repeats nothing that is recorded.
///
/// A *flow* is code that acts on the world only through [`effect`](Self::effect) and is otherwise
/// deterministic: given the same input and the same results it asks for the same effects, in the same order
/// within each [`scope`](Self::scope). After a crash it is run from the beginning against its log, and
/// goes on where the log ends.
///
/// Cheap to clone; all clones are one journal, and effects may run at once.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use loom_journal::{ExecutionJournal, IdempotencyKey, JournalError, JournalOptions};
/// use loom_spi::{DispatchRequest, EventStore, ExecutionId};
///
/// async fn ship(store: Arc<dyn EventStore>) -> Result<(), JournalError> {
///     let id = ExecutionId::generate();
///     let request = DispatchRequest::new(id, "ship-order").with_input(r#"{"parcel":7}"#);
///     let journal = ExecutionJournal::open(store, &request, JournalOptions::default()).await?;
///
///     // Runs once. After a crash between running and recording it runs again, with the same key.
///     let price: u64 = journal
///         .effect("charge", |key: IdempotencyKey| async move { charge(key.as_str()).await })
///         .await?;
///     journal.complete(&price).await?;
///     Ok(())
/// }
///
/// async fn charge(idempotency_key: &str) -> Result<u64, std::io::Error> {
///     Ok(4200)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct ExecutionJournal {
    root: JournalScope,
}

impl ExecutionJournal {
    /// Opens the log of the execution that `request` names, or begins it.
    ///
    /// On a store with fencing this takes the fence, with a [lease](JournalOptions::lease): whoever wrote the
    /// log before can write no more, and others are told who runs it until the lease lapses or is
    /// [released](Self::release). A log that was begun for something else, or is no journal's, is refused before
    /// that. A log that has ended is opened for its [`outcome`](Self::outcome) alone, and nothing is written.
    ///
    /// # Errors
    /// `InvalidStart` when what is to be recorded is no JSON or too large, `IdTaken` when the log was
    /// begun with another flow, input, parent or upstream, `Leased` when another worker has it open,
    /// `NotAJournal`, `UnsupportedVersion`, `Corrupt`, `TakenOver` when somebody took the fence meanwhile, or since
    /// the [token](JournalOptions::token) was taken, `Store`.
    ///
    /// # Cancel safety
    /// Nothing is torn: when dropped, the log may have been begun and the fence taken.
    pub async fn open(
        store: Arc<dyn EventStore>,
        request: &DispatchRequest,
        options: impl Borrow<JournalOptions> + Send + Sync,
    ) -> Result<Self, JournalError> {
        let core = open::open(store, request, options.borrow()).await?;
        let scope = ScopePath::new();
        let core = Arc::new(core);
        Ok(Self {
            root: JournalScope { core, scope },
        })
    }

    /// The execution.
    #[must_use]
    pub fn id(&self) -> &ExecutionId {
        &self.core().id
    }

    /// How the execution ended, once its terminal event stands in the log.
    #[must_use]
    pub fn outcome(&self) -> Option<&ExecutionOutcome> {
        self.core().outcome.get()
    }

    /// The error that stopped this journal, if one did ([`JournalError::halts`]).
    #[must_use]
    pub fn halted(&self) -> Option<&JournalError> {
        self.core().halted.get()
    }

    /// A branch of the flow that counts its effects for itself.
    ///
    /// Branches that run at once, each with several effects, need one each: the order in which their
    /// effects are asked for varies from run to run, and only within a scope it must not. Asking
    /// for the same name again continues the count of that scope.
    ///
    /// ```
    /// # use loom_journal::{ExecutionJournal, JournalError};
    /// # use std::convert::Infallible;
    /// # async fn example(journal: &ExecutionJournal) -> Result<(), JournalError> {
    /// async fn fetch_twice(scope: loom_journal::JournalScope) -> Result<u32, JournalError> {
    ///     let a: u32 = scope.effect("first", |_| async { Ok::<_, Infallible>(1) }).await?;
    ///     let b: u32 = scope.effect("second", |_| async { Ok::<_, Infallible>(2) }).await?;
    ///     Ok(a + b)
    /// }
    /// let (left, right) = tokio::join!(
    ///     fetch_twice(journal.scope("left")),
    ///     fetch_twice(journal.scope("right")),
    /// );
    /// assert_eq!(left? + right?, 6);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn scope(&self, name: impl AsRef<str>) -> JournalScope {
        self.root.scope(name)
    }

    /// Runs an effect on the world and records its result, or returns the recorded one without running it.
    ///
    /// The place of the effect in its scope is taken when this is called, not when the future is first
    /// polled, so that effects given to `join!` replay in the order of the program. `key` names the effect: a
    /// replay that meets another key in that place is refused.
    ///
    /// `f` runs at least once: a crash after it ran and before its result was recorded makes it run
    /// again, with the same [`IdempotencyKey`]. An error that it returns is its result: it is recorded,
    /// and a replay returns it without running `f`. What may succeed the next time is tried
    /// again inside `f`, or under another effect. What `f` returns is passed through JSON also
    /// the first time, so that the flow sees the same value in every run.
    ///
    /// Effects do not nest: `f` must not use the journal.
    ///
    /// # Errors
    /// `EffectFailed` when `f` returned an error, or its result is no JSON or too large for the store:
    /// recorded, for good. `NonDeterminism`, with `f` not run and nothing appended. `ResultType` when the
    /// recorded result does not fit `T`. `OutcomeUnknown` when the effect was begun at most once.
    /// `InvalidName` when the key or a scope's name is not 1 to 255 bytes, or scopes are nested more than 16
    /// deep. `Finished`, `TakenOver`, `Store`, `Corrupt`, `NotAJournal`, `UnsupportedVersion`; and, once the
    /// journal has halted, what halted it.
    ///
    /// # Panics
    /// When `f` does. Nothing is recorded then.
    ///
    /// # Cancel safety
    /// Dropping it drops `f`; whether the result is recorded is open, and the journal stays usable. Its
    /// place in the scope stays taken.
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
        self.root.effect(key, f)
    }

    /// As [`effect`](Self::effect), for effects that must not happen twice: the intent is recorded before
    /// `f` runs. After a crash in between, `f` is not run again and the flow is told that the outcome is
    /// unknown.
    ///
    /// # Errors
    /// `OutcomeUnknown` when a former run recorded the intent and no result; and as
    /// [`effect`](Self::effect).
    ///
    /// # Panics
    /// When `f` does. The outcome is unknown then.
    ///
    /// # Cancel safety
    /// As [`effect`](Self::effect); once `f` was begun, its outcome is unknown.
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
        self.root.effect_at_most_once(key, f)
    }

    /// Records that the execution ran to its end with this output, and closes its log.
    ///
    /// # Errors
    /// `NotJson` and `TooLarge`, after which the journal can still [`fail`](Self::fail); `NonDeterminism`
    /// when the log records effects that the flow has not asked for; `Finished` when a terminal event stands
    /// already; `TakenOver`, `Store`, `Corrupt`, `NotAJournal`, `UnsupportedVersion`; and what halted the
    /// journal.
    ///
    /// # Cancel safety
    /// Nothing is torn. When dropped, the event may stand or not.
    pub async fn complete<T>(&self, output: &T) -> Result<ExecutionOutcome, JournalError>
    where
        T: Serialize + Sync + ?Sized,
    {
        let output = effect::to_json(output).map_err(|source| JournalError::NotJson {
            id: self.id().clone(),
            source: Arc::new(source),
        })?;
        let event = self.core().encoder.completed(&output)?;
        let output = Bytes::from(String::from(Box::<str>::from(output)));
        let outcome = ExecutionOutcome::Completed { output };
        self.core().end(event, outcome, true).await
    }

    /// Records that the execution failed, and closes its log. A message that is too long for the store
    /// is cut.
    ///
    /// # Errors
    /// `NonDeterminism` when the log records effects that the flow has not asked for; `Finished` when a
    /// terminal event stands already; `TakenOver`, `Store`, `Corrupt`, `NotAJournal`, `UnsupportedVersion`;
    /// and what halted the journal.
    ///
    /// # Cancel safety
    /// Nothing is torn. When dropped, the event may stand or not.
    pub async fn fail(&self, mut failure: Failure) -> Result<ExecutionOutcome, JournalError> {
        let event = self.core().encoder.failed(&mut failure)?;
        let outcome = ExecutionOutcome::Failed(failure);
        self.core().end(event, outcome, true).await
    }

    /// Records that the execution was cancelled, wherever it was, and closes its log. A reason that is too
    /// long for the store is cut.
    ///
    /// # Errors
    /// `Finished` when a terminal event stands already, `TakenOver`, `Store`, `Corrupt`; and what halted the
    /// journal.
    ///
    /// # Cancel safety
    /// Nothing is torn. When dropped, the event may stand or not.
    pub async fn cancel(
        &self,
        reason: impl Into<String> + Send,
    ) -> Result<ExecutionOutcome, JournalError> {
        let mut reason = reason.into();
        let event = self.core().encoder.cancelled(&mut reason)?;
        let outcome = ExecutionOutcome::Cancelled { reason };
        self.core().end(event, outcome, false).await
    }

    pub(crate) fn core(&self) -> &Core {
        &self.root.core
    }
}

/// What all clones and scopes of a journal share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) id: ExecutionId,
    pub(crate) encoder: Encoder,
    /// `None` where the store has no fences, or the log had ended.
    pub(crate) hold: Option<Arc<Hold>>,
    /// How long the store's word is good for.
    pub(crate) confirm_after: Duration,
    pub(crate) slots: Slots,
    pub(crate) log: Mutex<Log>,
    pub(crate) confirmed: LastWord,
    /// Cleared once every recorded effect was asked for: from then on effects begin without the log's lock.
    pub(crate) replaying: AtomicBool,
    pub(crate) outcome: OnceLock<ExecutionOutcome>,
    pub(crate) halted: OnceLock<JournalError>,
}

impl Core {
    /// The log, for whoever may still write.
    pub(crate) async fn writer(&self) -> Result<MutexGuard<'_, Log>, JournalError> {
        let log = self.log.lock().await;
        self.check_open()?;
        Ok(log)
    }

    pub(crate) fn check_open(&self) -> Result<(), JournalError> {
        if let Some(halted) = self.halted.get() {
            return Err(halted.clone());
        }
        if self.outcome.get().is_some() {
            let id = self.id.clone();
            return Err(JournalError::Finished { id });
        }
        Ok(())
    }

    /// Notes an error that stops the journal.
    pub(crate) fn note<T>(&self, result: Result<T, JournalError>) -> Result<T, JournalError> {
        if let Err(error) = &result
            && error.halts()
        {
            // The first one stays.
            let _ = self.halted.set(error.clone());
        }
        result
    }

    /// Appends an event and returns its sequence.
    pub(crate) async fn append(&self, log: &mut Log, event: NewEvent) -> Result<u64, JournalError> {
        match self.note(log.append(event, &self.confirmed).await)? {
            Written::At(sequence) => Ok(sequence),
            Written::Closed(outcome) => {
                let _ = self.outcome.set(outcome);
                let id = self.id.clone();
                Err(JournalError::Finished { id })
            }
        }
    }

    async fn end(
        &self,
        event: NewEvent,
        outcome: ExecutionOutcome,
        by_the_flow: bool,
    ) -> Result<ExecutionOutcome, JournalError> {
        let mut log = self.writer().await?;
        if by_the_flow {
            self.note(log.check_all_asked_for(&self.slots).await)?;
        }
        self.append(&mut log, event).await?;
        let _ = self.outcome.set(outcome.clone());
        Ok(outcome)
    }
}
