//! Ending everything that descends from an execution.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use ahash::RandomState;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use loom_spi::{
    BranchRegistry, CancelRequest, Cancellation, Children, DispatchError, ExecutionDispatcher,
    ExecutionId, StoreError,
};

use crate::Timer;

/// How many executions are asked to end at a time.
const AT_ONCE: usize = 64;
/// The longest pause between two looks at an execution that is being stopped.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What became of a tree of executions that was to be cancelled. Each execution of the tree is in one of the lists.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CancelReport {
    /// They had been begun, and have ended since: most of them as cancelled, those that were faster as something else. Also
    /// those that nobody ran any more, because their worker is gone.
    pub ended: Vec<ExecutionId>,
    /// They had ended before.
    pub finished: Vec<ExecutionId>,
    /// They were never begun, so there is nothing to end. Also those whose logs are in a store without fences and that none
    /// of the dispatchers runs: nobody can tell then whether they run elsewhere.
    pub not_running: Vec<ExecutionId>,
    /// They could not be asked, or run at a worker that is none of the dispatchers
    /// ([`Leased`](DispatchError::Leased)): then nothing that descends from them was touched either. Calling again may reach
    /// them, there or when that worker is gone.
    pub failed: Vec<(ExecutionId, DispatchError)>,
}

/// Cancels `root` and everything that descends from it in `registry`, children of children as well, and returns when each of them
/// that was begun has ended: what runs, and what nobody runs any more, whose log is closed as cancelled so that it is not
/// resumed. What could not be ended is named in the report.
///
/// Parents go first, so that they begin nothing more, and their branches are looked up again until no new ones come. Each execution
/// is asked at `dispatchers`, in this order, until one of them has it: name all on which nodes were placed. What an execution is
/// follows from lineage alone, never from what its id looks like.
///
/// An execution that is being stopped is looked at again, after pauses that `timer` makes and that grow from 1 ms to 1 s,
/// until its log has ended. So this waits for as long as a flow that does not heed its cancellation.
///
/// # Errors
/// What the registry says when it cannot list the branches of an execution. Whatever had been asked to end ends all the
/// same; call again for the rest.
///
/// # Cancel safety
/// Dropping it stops asking and waiting. Call again to go on.
///
/// # Examples
/// ```
/// use loom_graph_executor::{Timer, cancel_tree};
/// use loom_spi::{BranchRegistry, ExecutionDispatcher, ExecutionId, StoreError};
///
/// async fn call_off(
///     runtime: &dyn ExecutionDispatcher,
///     registry: &dyn BranchRegistry,
///     timer: &dyn Timer,
///     incident: &ExecutionId,
/// ) -> Result<(), StoreError> {
///     let report = cancel_tree(&[runtime], registry, incident, "a false alarm", timer).await?;
///     println!("{} stopped, {} had ended", report.ended.len(), report.finished.len());
///     Ok(())
/// }
/// ```
pub async fn cancel_tree<R>(
    dispatchers: &[&dyn ExecutionDispatcher],
    registry: &R,
    root: &ExecutionId,
    reason: &str,
    timer: &dyn Timer,
) -> Result<CancelReport, StoreError>
where
    R: BranchRegistry + ?Sized,
{
    cancel(dispatchers, registry, root, reason, timer, true).await
}

/// The same without `root` itself: see [`cancel_tree`]. What `root` still runs may begin more branches, which are reached only
/// if they are recorded before this returns.
///
/// # Errors
/// As there.
///
/// # Cancel safety
/// As there.
pub async fn cancel_descendants<R>(
    dispatchers: &[&dyn ExecutionDispatcher],
    registry: &R,
    root: &ExecutionId,
    reason: &str,
    timer: &dyn Timer,
) -> Result<CancelReport, StoreError>
where
    R: BranchRegistry + ?Sized,
{
    cancel(dispatchers, registry, root, reason, timer, false).await
}

/// How one execution was found.
enum Found {
    Ended,
    Finished,
    NotRunning,
    Failed(DispatchError),
}

/// Whether another worker runs it.
fn is_elsewhere(found: &Found) -> bool {
    matches!(
        found,
        Found::Failed(DispatchError::Leased { .. } | DispatchError::TakenOver { .. })
    )
}

type Look<'a> = Pin<Box<dyn Future<Output = (ExecutionId, Found)> + Send + 'a>>;

async fn cancel<R>(
    dispatchers: &[&dyn ExecutionDispatcher],
    registry: &R,
    root: &ExecutionId,
    reason: &str,
    timer: &dyn Timer,
    with_root: bool,
) -> Result<CancelReport, StoreError>
where
    R: BranchRegistry + ?Sized,
{
    let mut report = CancelReport::default();
    let mut seen = HashSet::with_hasher(RandomState::new());
    seen.insert(root.clone());
    let mut waiting = Vec::new();
    let mut asked: FuturesUnordered<Look<'_>> = FuturesUnordered::new();
    let ask = |id| -> Look<'_> { Box::pin(end(dispatchers, id, reason, timer)) };
    if with_root {
        asked.push(ask(root.clone()));
    } else {
        waiting.extend(new_children(registry, root, &mut seen).await?);
    }
    // Those whose branches may have become more.
    let mut parents = vec![root.clone()];
    loop {
        while asked.len() < AT_ONCE
            && let Some(id) = waiting.pop()
        {
            asked.push(ask(id));
        }
        if let Some((id, found)) = asked.next().await {
            if is_elsewhere(&found) {
                // Its branches are that worker's too, also those that nobody is at just now.
                parents.retain(|parent| *parent != id);
            } else {
                waiting.extend(new_children(registry, &id, &mut seen).await?);
                if id != *root {
                    parents.push(id.clone());
                }
            }
            match found {
                Found::Ended => report.ended.push(id),
                Found::Finished => report.finished.push(id),
                Found::NotRunning => report.not_running.push(id),
                Found::Failed(error) => report.failed.push((id, error)),
            }
            continue;
        }
        for parent in &parents {
            waiting.extend(new_children(registry, parent, &mut seen).await?);
        }
        if waiting.is_empty() {
            return Ok(report);
        }
    }
}

async fn new_children<R: BranchRegistry + ?Sized>(
    registry: &R,
    parent: &ExecutionId,
    seen: &mut HashSet<ExecutionId, RandomState>,
) -> Result<Vec<ExecutionId>, StoreError> {
    let children = registry.children(Children::new(parent.clone())).await?;
    let new = children.into_iter().map(|branch| branch.child);
    Ok(new.filter(|child| seen.insert(child.clone())).collect())
}

/// Asks whoever runs it to end an execution, and waits until it has.
async fn end(
    dispatchers: &[&dyn ExecutionDispatcher],
    id: ExecutionId,
    reason: &str,
    timer: &dyn Timer,
) -> (ExecutionId, Found) {
    let mut pause = Duration::from_millis(1);
    let mut was_running = false;
    loop {
        match ask(dispatchers, &id, reason).await {
            Ok(Cancellation::AlreadyFinished(_)) if was_running => return (id, Found::Ended),
            Ok(Cancellation::AlreadyFinished(_)) => return (id, Found::Finished),
            Ok(Cancellation::Cancelled) => return (id, Found::Ended),
            Ok(Cancellation::NotRunning) => return (id, Found::NotRunning),
            Ok(_) => was_running = true,
            Err(error) => return (id, Found::Failed(error)),
        }
        timer.sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Asks in turn until a dispatcher has it. An error counts only if none does.
async fn ask(
    dispatchers: &[&dyn ExecutionDispatcher],
    id: &ExecutionId,
    reason: &str,
) -> Result<Cancellation, DispatchError> {
    let mut answer = Ok(Cancellation::NotRunning);
    for dispatcher in dispatchers {
        match dispatcher
            .cancel(CancelRequest::new(id.clone(), reason))
            .await
        {
            Ok(Cancellation::NotRunning) => {}
            Err(error) => answer = Err(error),
            taken => return taken,
        }
    }
    answer
}
