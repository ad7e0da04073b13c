//! What a careful person writes without Loom: a table of events, and one of how long each log is.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use loom_test_postgres::{Cluster, unique_name};
use tokio_postgres::{Client, NoTls, Statement};

use super::BYTES;
use crate::Failure;

/// A schema, and connections to it with their statements.
pub(super) struct Tables {
    connections: Vec<Connection>,
}

struct Connection {
    client: Client,
    checked: Statement,
    bare: Statement,
    batch: Statement,
}

/// The head row says which sequence is next; an append that expects another one inserts nothing.
const CHECKED: &str = "
    WITH head AS (
        INSERT INTO heads AS h (id, next) VALUES ($1, $2::int8 + 1)
        ON CONFLICT (id) DO UPDATE SET next = h.next + 1 WHERE h.next = $2
        RETURNING h.id
    )
    INSERT INTO events (id, seq, at, kind, payload)
    SELECT head.id, $2, $3, $4, $5 FROM head";

const BARE: &str = "INSERT INTO events (id, seq, at, kind, payload) VALUES ($1, $2, $3, $4, $5)";

const BATCH: &str = "
    INSERT INTO events (id, seq, at, kind, payload)
    SELECT * FROM unnest($1::text[], $2::int8[], $3::int8[], $4::text[], $5::bytea[])";

impl Tables {
    pub(super) async fn create(cluster: &Cluster, connections: usize) -> Result<Self, Failure> {
        let schema = unique_name();
        let client = connect(cluster).await?;
        client
            .batch_execute(&format!(
                "CREATE SCHEMA {schema};
                 CREATE TABLE {schema}.heads (id text PRIMARY KEY, next int8 NOT NULL) WITH (fillfactor = 80);
                 CREATE TABLE {schema}.events (
                     id text NOT NULL, seq int8 NOT NULL, at int8 NOT NULL, kind text NOT NULL, payload bytea NOT NULL,
                     PRIMARY KEY (id, seq)
                 )"
            ))
            .await?;
        let opened = (0..connections).map(|_| async {
            let client = connect(cluster).await?;
            client
                .batch_execute(&format!("SET search_path = {schema}"))
                .await?;
            Ok::<_, Failure>(Connection {
                checked: client.prepare(CHECKED).await?,
                bare: client.prepare(BARE).await?,
                batch: client.prepare(BATCH).await?,
                client,
            })
        });
        Ok(Self {
            connections: try_join_all(opened).await?,
        })
    }

    /// Writers that append one event at a time, each on a connection of its own as far as there are some.
    pub(super) async fn one_by_one(
        &self,
        writers: usize,
        each: u64,
        round: usize,
    ) -> Result<Duration, Failure> {
        let payload = vec![7_u8; BYTES];
        let begun = Instant::now();
        let writing =
            (0..writers)
                .zip(self.connections.iter().cycle())
                .map(|(writer, connection)| {
                    let (id, payload) = (format!("bench-{round}-{writer}"), &payload);
                    async move {
                        for sequence in 0..each.cast_signed() {
                            let inserted = connection
                                .client
                                .execute(
                                    &connection.checked,
                                    &[&id, &sequence, &0_i64, &"bench.event", payload],
                                )
                                .await?;
                            if inserted != 1 {
                                return Err(Failure::from("the sequence is another one"));
                            }
                        }
                        Ok(())
                    }
                });
        try_join_all(writing).await?;
        Ok(begun.elapsed())
    }

    /// Batches of appends to as many logs, on some connections at a time.
    pub(super) async fn in_batches(
        &self,
        connections: usize,
        batches: u64,
        size: usize,
        round: usize,
    ) -> Result<Duration, Failure> {
        let payload = vec![7_u8; BYTES];
        let begun = Instant::now();
        let writing =
            self.connections
                .iter()
                .take(connections)
                .enumerate()
                .map(|(number, connection)| {
                    let payload = payload.as_slice();
                    async move {
                        let ids: Vec<String> = (0..size)
                            .map(|log| format!("bench-{round}-{number}-{log}"))
                            .collect();
                        let (times, kinds) = (vec![0_i64; size], vec!["bench.event"; size]);
                        let payloads = vec![payload; size];
                        for sequence in 0..batches.cast_signed() {
                            let sequences = vec![sequence; size];
                            connection
                                .client
                                .execute(
                                    &connection.batch,
                                    &[&ids, &sequences, &times, &kinds, &payloads],
                                )
                                .await?;
                        }
                        Ok::<_, Failure>(())
                    }
                });
        try_join_all(writing).await?;
        Ok(begun.elapsed())
    }

    /// One connection, one event at a time, nothing checked.
    pub(super) async fn inserted(&self, appends: u64, round: usize) -> Result<Duration, Failure> {
        let connection = self.connections.first().ok_or("no connection")?;
        let (id, payload) = (format!("bench-{round}"), vec![7_u8; BYTES]);
        let begun = Instant::now();
        for sequence in 0..appends.cast_signed() {
            connection
                .client
                .execute(
                    &connection.bare,
                    &[&id, &sequence, &0_i64, &"bench.event", &payload],
                )
                .await?;
        }
        Ok(begun.elapsed())
    }
}

async fn connect(cluster: &Cluster) -> Result<Client, Failure> {
    let (client, connection) = tokio_postgres::connect(&cluster.url("postgres"), NoTls).await?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}
