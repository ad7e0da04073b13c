//! What the logs say about a graph and its nodes. They are the truth about it, whoever ran it.

use loom_graph_executor::{attempt_id, timed_out};
use loom_journal::{read_anchor, read_outcome};
use loom_spi::{EventStore, ExecutionId, ExecutionOutcome, Head};
use serde::Serialize;

use super::file::Definition;
use super::run::{GRAPH_FLOW, journal_failure};
use crate::failure::Failure;

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NodeState {
    Completed,
    Failed,
    Panicked,
    Cancelled,
    #[serde(rename = "timed-out")]
    TimedOut,
    /// Its log is open: it runs, or did when its process ended.
    Open,
    /// It has no log.
    Absent,
}

/// What the log of a node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeLog {
    pub(crate) state: NodeState,
    /// How many attempts were begun. One that was interrupted and gone on with is one.
    pub(crate) attempts: usize,
    pub(crate) output: Option<String>,
    /// Why it did not complete.
    pub(crate) message: Option<String>,
}

impl NodeLog {
    /// That of the last attempt at a node whose first execution is `first`, with which one that is.
    pub(crate) async fn read_last(
        store: &dyn EventStore,
        first: &ExecutionId,
    ) -> Result<(ExecutionId, Self), Failure> {
        let mut last = (first.clone(), Self::read(store, first).await?);
        for attempt in 2_u32.. {
            // Another attempt comes after one that did not complete.
            if matches!(
                last.1.state,
                NodeState::Absent | NodeState::Open | NodeState::Completed
            ) {
                break;
            }
            let id = attempt_id(first, attempt);
            let mut log = Self::read(store, &id).await?;
            if log.state == NodeState::Absent {
                break;
            }
            log.attempts = last.1.attempts + 1;
            last = (id, log);
        }
        Ok(last)
    }

    pub(crate) async fn read(store: &dyn EventStore, id: &ExecutionId) -> Result<Self, Failure> {
        let mut log = Self {
            state: NodeState::Absent,
            attempts: 0,
            output: None,
            message: None,
        };
        if store.head(Head::new(id.clone())).await?.is_none() {
            return Ok(log);
        }
        log.attempts = 1;
        match read_outcome(store, id).await.map_err(journal_failure)? {
            None => log.state = NodeState::Open,
            Some(ExecutionOutcome::Completed { output }) => {
                log.state = NodeState::Completed;
                // A command's output is text; whatever else stands there is shown as the JSON it is.
                let text = serde_json::from_slice::<String>(&output);
                log.output =
                    Some(text.unwrap_or_else(|_| String::from_utf8_lossy(&output).into_owned()));
            }
            Some(ExecutionOutcome::Cancelled { reason }) => {
                log.state = match timed_out(&reason) {
                    Some(_) => NodeState::TimedOut,
                    None => NodeState::Cancelled,
                };
                log.message = Some(reason);
            }
            Some(ExecutionOutcome::Failed(failure)) => {
                log.state = match failure.kind {
                    loom_spi::FailureKind::Panicked => NodeState::Panicked,
                    _ => NodeState::Failed,
                };
                log.message = Some(failure.message);
            }
            Some(other) => {
                log.state = NodeState::Failed;
                log.message = Some(format!(
                    "it ended in a way that this build does not know: {other:?}"
                ));
            }
        }
        Ok(log)
    }
}

/// The graph that execution `id` runs; `None` when there is no such execution.
pub(crate) async fn recorded_graph(
    store: &dyn EventStore,
    id: &ExecutionId,
) -> Result<Option<Definition>, Failure> {
    let Some(anchor) = read_anchor(store, id).await.map_err(journal_failure)? else {
        return Ok(None);
    };
    if anchor.flow != GRAPH_FLOW {
        return Err(Failure::refused(format!(
            "execution `{id}` is no run of a graph: its log was begun by flow `{}`",
            anchor.flow
        )));
    }
    serde_json::from_slice(&anchor.input)
        .map(Some)
        .map_err(|error| {
            Failure::failed(format!(
                "the graph in the log of execution `{id}` cannot be read"
            ))
            .with_cause(error)
        })
}
