//! Renewing a lease in the background.

use std::future::pending;

use loom_journal::{ExecutionJournal, JournalError};
use tokio::task::JoinHandle;

/// Keeps the lease of a journal until it is dropped, in a task of its own, so that a flow that computes for long
/// without a pause does not lose it.
#[derive(Debug)]
pub(crate) struct LeaseKeeper(Option<JoinHandle<JournalError>>);

impl LeaseKeeper {
    pub(crate) fn start(journal: &ExecutionJournal) -> Self {
        let keeps = journal.lease().is_some().then(|| {
            let journal = journal.clone();
            tokio::spawn(async move { journal.keep_lease(tokio::time::sleep).await })
        });
        Self(keeps)
    }

    /// Waits until the execution was taken over: for ever if it never is.
    pub(crate) async fn lost(&mut self) -> JournalError {
        if let Some(task) = &mut self.0
            && let Ok(taken_over) = task.await
        {
            return taken_over;
        }
        // Without a timer there is no renewal; the token protects the log all the same.
        pending().await
    }
}

impl Drop for LeaseKeeper {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}
