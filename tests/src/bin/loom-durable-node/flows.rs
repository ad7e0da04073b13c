//! What executions do.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use loom_journal::JournalOptions;
use loom_spi::EventStore;
use loom_worker::{FlowContext, FlowError, LocalWorkerRuntime};

use crate::say;

/// Short, so that whoever follows a killed process does not wait for long.
pub(crate) const LEASE: Duration = Duration::from_millis(150);
/// Effects of each node of a graph.
const STEPS: u32 = 3;

pub(crate) fn worker(store: Arc<dyn EventStore>, folder: &str) -> LocalWorkerRuntime {
    let effects = Path::new(folder).join("effects");
    let halfway_effects = effects.clone();
    LocalWorkerRuntime::builder(store)
        .flow("part", move |flow| part(flow, effects.clone()))
        .flow("halfway", move |flow| {
            halfway(flow, halfway_effects.clone())
        })
        .journal_options(JournalOptions::default().with_lease(LEASE))
        .build()
}

async fn part(flow: FlowContext, effects: PathBuf) -> Result<u32, FlowError> {
    let mut sum: u32 = flow.input()?;
    for upstream in flow.upstream() {
        sum += flow.upstream_output::<u32>(&upstream.key)?;
    }
    for step in 0..STEPS {
        sum += effect(&flow, &effects, step).await?;
    }
    Ok(sum)
}

/// Six effects, between the third and the fourth of which it waits for a line on stdin.
async fn halfway(flow: FlowContext, effects: PathBuf) -> Result<u32, FlowError> {
    let mut sum = 0;
    for step in 0..6 {
        if step == 3 {
            say("halfway");
            let line = tokio::task::spawn_blocking(|| io::stdin().lines().next());
            line.await?.transpose()?;
        }
        sum += effect(&flow, &effects, step).await?;
    }
    Ok(sum)
}

/// Appends a line to the file of effects, in one write, and is worth the step.
async fn effect(flow: &FlowContext, effects: &Path, step: u32) -> Result<u32, FlowError> {
    let (id, effects) = (flow.id().clone(), effects.to_owned());
    let effect = flow.effect(format!("step-{step}"), |key| async move {
        let line = format!("{id} step-{step} {key} {}\n", std::process::id());
        let mut file = OpenOptions::new().append(true).create(true).open(effects)?;
        file.write_all(line.as_bytes())?;
        say(&format!("effect {id} step-{step}"));
        Ok::<_, io::Error>(step)
    });
    Ok(effect.await?)
}
