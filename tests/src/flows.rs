//! What the executions of the tests of durable execution do.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use loom_journal::JournalOptions;
use loom_spi::EventStore;
use loom_worker::{FlowContext, FlowError, LocalWorkerRuntime};
use serde_json::Value;

/// Tells whoever started this process, who may be gone.
pub fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// How long leases last: what `LOOM_DURABLE_LEASE_MS` says, or long enough for a process that gets no processor for
/// a while.
#[must_use]
pub fn lease() -> Duration {
    let told = std::env::var("LOOM_DURABLE_LEASE_MS").ok();
    let told = told.and_then(|text| text.parse().ok());
    Duration::from_millis(told.unwrap_or(10_000))
}

/// Effects of each node of a graph.
const STEPS: u32 = 3;

/// A runtime with all flows, which leave their traces in a folder.
#[must_use]
pub fn worker(store: Arc<dyn EventStore>, folder: &Path) -> LocalWorkerRuntime {
    let effects = folder.join("effects");
    let (echo_begun, wait_begun) = (folder.join("begun"), folder.join("begun"));
    let meet_effects = effects.clone();
    let halfway_effects = effects.clone();
    LocalWorkerRuntime::builder(store)
        .flow("part", move |flow| part(flow, effects.clone()))
        .flow("halfway", move |flow| {
            halfway(flow, halfway_effects.clone())
        })
        .flow("meet", move |flow| meet(flow, meet_effects.clone()))
        // Those of the conformance suite of dispatchers.
        .flow("echo", move |flow| echo(flow, echo_begun.clone()))
        .flow("sum", sum)
        .flow("fail", |_| async {
            Err::<(), _>(FlowError::new("as told"))
        })
        .flow("flaky", flaky)
        .flow("panic", panics)
        .flow("wait", move |flow| wait(flow, wait_begun.clone()))
        .journal_options(JournalOptions::default().with_lease(lease()))
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

/// How many nodes meet.
pub const MEETING: usize = 3;

/// Says that it is there, and waits until as many are there as meet.
async fn meet(flow: FlowContext, effects: PathBuf) -> Result<u32, FlowError> {
    let line = format!("{} meet - {}\n", flow.id(), std::process::id());
    let effect = flow.effect("meet", |_| async move {
        append(&effects, &line)?;
        while fs::read_to_string(&effects)?.lines().count() < MEETING {
            tokio::task::yield_now().await;
        }
        Ok::<_, io::Error>(std::process::id())
    });
    Ok(effect.await?)
}

async fn echo(flow: FlowContext, begun: PathBuf) -> Result<Value, FlowError> {
    append(&begun, &format!("{}\n", flow.id()))?;
    let input: Value = flow.input()?;
    let effect = flow.effect("echo", |_| async move { Ok::<_, io::Error>(input) });
    Ok(effect.await?)
}

async fn sum(flow: FlowContext) -> Result<u64, FlowError> {
    let mut sum = 0;
    for upstream in flow.upstream() {
        sum += flow.upstream_output::<u64>(&upstream.key)?;
    }
    Ok(sum)
}

/// Succeeds at the third attempt, each of which is an execution of its own.
async fn flaky(flow: FlowContext) -> Result<u32, FlowError> {
    match flow.id().as_str().rsplit_once('~') {
        Some((_, "3")) => Ok(3),
        _ => Err(FlowError::new("not yet")),
    }
}

#[expect(clippy::panic, reason = "that is what it is for")]
async fn panics(_: FlowContext) -> Result<(), FlowError> {
    panic!("out of paper")
}

async fn wait(flow: FlowContext, begun: PathBuf) -> Result<(), FlowError> {
    append(&begun, &format!("{}\n", flow.id()))?;
    std::future::pending().await
}

/// Appends to a file in one write, so that what several processes append does not mix.
fn append(file: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(file)?;
    file.write_all(text.as_bytes())
}

/// Appends a line to the file of effects, in one write, and is worth the step.
async fn effect(flow: &FlowContext, effects: &Path, step: u32) -> Result<u32, FlowError> {
    let (id, effects) = (flow.id().clone(), effects.to_owned());
    let effect = flow.effect(format!("step-{step}"), |key| async move {
        let line = format!("{id} step-{step} {key} {}\n", std::process::id());
        append(&effects, &line)?;
        say(&format!("effect {id} step-{step}"));
        Ok::<_, io::Error>(step)
    });
    Ok(effect.await?)
}
