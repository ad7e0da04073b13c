//! Keeping others from running the same execution.

use std::future::{Future, pending};
use std::time::{Duration, Instant};

use loom_spi::FenceToken;

use crate::{ExecutionJournal, JournalError};

impl ExecutionJournal {
    /// How long the lease lasts from each renewal; `None` when none is held.
    #[must_use]
    pub fn lease(&self) -> Option<Duration> {
        self.core().hold.as_ref()?.lease
    }

    /// The token under which the journal writes; `None` where the store has no fences, and when the log had ended
    /// when it was opened. Another process goes on under it when it [opens](crate::JournalOptions::token) with it.
    #[must_use]
    pub fn token(&self) -> Option<FenceToken> {
        self.core().hold.as_ref().map(|hold| hold.token)
    }

    /// Asks the store whether this still is the writer, and makes the lease last. Effects do so by themselves
    /// when the store's last word is older than [`confirm_after`](crate::JournalOptions::confirm_after).
    ///
    /// Does nothing where the store has no fences, and once the execution has ended.
    ///
    /// # Errors
    /// `TakenOver`, which halts the journal. `Store` when the store did not answer or refused, which does
    /// not: the lease runs on, and lapses unless a later renewal succeeds.
    ///
    /// # Cancel safety
    /// May be dropped. The renewal may still take effect.
    pub async fn renew_lease(&self) -> Result<(), JournalError> {
        let core = self.core();
        let (Some(hold), None) = (&core.hold, core.outcome.get()) else {
            return Ok(());
        };
        let asked = Instant::now();
        match hold.confirm().await {
            Ok(()) => {
                core.confirmed.note(asked);
                Ok(())
            }
            Err(error) => match JournalError::refused(&core.id, error) {
                taken_over @ JournalError::TakenOver { .. } => core.note(Err(taken_over)),
                error => Err(error),
            },
        }
    }

    /// Renews the lease again and again, three times as often as is needed, for as long as it is polled. Whoever
    /// runs a flow runs this beside it, in a task of its own if the flow may compute for long.
    ///
    /// `sleep` is the timer of the runtime: `tokio::time::sleep`, for example. Ends when the execution
    /// was taken over, and says so; the flow can be dropped then, since nothing that it does counts. It never ends
    /// where there is no lease, and goes on when the store does not answer.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn keep_lease<S, F>(&self, sleep: S) -> JournalError
    where
        S: Fn(Duration) -> F,
        F: Future<Output = ()>,
    {
        let Some(lease) = self.lease() else {
            return pending().await;
        };
        loop {
            sleep(lease / 3).await;
            if let Err(taken_over @ JournalError::TakenOver { .. }) = self.renew_lease().await {
                return taken_over;
            }
        }
    }

    /// Gives the lease up, so that another worker need not wait for it to lapse. The journal can go on until
    /// somebody else opens the execution. One that has ended needs no release: nobody opens it to write.
    ///
    /// # Errors
    /// `TakenOver`, `Store`. Both mean that there is nothing that this could give up, or that it lapses.
    ///
    /// # Cancel safety
    /// May be dropped. The release may still take effect.
    pub async fn release(&self) -> Result<(), JournalError> {
        match &self.core().hold {
            Some(hold) => {
                let released = hold.release().await;
                released.map_err(|error| JournalError::refused(self.id(), error))
            }
            None => Ok(()),
        }
    }
}
