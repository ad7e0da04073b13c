//! `loom graph cancel`.

use std::fmt::Write as _;
use std::sync::Arc;

use loom_graph_executor::CancelReport;
use loom_spi::{DispatchError, EventStore, ExecutionId, Head};
use serde::Serialize;

use super::super::log::not_found;
use crate::args::GraphCancel;
use crate::deployment::Deployment;
use crate::failure::Failure;
use crate::graph;
use crate::output::{Output, Tone, counted};

#[derive(Serialize)]
struct Report {
    id: String,
    /// They had been begun, and have been ended.
    ended: Vec<String>,
    /// They had ended before.
    finished: Vec<String>,
    /// They were never begun, and never will be.
    not_begun: Vec<String>,
    /// They were left as they are.
    failed: Vec<Left>,
}

#[derive(Serialize)]
struct Left {
    execution: String,
    message: String,
}

pub(super) async fn run(
    args: &GraphCancel,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    let id = &args.id;
    if deployment
        .store
        .head(Head::new(id.clone()))
        .await?
        .is_none()
    {
        return Err(not_found(id.as_str()));
    }
    let store: Arc<dyn EventStore> = Arc::new(deployment.store.clone());
    let lease = deployment.config.limits.lease();
    let mut cancelled = graph::cancel(store, id, &args.reason, lease).await?;
    let report = Report::new(id, &cancelled);
    output.print(&report, |output| report.text(output))?;
    cancelled.failed.sort_by(|a, b| a.0.cmp(&b.0));
    match cancelled.failed.into_iter().next() {
        None => Ok(()),
        Some((execution, error)) => Err(refusal(&execution, error)),
    }
}

fn refusal(execution: &ExecutionId, error: DispatchError) -> Failure {
    if let DispatchError::Leased { .. } = error {
        return Failure::refused(format!("`{execution}` was not ended: {error}")).with_help(
            "end the process that runs it, with Ctrl-C say, or wait until its lease has lapsed; then cancel again",
        );
    }
    Failure::from(error).context(format_args!("`{execution}` was not ended"))
}

impl Report {
    fn new(id: &ExecutionId, cancelled: &CancelReport) -> Self {
        let names = |ids: &[ExecutionId]| {
            let mut names: Vec<String> = ids.iter().map(ToString::to_string).collect();
            names.sort();
            names
        };
        let left = cancelled.failed.iter().map(|(execution, error)| Left {
            execution: execution.to_string(),
            message: error.to_string(),
        });
        let mut failed: Vec<Left> = left.collect();
        failed.sort_by(|a, b| a.execution.cmp(&b.execution));
        Self {
            id: id.to_string(),
            ended: names(&cancelled.ended),
            finished: names(&cancelled.finished),
            not_begun: names(&cancelled.not_running),
            failed,
        }
    }

    fn text(&self, output: Output) -> String {
        let mut text = format!(
            "{}: {} cancelled, {} had ended before, {} were never begun\n",
            output.paint(Tone::Strong, &self.id),
            counted(self.ended.len() as u64, "execution"),
            self.finished.len(),
            self.not_begun.len()
        );
        for execution in &self.ended {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {execution}");
        }
        for left in &self.failed {
            let problem = format!("{}: {}", left.execution, left.message);
            let _ = writeln!(text, "{} {problem}", output.paint(Tone::Bad, "left"));
        }
        text
    }
}
