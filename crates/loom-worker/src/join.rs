//! What runtimes have in common: an execution that runs here is joined, and not run again.

use std::sync::Arc;

use loom_journal::{Anchor, JournalError, read_anchor, read_outcome};
use loom_spi::{
    CancelRequest, Cancellation, DispatchError, DispatchRequest, EventStore, ExecutionId,
    ExecutionOutcome,
};
use tokio::runtime::Handle;

use crate::error::to_dispatch;
use crate::running::{RunGuard, Running, RunningSet};

/// Joins an execution that runs here, or has `start` run it.
pub(crate) async fn join_or_start(
    set: &Arc<RunningSet>,
    store: &dyn EventStore,
    request: DispatchRequest,
    start: impl Fn(&Handle, RunGuard),
) -> Result<ExecutionOutcome, DispatchError> {
    let handle = Handle::try_current().map_err(|error| DispatchError::Runtime {
        id: request.id.clone(),
        source: error.into(),
    })?;
    loop {
        let (running, guard) = set.enter(&request);
        if let Some(guard) = guard {
            start(&handle, guard);
            return running.result().await;
        }
        let wanted = Anchor::of(&request).map_err(to_dispatch)?;
        if wants_the_same(&running, &wanted) {
            return running.result().await;
        }
        // The log says which of the two is wrong; if it is not begun yet, the one that runs settles that.
        check_log(store, &request.id, &wanted).await?;
        // Whatever that one comes to, this one then looks for itself.
        let _ = running.result().await;
    }
}

/// Cancels an execution that runs here.
pub(crate) async fn cancel(
    set: &RunningSet,
    store: &dyn EventStore,
    request: CancelRequest,
) -> Result<Cancellation, DispatchError> {
    let CancelRequest { id, reason, .. } = request;
    if set.cancel(&id, reason) {
        return Ok(Cancellation::Requested);
    }
    let outcome = read_outcome(store, &id).await;
    Ok(match outcome.map_err(to_dispatch)? {
        Some(outcome) => Cancellation::AlreadyFinished(outcome),
        None => Cancellation::NotRunning,
    })
}

/// Refuses what the log was not begun with, if it was begun.
pub(crate) async fn check_log(
    store: &dyn EventStore,
    id: &ExecutionId,
    wanted: &Anchor,
) -> Result<(), DispatchError> {
    let recorded = read_anchor(store, id).await;
    let recorded = recorded.map_err(to_dispatch)?;
    match recorded.and_then(|recorded| recorded.difference(wanted)) {
        Some(difference) => Err(to_dispatch(JournalError::IdTaken {
            id: id.clone(),
            difference,
        })),
        None => Ok(()),
    }
}

fn wants_the_same(running: &Running, wanted: &Anchor) -> bool {
    Anchor::of(&running.request).is_ok_and(|anchor| anchor.difference(wanted).is_none())
}
