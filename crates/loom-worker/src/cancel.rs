//! Asking a running flow to stop.

use std::future::pending;

use tokio::sync::watch;

/// Tells one execution that it is to be cancelled.
#[derive(Debug)]
pub(crate) struct Canceller(watch::Sender<Option<String>>);

/// Hears of it.
#[derive(Clone, Debug)]
pub(crate) struct CancelSignal(watch::Receiver<Option<String>>);

pub(crate) fn cancellation() -> (Canceller, CancelSignal) {
    let (sender, receiver) = watch::channel(None);
    (Canceller(sender), CancelSignal(receiver))
}

impl Canceller {
    /// The first reason counts.
    pub(crate) fn cancel(&self, reason: String) {
        self.0.send_if_modified(|current| {
            let first = current.is_none();
            if first {
                *current = Some(reason);
            }
            first
        });
    }
}

impl CancelSignal {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Waits until cancellation is asked for, for ever if it never is, and returns the reason.
    pub(crate) async fn cancelled(mut self) -> String {
        let reason = match self.0.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone(),
            Err(_) => None,
        };
        match reason {
            Some(reason) => reason,
            None => pending().await,
        }
    }
}
