//! The store on PostgreSQL beside what one would write by hand, on servers of its own that sync (`fsync`, and
//! `synchronous_commit` by default).

mod by_hand;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use loom_spi::{Append, EventStore, ExecutionId, NewEvent};
use loom_store_postgres::{Options, PostgresStore};
use loom_test_postgres::{Cluster, Settings as Server, unique_name};

use self::by_hand::Tables;
use crate::report::{Row, Target};
use crate::timing::{Ratio, median};
use crate::{Failure, Outcome, Settings};

const SUITE: &str = "postgres";

/// Odd, so that the median is one of them.
const ROUNDS: usize = 5;

/// Of every event.
const BYTES: usize = 256;

/// Appends of each of the concurrent writers in one round.
const EACH: u64 = 150;

pub(crate) fn run(_: &Settings) -> Result<Outcome, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(measure())
}

async fn measure() -> Result<Outcome, Failure> {
    let server = || Cluster::start(&Server::durable().with("max_connections", "300"));
    let (first, second) = (server()?, server()?);
    let mut outcome = Outcome::default();
    outcome.add(vec![concurrent(&first, 64, true).await?].into());
    outcome.add(vec![batched(&first).await?].into());
    outcome.add(vec![concurrent(&first, 256, false).await?].into());
    outcome.add(vec![lone(&first).await?].into());
    outcome.add(
        vec![
            two_servers(&first, &second, 64).await?,
            two_servers(&first, &second, 2).await?,
        ]
        .into(),
    );
    Ok(outcome)
}

/// What a round of both sides took, for as many appends.
type Round = (Duration, Duration);

async fn store(cluster: &Cluster) -> Result<Arc<PostgresStore>, Failure> {
    let location = format!("{}?schema={}", cluster.url("postgres"), unique_name()).parse()?;
    Ok(Arc::new(
        PostgresStore::create(&location, Options::new()).await?,
    ))
}

fn event() -> NewEvent {
    NewEvent::new("bench.event", vec![7_u8; BYTES])
}

/// So many writers, each appending to a log of its own and waiting for every answer.
async fn write(
    stores: &[Arc<PostgresStore>],
    writers: usize,
    each: u64,
    round: usize,
) -> Result<Duration, Failure> {
    let mut tasks = Vec::with_capacity(writers);
    let begun = Instant::now();
    for (writer, store) in (0..writers).zip(stores.iter().cycle()) {
        let store = Arc::clone(store);
        let id = ExecutionId::new(format!("bench-{round}-{writer}"))?;
        tasks.push(tokio::spawn(async move {
            for sequence in 0..each {
                let append = Append::new(id.clone(), sequence, vec![event()]);
                store.append(append).await?;
            }
            Ok::<_, Failure>(())
        }));
    }
    for ended in try_join_all(tasks).await? {
        ended?;
    }
    Ok(begun.elapsed())
}

/// The rate of ours divided by the rate of theirs, with both in the note.
fn row(
    what: String,
    against: &str,
    rounds: &[Round],
    appends: (u64, u64),
    target: Option<f64>,
    note: &str,
) -> Row {
    let ours = |round: &Round| appends.0 as f64 / round.0.as_secs_f64();
    let theirs = |round: &Round| appends.1 as f64 / round.1.as_secs_f64();
    let note = format!(
        "{:.0} against {:.0} appends/s of {BYTES} B; {note}fsync on, synchronous_commit on",
        median(rounds.iter().map(ours)),
        median(rounds.iter().map(theirs)),
    );
    let ratio = Ratio::of(rounds.iter().map(|round| ours(round) / theirs(round)));
    Row::new(
        SUITE,
        what,
        against,
        ratio,
        target.map(Target::AtLeast),
        note,
    )
}

/// Against one INSERT in a transaction for each append, that many connections.
async fn concurrent(cluster: &Cluster, writers: usize, bound: bool) -> Result<Row, Failure> {
    let ours = [store(cluster).await?];
    let theirs = Tables::create(cluster, writers.min(250)).await?;
    let mut rounds = Vec::new();
    for round in 0..=ROUNDS {
        let a = write(&ours, writers, EACH, round).await?;
        let b = theirs.one_by_one(writers, EACH, round).await?;
        if round > 0 {
            rounds.push((a, b));
        }
    }
    let appends = writers as u64 * EACH;
    Ok(row(
        format!("{writers} concurrent appends"),
        "one sequence-checked INSERT per transaction, a connection for each writer (250 at most)",
        &rounds,
        (appends, appends),
        bound.then_some(2.5),
        "8 connections against one for each; ",
    ))
}

/// Against what the engine can do with batches made by hand.
async fn batched(cluster: &Cluster) -> Result<Row, Failure> {
    const WRITERS: usize = 64;
    const BATCHES: u64 = 150;
    let ours = [store(cluster).await?];
    let theirs = Tables::create(cluster, 4).await?;
    let mut rounds = Vec::new();
    for round in 0..=ROUNDS {
        let a = write(&ours, WRITERS, EACH, round).await?;
        let b = theirs.in_batches(4, BATCHES, 64, round).await?;
        if round > 0 {
            rounds.push((a, b));
        }
    }
    Ok(row(
        format!("{WRITERS} concurrent appends"),
        "hand-batched unnest of 64, 4 connections, nothing checked",
        &rounds,
        (WRITERS as u64 * EACH, 4 * BATCHES * 64),
        Some(0.3),
        "",
    ))
}

async fn lone(cluster: &Cluster) -> Result<Row, Failure> {
    const APPENDS: u64 = 1_000;
    let ours = [store(cluster).await?];
    let theirs = Tables::create(cluster, 1).await?;
    let mut rounds = Vec::new();
    for round in 0..=ROUNDS {
        let a = write(&ours, 1, APPENDS, round).await?;
        let b = theirs.inserted(APPENDS, round).await?;
        if round > 0 {
            rounds.push((a, b));
        }
    }
    Ok(row(
        "a lone writer".to_owned(),
        "one prepared INSERT, nothing checked",
        &rounds,
        (APPENDS, APPENDS),
        Some(0.9),
        "",
    ))
}

/// The same writers over two servers and over one, on one machine.
async fn two_servers(first: &Cluster, second: &Cluster, writers: usize) -> Result<Row, Failure> {
    let both = [store(first).await?, store(second).await?];
    let one = [store(first).await?];
    let each = if writers < 8 { 500 } else { EACH };
    let mut rounds = Vec::new();
    for round in 0..=ROUNDS {
        let a = write(&both, writers, each, round).await?;
        let b = write(&one, writers, each, round).await?;
        if round > 0 {
            rounds.push((a, b));
        }
    }
    let appends = writers as u64 * each;
    Ok(row(
        format!("{writers} writers over two servers"),
        "the same over one",
        &rounds,
        (appends, appends),
        None,
        "both on this machine and its one disk; the gain is for separate machines; ",
    ))
}
