//! A shard that grows: what a million more events cost, and what a large one is like to use.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use loom_spi::{Append, EventStore, ExecutionId, Head, NewEvent, Read};
use loom_store_sqlite::{Options, SqliteStore};

use super::writers::event;
use crate::logs::{self, Log};
use crate::report::{Row, Target};
use crate::stores::AT_ONCE;
use crate::timing::Ratio;
use crate::{Failure, Outcome, Settings, stores};

const SUITE: &str = "sqlite-size";
/// How large the shard becomes, if nothing else is said.
const EVENTS: u64 = 10_000_000;
/// How often it is looked at.
const STEP: u64 = 1_000_000;
/// Events that are sorted by execution before they are appended.
const WINDOW: usize = 4_096;
/// Times that a look is repeated.
const LOOKS: usize = 1_001;

/// The shard at one moment.
struct Point {
    events: u64,
    took: Duration,
    bytes: u64,
    /// Of this process, if the system says so.
    resident: Option<u64>,
}

/// Appends a log again and again, under new ids, to one shard.
pub(crate) fn run(settings: &Settings) -> Result<Outcome, Failure> {
    let log = match logs::real(settings, "loan-applications")? {
        Some(log) => log,
        None => logs::synthetic(),
    };
    let goal = settings.events.unwrap_or(EVENTS);
    let folder = stores::folder()?;
    let path = folder.path().join("shard.db");
    stores::runtime()?.block_on(async {
        let store = SqliteStore::create(&path, Options::new()).await?;
        let hundred = ExecutionId::generate();
        let append = Append::new(hundred.clone(), 0, vec![event(); 100]);
        store.append(append).await?;
        let points = grow(&store, &path, &log, goal).await?;
        let mut text = table(&log, &points);
        let looks = looks(&store, &log, &hundred, &points).await?;
        store.close().await?;
        drop(store);
        text += &looks;
        text += &cold(&path, &hundred).await?;
        Ok(Outcome {
            rows: rows(&points),
            text,
        })
    })
}

async fn grow(
    store: &SqliteStore,
    path: &Path,
    log: &Log,
    goal: u64,
) -> Result<Vec<Point>, Failure> {
    let mut points: Vec<Point> = Vec::new();
    let (mut events, mut since) = (0, Instant::now());
    for copy in 0_u64.. {
        let mut lengths: HashMap<&ExecutionId, u64> = HashMap::new();
        for window in log.events.chunks(WINDOW) {
            let mut groups: HashMap<&ExecutionId, Vec<NewEvent>> = HashMap::new();
            for logged in window {
                let group = groups.entry(&logged.execution).or_default();
                group.push(logged.event.clone());
            }
            let mut appends = Vec::with_capacity(groups.len());
            for (id, events) in groups {
                let length = lengths.entry(id).or_default();
                appends.push(Append::new(copied(id, copy)?, *length, events.clone()));
                *length += events.len() as u64;
            }
            stream::iter(appends)
                .map(|append| store.append(append))
                .buffer_unordered(AT_ONCE)
                .try_for_each(|_| std::future::ready(Ok(())))
                .await?;
            events += window.len() as u64;
            let next = points.last().map_or(0, |point| point.events) + STEP;
            if events >= next || events >= goal {
                let point = Point {
                    events,
                    took: since.elapsed(),
                    bytes: size(path)?,
                    resident: resident(),
                };
                eprintln!("{}", line(points.last(), &point));
                points.push(point);
                since = Instant::now();
            }
            if events >= goal {
                return Ok(points);
            }
        }
    }
    Ok(points)
}

/// The id of an execution in a copy of the log.
fn copied(id: &ExecutionId, copy: u64) -> Result<ExecutionId, Failure> {
    Ok(ExecutionId::new(format!("{copy}-{}", id.as_str()))?)
}

/// With the write-ahead log.
fn size(path: &Path) -> Result<u64, Failure> {
    let mut beside = path.as_os_str().to_owned();
    beside.push("-wal");
    Ok(path.metadata()?.len() + Path::new(&beside).metadata()?.len())
}

fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

fn table(log: &Log, points: &[Point]) -> String {
    let mut text = format!(
        "One shard, {} copied again and again, {AT_ONCE} appends at once, FULL:\n\n\
         | events | time of these | events/s | file and write-ahead log | of these | resident |\n\
         | --- | --- | --- | --- | --- | --- |\n",
        log.name
    );
    let mut before = None;
    for point in points {
        text += &line(before, point);
        text.push('\n');
        before = Some(point);
    }
    text
}

fn line(before: Option<&Point>, point: &Point) -> String {
    let events = point.events - before.map_or(0, |before| before.events);
    let bytes = point
        .bytes
        .saturating_sub(before.map_or(0, |before| before.bytes));
    let resident = point.resident.map_or("?".to_owned(), mib);
    format!(
        "| {} | {:.1} s | {:.0} | {} | {} | {resident} |",
        point.events,
        point.took.as_secs_f64(),
        super::per_second(events, point.took),
        mib(point.bytes),
        mib(bytes),
    )
}

fn mib(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20))
}

fn rows(points: &[Point]) -> Vec<Row> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Vec::new();
    };
    let (Some(begun), Some(ended)) = (first.resident, last.resident) else {
        eprintln!("SKIPPED: memory: this system does not say how much a process has");
        return Vec::new();
    };
    vec![Row::new(
        SUITE,
        format!("memory of the process with {} events", last.events),
        format!("with {}", first.events),
        Ratio::exact(ended as f64 / begun as f64),
        Some(Target::AtMost(1.1)),
        format!("{} against {}", mib(ended), mib(begun)),
    )]
}

/// Looks at executions all over the shard, and again and again at the same.
async fn looks(
    store: &SqliteStore,
    log: &Log,
    hundred: &ExecutionId,
    points: &[Point],
) -> Result<String, Failure> {
    let copies = points.last().map_or(0, |point| point.events) / log.events.len() as u64;
    let mut spread = Vec::with_capacity(LOOKS);
    for look in 0..LOOKS {
        // Far from each other: primes.
        let at = look * 7_919 % log.events.len();
        let copy = (look as u64 * 31) % copies.max(1);
        spread.push(copied(&log.events[at].execution, copy)?);
    }
    let mut text = String::from("\n| look | median | 99 of 100 |\n| --- | --- | --- |\n");
    let (mut times, mut found) = (Vec::new(), 0);
    for id in &spread {
        let begun = Instant::now();
        let head = store.head(Head::new(id.clone())).await?;
        times.push(begun.elapsed());
        found += u64::from(head.is_some());
    }
    if copies > 0 && found != LOOKS as u64 {
        return Err(format!("{found} of {LOOKS} executions were found").into());
    }
    add(&mut text, "`head` of executions all over the shard", times);
    let mut times = Vec::new();
    for _ in 0..LOOKS {
        let begun = Instant::now();
        black_box(store.head(Head::new(hundred.clone())).await?);
        times.push(begun.elapsed());
    }
    add(&mut text, "`head` of the same execution", times);
    let mut times = Vec::new();
    for _ in 0..LOOKS {
        let begun = Instant::now();
        read(store, hundred).await?;
        times.push(begun.elapsed());
    }
    add(
        &mut text,
        "read of an execution of 100 events of 256 B",
        times,
    );
    Ok(text)
}

async fn read(store: &SqliteStore, id: &ExecutionId) -> Result<(), Failure> {
    let page = store.read(Read::new(id.clone(), 0, 100)).await?;
    if page.events.len() == 100 {
        return Ok(());
    }
    Err(format!("{} events were read, not 100", page.events.len()).into())
}

fn add(text: &mut String, what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6;
    let _ = writeln!(text, "| {what} | {:.1} µs | {:.1} µs |", at(50), at(99));
}

/// Opens the shard when nothing of it is in memory, and reads.
async fn cold(path: &Path, hundred: &ExecutionId) -> Result<String, Failure> {
    let mut text = String::new();
    let mut line = |what: &str, took: Duration| {
        let took = took.as_secs_f64() * 1e3;
        let _ = writeln!(text, "| {what} | {took:.1} ms | |");
    };
    forget(path)?;
    let begun = Instant::now();
    let store = SqliteStore::open(path, Options::new()).await?;
    line("cold open", begun.elapsed());
    let begun = Instant::now();
    read(&store, hundred).await?;
    line("first read of 100 events after it", begun.elapsed());
    store.close().await?;
    let begun = Instant::now();
    let store = SqliteStore::open(path, Options::new()).await?;
    line("open again", begun.elapsed());
    store.close().await?;
    Ok(text)
}

/// Has the system drop what it keeps of a file in memory.
#[cfg(target_os = "linux")]
fn forget(path: &Path) -> Result<(), Failure> {
    let file = std::fs::File::open(path)?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn forget(path: &Path) -> Result<(), Failure> {
    eprintln!(
        "{} is still in memory: opening it is not cold here",
        path.display()
    );
    Ok(())
}
