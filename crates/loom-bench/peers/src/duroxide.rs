//! duroxide on its SQLite provider: orchestrations that schedule activities, and the provider by itself.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::providers::Provider as _;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, Event, EventKind, OrchestrationContext, OrchestrationRegistry,
    OrchestrationStatus,
};
use tokio::runtime::Runtime;

use crate::writers::{Place, Writers, runtime};
use crate::{EVENT, Failure, LOG, Peer, expect_log};

const SETTING: &str = "WAL, synchronous=WAL, which SQLite does not know and takes as NORMAL: a commit is not synced (providers/sqlite.rs); its own options";

async fn store(folder: &Path) -> Result<Arc<SqliteProvider>, Failure> {
    let file = folder.join("history.db");
    std::fs::File::create(&file)?;
    let url = format!("sqlite:{}", file.display());
    Ok(Arc::new(SqliteProvider::new(&url, None).await?))
}

/// How often orchestrations are run anew.
const TRIES: u32 = 5;

struct Duroxide {
    runtime: Runtime,
    /// Runs what was started for as long as it is there.
    _durable: Arc<duroxide::runtime::Runtime>,
    client: Arc<Client>,
    started: u64,
}

pub fn open(folder: &Path) -> Result<impl Peer + use<>, Failure> {
    let runtime = runtime()?;
    let (durable, client) = runtime.block_on(async {
        let store = store(folder).await?;
        let activities = ActivityRegistry::builder()
            .register("step", |_: ActivityContext, _: String| async {
                Ok("7".repeat(EVENT))
            })
            .register("noop", |_: ActivityContext, _: String| async {
                Ok(String::new())
            })
            .build();
        let orchestrations = OrchestrationRegistry::builder()
            .register("steps", steps)
            .register("graph", graph)
            .build();
        let client = Arc::new(Client::new(Arc::clone(&store) as _));
        let durable =
            duroxide::runtime::Runtime::start_with_store(store, activities, orchestrations).await;
        Ok::<_, Failure>((durable, client))
    })?;
    Ok(Duroxide {
        runtime,
        _durable: durable,
        client,
        started: 0,
    })
}

/// One step after another.
async fn steps(context: OrchestrationContext, count: String) -> Result<String, String> {
    for _ in 0..number(&count)? {
        context.schedule_activity("step", "").await?;
    }
    Ok(String::new())
}

/// All nodes at once, as its example of a fan-out does.
async fn graph(context: OrchestrationContext, nodes: String) -> Result<String, String> {
    let nodes = (0..number(&nodes)?)
        .map(|_| context.schedule_activity("noop", ""))
        .collect();
    for done in context.join(nodes).await {
        done?;
    }
    Ok(String::new())
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|error| format!("{text}: {error}"))
}

impl Duroxide {
    /// Starts so many orchestrations, and waits for all of them. Its SQLite provider gives orchestrations up when it
    /// finds the database locked too often: then all are run anew, and what went before does not count.
    fn orchestrate(&mut self, count: usize, name: &str, input: u64) -> Result<Duration, Failure> {
        let mut tries = 0;
        loop {
            match self.try_orchestrate(count, name, input) {
                Err(error) if tries < TRIES => {
                    eprintln!("duroxide: once more: {error}");
                    tries += 1;
                }
                result => return result,
            }
        }
    }

    fn try_orchestrate(
        &mut self,
        count: usize,
        name: &str,
        input: u64,
    ) -> Result<Duration, Failure> {
        let first = self.started;
        self.started += count as u64;
        let runs: Vec<String> = (first..self.started)
            .map(|run| format!("run-{run}"))
            .collect();
        self.runtime.block_on(async {
            let started = Instant::now();
            for run in &runs {
                self.client
                    .start_orchestration(run, name, input.to_string())
                    .await?;
            }
            let mut failed = None;
            for run in &runs {
                let hour = Duration::from_secs(3600);
                match self.client.wait_for_orchestration(run, hour).await? {
                    OrchestrationStatus::Completed { .. } => {}
                    other => failed = Some(format!("an orchestration ended so: {other:?}")),
                }
            }
            match failed {
                Some(failed) => Err(failed.into()),
                None => Ok(started.elapsed()),
            }
        })
    }
}

impl Peer for Duroxide {
    fn setting(&self) -> (bool, &'static str) {
        (false, SETTING)
    }

    /// An activity is two events of the history, one when it is scheduled and one with its result.
    fn append(&mut self, writers: usize, each: u64) -> Result<Duration, Failure> {
        self.orchestrate(writers, "steps", each.div_ceil(2))
    }

    fn graph(&mut self, nodes: usize) -> Result<Duration, Failure> {
        self.orchestrate(1, "graph", nodes as u64)
    }
}

struct Provider {
    store: Arc<SqliteProvider>,
    runtime: Runtime,
    writers: Writers,
    log: u64,
}

/// What its runtime asks for: history, an event at a time.
pub fn provider(folder: &Path) -> Result<impl Peer + use<>, Failure> {
    let runtime = runtime()?;
    let store = runtime.block_on(store(folder))?;
    let mut writers = Writers::default();
    let log = writers.new_log();
    for next in 0..LOG {
        let writer = 0;
        runtime.block_on(append(Arc::clone(&store), Place { writer, log, next }))?;
    }
    Ok(Provider {
        store,
        runtime,
        writers,
        log,
    })
}

async fn append(store: Arc<SqliteProvider>, place: Place) -> Result<(), Failure> {
    let log = place.log.to_string();
    let result = "7".repeat(EVENT);
    let kind = EventKind::ActivityCompleted { result };
    let event = Event::with_event_id(place.next + 1, log.as_str(), 1, Some(1), kind);
    Ok(store.append_with_execution(&log, 1, vec![event]).await?)
}

impl Peer for Provider {
    fn setting(&self) -> (bool, &'static str) {
        (false, SETTING)
    }

    fn append(&mut self, writers: usize, each: u64) -> Result<Duration, Failure> {
        let store = Arc::clone(&self.store);
        let append = move |place| append(Arc::clone(&store), place);
        self.writers.as_tasks(&self.runtime, writers, each, append)
    }

    fn read(&mut self, times: u64) -> Result<Duration, Failure> {
        let log = self.log.to_string();
        self.runtime.block_on(async {
            let started = Instant::now();
            for _ in 0..times {
                let events = self.store.read(&log).await?;
                expect_log(events.len())?;
            }
            Ok(started.elapsed())
        })
    }
}
