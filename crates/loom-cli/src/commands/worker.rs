//! `loom worker`: the process that a node of a graph gets with `--runtime process`.

use std::sync::Arc;

use loom_spi::EventStore;
use loom_worker::Assignment;
use tokio::sync::watch;

use super::graph::interrupted;
use crate::args::{WorkerCommand, WorkerRun};
use crate::deployment::Deployment;
use crate::failure::Failure;
use crate::graph;

pub(super) async fn run(command: &WorkerCommand, deployment: &Deployment) -> Result<(), Failure> {
    let WorkerCommand::Run(WorkerRun { folder }) = command;
    let assignment = Assignment::from_env().map_err(|error| {
        Failure::usage(error.to_string()).with_help(
            "`loom graph run --runtime process` starts workers: there is no need to do so by hand",
        )
    })?;
    let store: Arc<dyn EventStore> = Arc::new(deployment.store.clone());
    let stop = Arc::new(watch::Sender::new(false));
    let lease = deployment.config.limits.lease();
    let options = graph::journal_options(lease);
    let runtime = graph::local_workers(store, folder, &stop, options);
    let ended = tokio::select! {
        ended = runtime.run_assigned(&assignment) => ended,
        interrupted = interrupted() => {
            interrupted?;
            // Ends when its command has been killed. Nothing is recorded, and whoever resumes it need not wait.
            stop.send_replace(true);
            stop.closed().await;
            runtime.shut_down().await;
            return Err(Failure::failed(format!("`{}` was stopped", assignment.execution)));
        }
    };
    // What it came to stands in its log, where it is looked for.
    ended.map(drop).map_err(Failure::from)
}
