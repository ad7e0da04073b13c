//! What others notice when old logs are removed and their space is given back.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loom_spi::{Append, Delete, EventStore, ExecutionId, Timestamp};
use loom_store_sqlite::{Options, SqliteStore};
use tokio::runtime::Runtime;

use super::writers::event;
use super::{SUITE, loom};
use crate::report::{Row, Target};
use crate::timing::{Ratio, median};
use crate::{Failure, stores};

/// Odd, so that the median is one of them.
const ROUNDS: usize = 7;
/// Logs that are removed in a round.
const LOGS: usize = 600;
/// Appends that are timed alone, and at least beside.
const APPENDS: usize = 500;
/// Pages given back at once.
const PAGES: u32 = 64;

pub(super) fn rows(runtime: &Runtime) -> Result<Vec<Row>, Failure> {
    let mut rows = runtime.block_on(as_fast_as_it_goes())?;
    if loom::is_there("appends beside `loom retain`")? {
        rows.extend(runtime.block_on(beside_the_command())?);
    }
    Ok(rows)
}

/// Deletions and releases without a pause, in the process that appends.
async fn as_fast_as_it_goes() -> Result<Vec<Row>, Failure> {
    let folder = stores::folder()?;
    let path = folder.path().join("shard.db");
    let store = Arc::new(SqliteStore::create(path, Options::new()).await?);
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let old = fill(&store).await?;
        let alone = append(&store, |done| done < APPENDS).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let retention = tokio::spawn(remove(Arc::clone(&store), old, Arc::clone(&stop)));
        let beside = append(&store, |done| done < APPENDS).await?;
        stop.store(true, Ordering::Relaxed);
        retention.await??;
        rounds.push((alone, beside));
    }
    store.close().await?;
    Ok(both(
        "logs are deleted and 64 pages at a time released, without a pause",
        &rounds,
        Some(Target::AtMost(1.5)),
    ))
}

async fn remove(
    store: Arc<SqliteStore>,
    old: Vec<ExecutionId>,
    stop: Arc<AtomicBool>,
) -> Result<(), Failure> {
    for (id, deleted) in old.into_iter().zip(1_u64..) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        store.delete(Delete::new(id)).await?;
        if deleted.is_multiple_of(8) {
            store.release_space(PAGES).await?;
        }
    }
    Ok(())
}

/// The command, another process on the same file, until it is done.
async fn beside_the_command() -> Result<Vec<Row>, Failure> {
    let folder = stores::folder()?;
    let deployment = folder.path().join("deployment");
    loom::init(&deployment, "1")?;
    let store = SqliteStore::open(file(&deployment)?, Options::new()).await?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        fill(&store).await?;
        let alone = append(&store, |done| done < APPENDS).await?;
        let arguments = ["retain", "--closed-for", "30d"].map(OsStr::new);
        let mut command = loom::command(&deployment, &arguments)?.spawn()?;
        let mut over = None;
        let beside = append(&store, |_| match command.try_wait() {
            Ok(None) => true,
            ended => {
                over = Some(ended);
                false
            }
        })
        .await?;
        match over {
            Some(Ok(Some(status))) if status.success() => rounds.push((alone, beside)),
            ended => return Err(format!("`loom retain` ended with {ended:?}").into()),
        }
    }
    store.close().await?;
    Ok(both(
        "`loom retain` runs, another process",
        &rounds,
        Some(Target::AtMost(1.5)),
    ))
}

/// The file of the only shard.
fn file(deployment: &Path) -> Result<PathBuf, Failure> {
    for entry in std::fs::read_dir(deployment)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "db") {
            return Ok(path);
        }
    }
    Err("the deployment has no shard".into())
}

/// Old logs of 50 events, which lie on the same pages in turn.
async fn fill(store: &SqliteStore) -> Result<Vec<ExecutionId>, Failure> {
    let ids: Vec<ExecutionId> = (0..LOGS).map(|_| ExecutionId::generate()).collect();
    let old = event().recorded_at(Timestamp::from_millis(1));
    for part in 0..5 {
        for id in &ids {
            let mut events = vec![old.clone(); 10];
            if part == 4 {
                events[9] = old.clone().terminal();
            }
            let append = Append::new(id.clone(), part * 10, events);
            store.append(append).await?;
        }
    }
    Ok(ids)
}

/// What each append of a lone writer takes, sorted.
async fn append(
    store: &SqliteStore,
    mut goes_on: impl FnMut(usize) -> bool,
) -> Result<Vec<Duration>, Failure> {
    let id = ExecutionId::generate();
    let mut took = Vec::new();
    for sequence in 0.. {
        if !goes_on(took.len()) {
            break;
        }
        let append = Append::new(id.clone(), sequence, vec![event()]);
        let started = Instant::now();
        store.append(append).await?;
        took.push(started.elapsed());
    }
    took.sort_unstable();
    Ok(took)
}

/// The median and what 99 of 100 stay within.
fn both(
    while_what: &str,
    rounds: &[(Vec<Duration>, Vec<Duration>)],
    target: Option<Target>,
) -> Vec<Row> {
    let row = |name: &str, percent: usize, target| {
        let at = |sorted: &[Duration]| {
            let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
            sorted.get(place).map_or(f64::NAN, Duration::as_secs_f64)
        };
        let note = format!(
            "{:.2} against {:.2} ms",
            1e3 * median(rounds.iter().map(|(_, beside)| at(beside))),
            1e3 * median(rounds.iter().map(|(alone, _)| at(alone))),
        );
        Row::new(
            SUITE,
            format!("{name} of a lone append, while {while_what}"),
            "alone",
            Ratio::of(rounds.iter().map(|(alone, beside)| at(beside) / at(alone))),
            target,
            note,
        )
    };
    vec![row("median", 50, target), row("p99", 99, None)]
}
