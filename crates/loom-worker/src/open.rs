//! Opening an execution that somebody else may be running.

use std::sync::Arc;
use std::time::Duration;

use loom_journal::{ExecutionJournal, JournalError, JournalOptions};
use loom_spi::{DispatchRequest, EventStore};
use tokio::time::sleep;

/// What a worker does when another one has the execution open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenLeased {
    /// Waits until that one has ended the execution, and joins it so; or takes over when its lease
    /// lapses.
    #[default]
    Wait,
    /// Says so: [`DispatchError::Leased`](loom_spi::DispatchError::Leased).
    Refuse,
}

/// The first pause between two looks at an execution that another worker runs.
const SHORT: Duration = Duration::from_millis(5);
/// The longest one.
const LONG: Duration = Duration::from_millis(500);

/// As [`ExecutionJournal::open`], and waits while another worker has the execution open: until it ends, so that the
/// journal has its [outcome](ExecutionJournal::outcome), or until that worker's lease has lapsed or was given up.
///
/// # Errors
/// As there, but never `Leased`.
///
/// # Panics
/// When it has to wait outside a Tokio runtime with a timer.
///
/// # Cancel safety
/// As there.
pub async fn open_when_free(
    store: &Arc<dyn EventStore>,
    request: &DispatchRequest,
    options: &JournalOptions,
) -> Result<ExecutionJournal, JournalError> {
    let mut pause = SHORT;
    loop {
        match ExecutionJournal::open(Arc::clone(store), request, options).await {
            Err(JournalError::Leased { remaining, .. }) => {
                // The store's clock may be finer than this one.
                sleep(pause.min(remaining).max(Duration::from_millis(1))).await;
                pause = LONG.min(pause * 2);
            }
            opened => return opened,
        }
    }
}
