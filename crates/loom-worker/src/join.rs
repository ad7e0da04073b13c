//! What runtimes have in common: an execution that runs here is joined, and not run again.

use std::sync::Arc;

use loom_journal::{Anchor, DormantEnd, JournalError, cancel_dormant, read_anchor, this_process};
use loom_spi::{
    CancelRequest, Cancellation, DispatchError, DispatchRequest, EventStore, ExecutionId,
    ExecutionOutcome,
};
use tokio::runtime::Handle;

use crate::error::to_dispatch;
use crate::execute::Setting;
use crate::running::{Entered, RunGuard, Running, RunningSet};

/// Joins an execution that runs here, or has `start` run it.
pub(crate) async fn join_or_start(
    set: &Arc<RunningSet>,
    store: &dyn EventStore,
    mut request: DispatchRequest,
    start: impl Fn(&Handle, RunGuard),
) -> Result<ExecutionOutcome, DispatchError> {
    let handle = Handle::try_current().map_err(|error| DispatchError::Runtime {
        id: request.id.clone(),
        source: error.into(),
    })?;
    loop {
        let running = match set.enter(request) {
            Entered::New(guard) => {
                let running = Arc::clone(&guard.running);
                start(&handle, guard);
                return running.result().await;
            }
            Entered::Runs(running, back) => {
                request = back;
                running
            }
        };
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

/// How often an execution is looked at that changes hands while it is to be ended.
const LOOKS: u32 = 4;

/// Cancels an execution that runs here, and one that nobody runs.
pub(crate) async fn cancel(
    set: &RunningSet,
    setting: &Setting,
    request: CancelRequest,
) -> Result<Cancellation, DispatchError> {
    let CancelRequest { id, reason, .. } = request;
    // No worker: its lease keeps out the workers of this process, too.
    let options = setting
        .options
        .clone()
        .with_take_over(false)
        .with_token(None);
    let options = options.with_holder(format!("{}, cancelling", this_process()));
    let mut looks = 1;
    loop {
        if set.cancel(&id, reason.clone()) {
            return Ok(Cancellation::Requested);
        }
        match cancel_dormant(&setting.store, &id, &reason, &options).await {
            Ok(DormantEnd::HadEnded(outcome)) => {
                return Ok(Cancellation::AlreadyFinished(outcome));
            }
            Ok(DormantEnd::Cancelled(_)) => return Ok(Cancellation::Cancelled),
            Ok(_) => return Ok(Cancellation::NotRunning),
            // Somebody began to run it just now: this runtime, maybe.
            Err(JournalError::Leased { .. } | JournalError::TakenOver { .. }) if looks < LOOKS => {
                looks += 1;
            }
            Err(error) => return Err(to_dispatch(error)),
        }
    }
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
