//! Ending executions that nobody runs.

use std::sync::Arc;

use loom_spi::{DispatchRequest, EventStore, ExecutionId, ExecutionOutcome, Upstream};

use crate::{Anchor, ExecutionJournal, JournalError, JournalOptions, read_anchor, read_outcome};

/// What became of an execution that was to be ended because nobody runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DormantEnd {
    /// It has no log: there is nothing to end.
    NeverBegun,
    /// It had ended before, or ended while this was asked.
    HadEnded(ExecutionOutcome),
    /// The store has no fences, so nobody can know whether it is run. Nothing was written.
    Unfenced,
    /// Its log now says that it was cancelled.
    Cancelled(ExecutionOutcome),
}

/// Records that an execution which nobody runs was cancelled, and closes its log.
///
/// The fence is taken first, with a lease and never from a worker whose lease runs. So of this and a worker that goes on
/// with the execution at the same moment one comes first: either that worker finds the log closed, or this is told who
/// runs it, or that the execution was taken over. The holder that `options` name should be no worker's: a lease does not
/// keep out its own holder. Without a lease in `options` nobody's lease is looked at: the execution is taken from whoever runs it,
/// as opening it would.
///
/// # Errors
/// `Leased` when somebody runs it. `TakenOver` when somebody began to while this was asked. And as
/// [`ExecutionJournal::open`] and [`ExecutionJournal::cancel`].
///
/// # Cancel safety
/// Nothing is torn. When dropped, the event may stand or not.
pub async fn cancel_dormant(
    store: &Arc<dyn EventStore>,
    id: &ExecutionId,
    reason: &str,
    options: &JournalOptions,
) -> Result<DormantEnd, JournalError> {
    if let Some(outcome) = read_outcome(&**store, id).await? {
        return Ok(DormantEnd::HadEnded(outcome));
    }
    let Some(begun) = read_anchor(&**store, id).await? else {
        return Ok(DormantEnd::NeverBegun);
    };
    if store.capabilities().fencing.is_none() {
        return Ok(DormantEnd::Unfenced);
    }
    let request = request(id, begun);
    let journal = ExecutionJournal::open(Arc::clone(store), &request, options).await?;
    if let Some(outcome) = journal.outcome() {
        return Ok(DormantEnd::HadEnded(outcome.clone()));
    }
    let cancelled = journal.cancel(reason).await;
    if cancelled.is_err() {
        // So that whoever wants it need not wait. If this fails, the lease lapses.
        let _ = journal.release().await;
    }
    cancelled.map(DormantEnd::Cancelled)
}

/// What the execution was begun with, asked for once more.
fn request(id: &ExecutionId, begun: Anchor) -> DispatchRequest {
    let keys = begun.upstream.into_iter();
    // Outputs are no part of what was begun.
    let upstream = keys.map(|key| Upstream::new(key, "")).collect();
    DispatchRequest::new(id.clone(), begun.flow)
        .with_input(begun.input)
        .with_upstream(upstream)
        .with_parent(begun.parent)
}
