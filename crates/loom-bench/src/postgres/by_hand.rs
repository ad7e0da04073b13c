//! Appends as one would write them by hand.

use std::time::Instant;

use loom_spi::ExecutionId;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use super::Server;
use crate::Failure;
use crate::turns::per_second;

/// A way to append one event in one statement, which is a transaction by itself.
pub(super) struct Way {
    pub(super) what: &'static str,
    /// Has a database of this name.
    name: &'static str,
    tables: &'static str,
    /// The first event of a log.
    first: &'static str,
    /// Any other one.
    next: &'static str,
    /// Whether one that does not follow the last one is refused.
    checks: bool,
}

const EVENTS: &str = "
    CREATE TABLE events (
        log text NOT NULL, seq int8 NOT NULL, recorded_at int8 NOT NULL, kind text NOT NULL, payload bytea NOT NULL,
        PRIMARY KEY (log, seq)
    );";

const INSERT: &str =
    "INSERT INTO events (log, seq, recorded_at, kind, payload) VALUES ($1, $2, $3, $4, $5)";

/// The primary key refuses what is there already, and the condition what would leave a gap. It knows no head, no end of
/// a log and no seal.
pub(super) const CHECKED: Way = Way {
    what: "one sequence-checked INSERT each on 64 connections (the floor)",
    name: "checked",
    tables: EVENTS,
    first: INSERT,
    next: "
        INSERT INTO events (log, seq, recorded_at, kind, payload)
        SELECT $1::text, $2::int8, $3::int8, $4::text, $5::bytea
        WHERE EXISTS (SELECT FROM events WHERE log = $1 AND seq = $2 - 1)",
    checks: true,
};

/// With a head, as ours: one row more that is changed.
pub(super) const HEADED: Way = Way {
    what: "the same with a row for the head of each log",
    name: "headed",
    tables: "
        CREATE TABLE events (
            log text NOT NULL, seq int8 NOT NULL, recorded_at int8 NOT NULL, kind text NOT NULL, payload bytea NOT NULL,
            PRIMARY KEY (log, seq)
        );
        CREATE TABLE heads (log text PRIMARY KEY, next_seq int8 NOT NULL, updated_at int8 NOT NULL) WITH (fillfactor = 80);",
    first: "
        WITH head AS (INSERT INTO heads (log, next_seq, updated_at) VALUES ($1, $2::int8 + 1, $3) RETURNING log)
        INSERT INTO events (log, seq, recorded_at, kind, payload) SELECT log, $2::int8, $3::int8, $4::text, $5::bytea FROM head",
    next: "
        WITH head AS (
            UPDATE heads SET next_seq = $2::int8 + 1, updated_at = $3 WHERE log = $1 AND next_seq = $2 RETURNING log
        )
        INSERT INTO events (log, seq, recorded_at, kind, payload) SELECT log, $2::int8, $3::int8, $4::text, $5::bytea FROM head",
    checks: true,
};

/// Refuses only what is there already.
pub(super) const PLAIN: Way = Way {
    what: "one prepared INSERT, without a check of the sequence",
    name: "plain",
    tables: EVENTS,
    first: INSERT,
    next: INSERT,
    checks: false,
};

/// As ours has it on its connections: everything is found by an index, whatever the planner believes of a new table.
const SETTINGS: &str = "SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan";

const KIND: &str = "step.completed";
const PAYLOAD: [u8; 256] = [7; 256];
/// How many events a log gets before the writer goes on with another.
const LOG: i64 = 100;

/// A connection, and where its writer is.
struct Writer {
    client: Client,
    first: Statement,
    next: Statement,
    log: ExecutionId,
    seq: i64,
}

impl Writer {
    async fn new(server: &Server, way: &Way) -> Result<Self, Failure> {
        let client = server.connect(way.name).await?;
        client.batch_execute(SETTINGS).await?;
        Ok(Self {
            first: client.prepare(way.first).await?,
            next: client.prepare(way.next).await?,
            client,
            log: ExecutionId::generate(),
            seq: 0,
        })
    }

    /// Appends one event, and says whether that was done.
    async fn try_append(&self, seq: i64) -> Result<bool, Failure> {
        let statement = if seq == 0 { &self.first } else { &self.next };
        let (log, now) = (self.log.as_str(), now());
        let event: [&(dyn ToSql + Sync); 5] = [&log, &seq, &now, &KIND, &PAYLOAD.as_slice()];
        match self.client.execute(statement, &event).await {
            Ok(inserted) => Ok(inserted == 1),
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn append(&mut self) -> Result<(), Failure> {
        if self.seq == LOG {
            (self.log, self.seq) = (ExecutionId::generate(), 0);
        }
        if !self.try_append(self.seq).await? {
            return Err("an append by hand was refused".into());
        }
        self.seq += 1;
        Ok(())
    }
}

fn now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
}

/// Writers with a connection each.
pub(super) struct ByHand {
    way: &'static Way,
    writers: Vec<Writer>,
    appended: u64,
}

impl ByHand {
    pub(super) async fn create(
        server: &Server,
        way: &'static Way,
        writers: usize,
    ) -> Result<Self, Failure> {
        server.database(way.name).await?;
        server
            .connect(way.name)
            .await?
            .batch_execute(way.tables)
            .await?;
        let mut made = Vec::with_capacity(writers);
        for _ in 0..writers {
            made.push(Writer::new(server, way).await?);
        }
        let mut by_hand = Self {
            way,
            writers: made,
            appended: 0,
        };
        by_hand.try_out(server).await?;
        Ok(by_hand)
    }

    /// Fails unless it refuses what it has to.
    async fn try_out(&mut self, server: &Server) -> Result<(), Failure> {
        let writer = Writer::new(server, self.way).await?;
        let answers = [
            writer.try_append(0).await?,
            writer.try_append(0).await?,
            writer.try_append(1).await?,
            writer.try_append(1).await?,
            writer.try_append(3).await?,
        ];
        let gap = !self.way.checks;
        if answers != [true, false, true, false, gap] {
            let what = self.way.what;
            return Err(format!("{what}: appends at 0, 0, 1, 1 and 3 gave {answers:?}").into());
        }
        self.appended += answers.map(u64::from).iter().sum::<u64>();
        Ok(())
    }

    /// Has each writer append `each` events, and says how many that are in a second.
    pub(super) async fn append(&mut self, each: u64) -> Result<f64, Failure> {
        let count = each * self.writers.len() as u64;
        let started = Instant::now();
        let tasks: Vec<_> = self
            .writers
            .drain(..)
            .map(|mut writer| {
                tokio::spawn(async move {
                    for _ in 0..each {
                        writer.append().await?;
                    }
                    Ok::<_, Failure>(writer)
                })
            })
            .collect();
        let mut writers = Vec::with_capacity(tasks.len());
        for task in tasks {
            writers.push(task.await??);
        }
        let rate = per_second(count, started.elapsed());
        self.writers = writers;
        self.appended += count;
        Ok(rate)
    }

    /// Fails unless every event is there, each from a transaction of its own, and no log has a gap.
    pub(super) async fn verify(&self, server: &Server) -> Result<(), Failure> {
        let client = server.connect(self.way.name).await?;
        let row = client
            .query_one(
                "SELECT count(*), count(DISTINCT xmin::text),
                        (SELECT count(*) FROM (
                             SELECT FROM events GROUP BY log HAVING count(*) <> max(seq) + 1
                         ) AS gaps)
                 FROM events",
                &[],
            )
            .await?;
        let found: [i64; 3] = [row.get(0), row.get(1), row.get(2)];
        let appended = i64::try_from(self.appended)?;
        let gaps = i64::from(!self.way.checks);
        if found == [appended, appended, gaps] {
            return Ok(());
        }
        let what = self.way.what;
        Err(format!(
            "{what}: {appended} events were appended; events, transactions and gaps: {found:?}"
        )
        .into())
    }
}

/// The ceiling: as many events at once as there are writers, unchecked.
pub(super) struct Batches {
    connections: Vec<(Client, Statement)>,
}

/// Events of a transaction.
const BATCH: usize = 64;

impl Batches {
    pub(super) const WHAT: &str =
        "64 events a transaction by `unnest`, unchecked, on 4 connections (the ceiling)";

    pub(super) async fn create(server: &Server) -> Result<Self, Failure> {
        server.database("batches").await?;
        let mut connections = Vec::new();
        for connection in 0..4 {
            let client = server.connect("batches").await?;
            if connection == 0 {
                client.batch_execute(EVENTS).await?;
            }
            client.batch_execute(SETTINGS).await?;
            let insert = client
                .prepare(
                    "INSERT INTO events (log, seq, recorded_at, kind, payload)
                     SELECT * FROM unnest($1::text[], $2::int8[], $3::int8[], $4::text[], $5::bytea[])",
                )
                .await?;
            connections.push((client, insert));
        }
        Ok(Self { connections })
    }

    /// Has each connection write so many transactions, and says how many events that are in a second.
    pub(super) async fn append(&mut self, transactions: i64) -> Result<f64, Failure> {
        let count = self.connections.len() as u64 * transactions.cast_unsigned() * BATCH as u64;
        let started = Instant::now();
        let tasks: Vec<_> = self
            .connections
            .drain(..)
            .map(|(client, insert)| {
                tokio::spawn(async move {
                    let logs: Vec<_> = (0..BATCH).map(|_| ExecutionId::generate()).collect();
                    let logs: Vec<&str> = logs.iter().map(ExecutionId::as_str).collect();
                    for seq in 0..transactions {
                        let (seqs, times) = ([seq; BATCH], [now(); BATCH]);
                        let (kinds, payloads) = ([KIND; BATCH], [PAYLOAD.as_slice(); BATCH]);
                        let inserted = client
                            .execute(
                                &insert,
                                &[
                                    &logs,
                                    &seqs.as_slice(),
                                    &times.as_slice(),
                                    &kinds.as_slice(),
                                    &payloads.as_slice(),
                                ],
                            )
                            .await?;
                        if inserted != BATCH as u64 {
                            return Err("a batch was not inserted in full".into());
                        }
                    }
                    Ok::<_, Failure>((client, insert))
                })
            })
            .collect();
        for task in tasks {
            self.connections.push(task.await??);
        }
        Ok(per_second(count, started.elapsed()))
    }
}
